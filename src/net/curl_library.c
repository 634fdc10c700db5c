#include "net/curl_library.h"

#include <dlfcn.h>
#include <pthread.h>

struct curl_library lib_curl;

static int load_curl(struct err *e)
{
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
    found.global_init(CURL_GLOBAL_DEFAULT);
    lib_curl = found;
    return 0;
}

int curl_library_load(struct err *e)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    int result = lib_curl.easy_init ? 0 : load_curl(e);
    pthread_mutex_unlock(&lock);
    return result;
}
