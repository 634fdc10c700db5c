// prctl is variadic: an interposer must pass all arguments on, unchanged, and return what the
// kernel says, errno included. Names that threads give themselves stay.
#include "hostile.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/personality.h>
#include <sys/prctl.h>

static void *name_itself(void *context)
{
    char by_prctl[17] = "", by_libc[17] = "";
    prctl(PR_SET_NAME, "by-prctl");
    burn(0.02);
    prctl(PR_GET_NAME, by_prctl);
    pthread_setname_np(pthread_self(), "by-libc");
    burn(0.02);
    pthread_getname_np(pthread_self(), by_libc, sizeof by_libc);
    fact("names stay", is(by_prctl, "by-prctl") && is(by_libc, "by-libc"));
    return context;
}

int main(void)
{
    hostile_begin();
    pthread_t thread;
    require(pthread_create(&thread, NULL, name_itself, NULL) == 0, "pthread_create");
    pthread_join(thread, NULL);
    errno = 0;
    fact("a fifth argument arrives",
         prctl(PR_SET_NO_NEW_PRIVS, 1UL, 0UL, 0UL, 1UL) == -1 && errno == EINVAL);
    errno = 0;
    fact("a second argument arrives",
         prctl(PR_SET_NO_NEW_PRIVS, 2UL, 0UL, 0UL, 0UL) == -1 && errno == EINVAL);
    fact("unknown options fail", prctl(-1, 0UL, 0UL, 0UL, 0UL) == -1 && errno == EINVAL);
    int signal = 0;
    fact("PR_SET_PDEATHSIG", prctl(PR_SET_PDEATHSIG, (unsigned long)SIGUSR2) == 0 &&
                                 prctl(PR_GET_PDEATHSIG, &signal) == 0 && signal == SIGUSR2);
    prctl(PR_SET_PDEATHSIG, 0UL);
    fact("dumpable", prctl(PR_GET_DUMPABLE) == 1);
    fact("not dumpable", prctl(PR_SET_DUMPABLE, 0UL) == 0 && prctl(PR_GET_DUMPABLE) == 0);
    // /proc/self belongs to root now; the profiler has to live with that.
    require(pthread_create(&thread, NULL, name_itself, NULL) == 0, "pthread_create");
    pthread_join(thread, NULL);
    int had = personality(0xffffffff);
    fact("personality", personality((unsigned long)had | ADDR_NO_RANDOMIZE) == had);
    fact("no new privileges", prctl(PR_SET_NO_NEW_PRIVS, 1UL, 0UL, 0UL, 0UL) == 0);
    burn(0.05);
    return 0;
}
