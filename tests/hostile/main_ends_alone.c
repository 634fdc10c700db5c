// main leaves through pthread_exit where the profiler cannot ask /proc which threads are left:
// after a chroot, without descriptors, or after kiln_stop, when nobody asks. The process must end
// with its last thread all the same. Exit handlers then run as in any thread of the program:
// signals reach it.
#include "hostile.h"

#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>

static volatile sig_atomic_t calls;

static void on_signal(int signal)
{
    calls++;
}

static void at_exit(void)
{
    raise(SIGUSR1);
    fact("a signal reaches an exit handler", calls == 1);
}

static void *work(void *context)
{
    burn(0.02);
    pause_ms(300);
    say("a worker is done\n");
    return context;
}

int main(int argc, char **argv)
{
    require(argc >= 2, "an argument");
    hostile_begin();
    burn(0.05);
    if (is(argv[1], "chroot"))
        require(chroot(".") == 0, "chroot");
    if (is(argv[1], "descriptors")) {
        struct rlimit none = {0, 0};
        require(setrlimit(RLIMIT_NOFILE, &none) == 0, "setrlimit");
    }
    if (is(argv[1], "signals")) {
        signal(SIGUSR1, on_signal);
        atexit(at_exit);
    }
#ifdef KILN_LINKED
    if (is(argv[1], "stopped"))
        kiln_stop();
#endif
    for (int i = 0; i < 2; i++) {
        pthread_t thread;
        require(pthread_create(&thread, NULL, work, NULL) == 0, "pthread_create");
        pthread_detach(thread);
    }
    pthread_exit(NULL);
}
