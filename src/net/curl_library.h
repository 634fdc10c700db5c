// libcurl, loaded on first use (docs/decisions/0006). The members have libcurl's function names
// without curl_.
#pragma once

// The type checks are macros with the same names as the loaded functions.
#define CURL_DISABLE_TYPECHECK 1
#include <curl/curl.h>
#undef curl_easy_setopt
#undef curl_easy_getinfo

#include "base/err.h"

#define CURL_FUNCTIONS(X)  \
    X(easy_init)           \
    X(easy_setopt)         \
    X(easy_getinfo)        \
    X(easy_strerror)       \
    X(easy_cleanup)        \
    X(global_init)         \
    X(slist_append)        \
    X(slist_free_all)      \
    X(multi_init)          \
    X(multi_add_handle)    \
    X(multi_remove_handle) \
    X(multi_perform)       \
    X(multi_poll)          \
    X(multi_wakeup)        \
    X(multi_info_read)     \
    X(multi_cleanup)

#define CURL_DECLARE(name) __typeof__(curl_##name) *name;
struct curl_library {
    CURL_FUNCTIONS(CURL_DECLARE)
};
extern struct curl_library lib_curl;

// Loads and initializes libcurl once per process. Thread-safe. Call it before using lib_curl.
// Returns -1 with e filled on failure.
int curl_library_load(struct err *e);
