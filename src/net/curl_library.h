// libcurl, loaded when it is first needed (docs/decisions/0006): its functions by their names
// without curl_.
#pragma once

// The type checks are macros over the names that are loaded here.
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

// Also initializes it, once for the process. Any thread; each calls it before it uses lib_curl.
int curl_library_load(struct err *e);
