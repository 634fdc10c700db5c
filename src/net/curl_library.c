#include "net/curl_library.h"

#include <dlfcn.h>

struct curl_library lib_curl;

int curl_library_load(struct err *e)
{
    if (lib_curl.easy_init)
        return 0;
    void *handle = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        return err_set(e,
                       "http fetch: libcurl is missing (%s); install it with: apt-get install "
                       "libcurl4",
                       dlerror());
    struct curl_library found;
#define LOAD(name)                                                            \
    if (!(found.name = (__typeof__(found.name))dlsym(handle, "curl_" #name))) \
        return err_set(e, "http fetch: libcurl has no curl_" #name);
    CURL_FUNCTIONS(LOAD)
    lib_curl = found;
    lib_curl.global_init(CURL_GLOBAL_DEFAULT);
    return 0;
}
