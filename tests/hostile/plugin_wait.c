// A plugin whose constructor waits for a thread that names itself. An interposed prctl that calls
// dlsym waits for the loader's lock, which the constructor's thread holds: this hung even where
// nothing was profiled.
#include <pthread.h>
#include <sys/prctl.h>

static void *work(void *context)
{
    prctl(PR_SET_NAME, "plugin");
    return context;
}

__attribute__((constructor)) static void begin(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, work, NULL) == 0)
        pthread_join(thread, NULL);
}
