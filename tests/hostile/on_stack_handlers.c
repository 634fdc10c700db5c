// Handlers with SA_ONSTACK in threads that have no alternate stack: they run where the program was,
// with all the room of that stack, and sigaction shows what was set.
#include "hostile.h"

#include <pthread.h>
#include <signal.h>
#include <stdint.h>

enum { LARGE = 300 << 10 };

static volatile uintptr_t handler_at;
static volatile int calls, nested_calls;
static volatile long with_code, with_value;

// More than 64 KiB, all of it used.
static void on_large(int signal)
{
    volatile char room[LARGE];
    for (size_t i = 0; i < sizeof room; i += 64)
        room[i] = (char)i;
    handler_at = (uintptr_t)__builtin_frame_address(0);
    calls++;
}

static void on_nested(int signal)
{
    nested_calls++;
}

static void on_outer(int signal, siginfo_t *info, void *context)
{
    volatile uint64_t check[64];
    for (int i = 0; i < 64; i++)
        check[i] = (uint64_t)i * 0x9e3779b97f4a7c15u;
    for (int i = 0; i < 50; i++) {
        raise(SIGUSR2);
        spin(20000);
    }
    for (int i = 0; i < 64; i++)
        require(check[i] == (uint64_t)i * 0x9e3779b97f4a7c15u, "an unchanged frame");
    with_code = info->si_code;
    with_value = info->si_value.sival_int;
    handler_at = (uintptr_t)__builtin_frame_address(0);
}

static void set(int signal, void *handler, int flags, sigset_t mask)
{
    struct sigaction action = {.sa_flags = flags | SA_ONSTACK, .sa_mask = mask};
    action.sa_sigaction = (void (*)(int, siginfo_t *, void *))handler;
    require(sigaction(signal, &action, NULL) == 0, "sigaction");
}

static bool is_near(uintptr_t at)
{
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    return here - at < LARGE + 65536;
}

static bool same_mask(const sigset_t *a, const sigset_t *b)
{
    for (int s = 1; s < NSIG; s++)
        if (sigismember(a, s) != sigismember(b, s))
            return false;
    return true;
}

static void look_at_actions(sigset_t mask)
{
    struct sigaction now, again;
    sigset_t in_handler;
    require(sigaction(SIGUSR1, NULL, &now) == 0, "sigaction");
    fact("the handler is shown", now.sa_handler == on_large);
    fact("the flags are shown", (now.sa_flags & (SA_SIGINFO | SA_ONSTACK)) == SA_ONSTACK);
    sigset_t kept = mask;
    sigdelset(&kept, SIGKILL);
    sigdelset(&kept, SIGSTOP);
    fact("the mask is shown", same_mask(&now.sa_mask, &kept));
    require(sigaction(SIGUSR1, &now, &again) == 0, "sigaction");
    fact("the handler before is shown", again.sa_handler == on_large);
    require(sigaction(SIGHUP, NULL, &now) == 0, "sigaction");
    fact("the handler with three arguments is shown",
         now.sa_sigaction == on_outer && now.sa_flags & SA_SIGINFO);
    fact("signal tells the handler before", signal(SIGUSR1, on_nested) == on_large);
    raise(SIGUSR1);
    fact("and replaces it", nested_calls > 0);
    fact("for itself, too", signal(SIGUSR1, SIG_DFL) == on_nested);
    sigprocmask(SIG_BLOCK, NULL, &in_handler);
    fact("nothing stays blocked", !sigismember(&in_handler, SIGUSR1));
    set(SIGUSR1, (void *)on_large, 0, mask);
}

static volatile double sum;

static void *work(void *context)
{
    double x = 1;
    for (int i = 0; i < 30; i++) {
        raise(SIGUSR1);
        for (int k = 0; k < 100000; k++)
            x += x / (k + 3.0);
        x = x > 1e9 ? 1 : x;
    }
    sum = x;
    fact("the handler ran each time", calls % 30 == 0 && calls > 0);
    fact("the handler ran on the stack of the thread", is_near(handler_at));
    union sigval value = {.sival_int = 77};
    pthread_sigqueue(pthread_self(), SIGHUP, value);
    fact("a handler that others interrupt", with_code == SI_QUEUE && with_value == 77);
    fact("and it ran there, too", is_near(handler_at));
    return context;
}

int main(int argc, char **argv)
{
    sigset_t mask;
    require(argc == 3, "arguments");
    if (is(argv[1], "full"))
        sigfillset(&mask);
    else
        sigemptyset(&mask);
    sigset_t none;
    sigemptyset(&none);
    bool early = is(argv[2], "early");
    if (!early)
        hostile_begin();
    set(SIGUSR1, (void *)on_large, 0, mask);
    set(SIGUSR2, (void *)on_nested, SA_NODEFER, none);
    set(SIGHUP, (void *)on_outer, SA_SIGINFO, none);
    if (early)
        hostile_begin();
    burn(0.05);
    work(NULL);
    pthread_t thread;
    require(pthread_create(&thread, NULL, work, NULL) == 0, "pthread_create");
    pthread_join(thread, NULL);
    look_at_actions(mask);
    work(NULL);
    return 0;
}
