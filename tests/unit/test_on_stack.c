// Handlers with SA_ONSTACK beside alternate stacks of ours: src/capture/on_stack.c and
// signal_frame.c.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

#include "capture/on_stack.h"
#include "capture/signal_stack.h"

static volatile uintptr_t handler_at;
static volatile int number, code, value;
static volatile double in_handler;
static sigset_t mask_there;
static stack_t stack_there;

static void note(int signal)
{
    handler_at = (uintptr_t)__builtin_frame_address(0);
    number = signal;
    sigprocmask(SIG_BLOCK, NULL, &mask_there);
    sigaltstack(NULL, &stack_there);
    double x = number;
    for (int i = 0; i < 100; i++)
        x = x * 1.5 - x / 3;
    in_handler = x;
}

static void note_all(int signal, siginfo_t *info, void *context)
{
    note(signal);
    code = info->si_code;
    value = info->si_value.sival_int;
}

typedef void handler(int, siginfo_t *, void *);

static void set(int signal, void *function, int flags)
{
    struct sigaction action = {.sa_sigaction = (handler *)function, .sa_flags = SA_ONSTACK | flags};
    sigaddset(&action.sa_mask, SIGUSR2);
    assert_int_equal(on_stack_sigaction(sigaction, signal, &action, NULL), 0);
}

static bool is_below(uintptr_t at)
{
    return (uintptr_t)__builtin_frame_address(0) - at < 65536;
}

static void test_handler_runs_on_interrupted_stack(void **state)
{
    sigset_t before, after;
    sigprocmask(SIG_BLOCK, NULL, &before);
    set(SIGUSR1, note, 0);
    volatile double x = 1;
    for (int i = 0; i < 100; i++) {
        x = x * 1.25;
        number = 0;
        raise(SIGUSR1);
        assert_int_equal(number, SIGUSR1);
        assert_true(is_below(handler_at));
        x = x / 1.25;
    }
    assert_true(x == 1);
    assert_int_equal(sigismember(&mask_there, SIGUSR1), 1);
    assert_int_equal(sigismember(&mask_there, SIGUSR2), 1);
    assert_int_equal(sigismember(&mask_there, SIGPROF), 0);
    assert_false(stack_there.ss_flags & (SS_ONSTACK | SS_DISABLE));
    sigprocmask(SIG_BLOCK, NULL, &after);
    assert_memory_equal(&before, &after, 8);
}

static void test_arguments(void **state)
{
    set(SIGUSR1, note_all, SA_SIGINFO | SA_NODEFER);
    assert_int_equal(sigqueue(getpid(), SIGUSR1, (union sigval){.sival_int = 77}), 0);
    assert_int_equal(code, SI_QUEUE);
    assert_int_equal(value, 77);
    assert_true(is_below(handler_at));
    assert_int_equal(sigismember(&mask_there, SIGUSR1), 0);
}

static void test_own_stack_of_program(void **state)
{
    static char memory[65536];
    stack_t mine = {.ss_sp = memory, .ss_size = sizeof memory}, had;
    set(SIGUSR1, note, 0);
    assert_int_equal(sigaltstack(&mine, &had), 0);
    assert_true(signal_stack_is(&had));
    raise(SIGUSR1);
    assert_true(handler_at - (uintptr_t)memory < sizeof memory);
    assert_int_equal(sigaltstack(&had, NULL), 0);
}

static void test_actions_are_shown(void **state)
{
    struct sigaction now, bad = {.sa_handler = note, .sa_flags = SA_ONSTACK};
    set(SIGUSR1, note, 0);
    assert_int_equal(on_stack_sigaction(sigaction, SIGUSR1, NULL, &now), 0);
    assert_ptr_equal(now.sa_handler, note);
    assert_int_equal(now.sa_flags & (SA_ONSTACK | SA_SIGINFO), SA_ONSTACK);
    assert_int_equal(sigismember(&now.sa_mask, SIGPROF), 0);
    assert_int_equal(sigaction(SIGUSR1, NULL, &now), 0);
    assert_ptr_not_equal(now.sa_handler, note);
    assert_ptr_equal(on_stack_unwrapped(SIGUSR1, now.sa_handler), note);
    on_stack_unwrap(SIGUSR1, &now);
    assert_ptr_equal(now.sa_handler, note);
    assert_int_equal(on_stack_sigaction(sigaction, SIGKILL, &bad, NULL), -1);
    assert_int_equal(on_stack_sigaction(sigaction, 1000, &bad, NULL), -1);
}

static ucontext_t scheduler, coroutine;

static void leave(int signal)
{
    swapcontext(&coroutine, &scheduler);
}

static void run_coroutine(void)
{
    volatile uint64_t check = 0x5a5a5a5a;
    raise(SIGUSR1);
    number = check == 0x5a5a5a5a ? 1 : 2;
}

// While the handler is suspended, others run.
static void test_suspended_handler(void **state)
{
    char *stack = malloc(262144);
    getcontext(&coroutine);
    coroutine.uc_stack.ss_sp = stack;
    coroutine.uc_stack.ss_size = 262144;
    coroutine.uc_link = &scheduler;
    makecontext(&coroutine, run_coroutine, 0);
    set(SIGUSR1, leave, SA_NODEFER);
    set(SIGUSR2, note, 0);
    swapcontext(&scheduler, &coroutine);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    for (int i = 0; i < 3; i++)
        raise(SIGUSR2);
    assert_int_equal(number, SIGUSR2);
    swapcontext(&scheduler, &coroutine);
    assert_int_equal(number, 1);
    free(stack);
}

// Sanitizers have set one.
static int set_stack(void **state)
{
    stack_t none = {.ss_flags = SS_DISABLE};
    sigaltstack(&none, NULL);
    signal_stack_set();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_handler_runs_on_interrupted_stack),
        cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_own_stack_of_program),
        cmocka_unit_test(test_actions_are_shown),
        cmocka_unit_test(test_suspended_handler),
    };
    return cmocka_run_group_tests(tests, set_stack, NULL);
}
