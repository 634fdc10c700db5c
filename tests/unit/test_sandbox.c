// What filters would do to our calls: src/process/sandbox.c. Whether the kernel agrees is shown by
// a child that installs each filter and makes the call.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "process/sandbox.h"

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define IF(nr, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, yes, no)
#define RETURN(action) BPF_STMT(BPF_RET | BPF_K, action)
#define LENGTH(a) (sizeof(a) / sizeof *(a))

static struct sandbox_verdict ask(const struct sock_filter *filter, size_t n)
{
    struct sandbox_verdict v;
    sandbox_evaluate_filter((const struct sandbox_instruction *)filter, n, &v);
    return v;
}

static void filters_that_kill_nothing(void **state)
{
    struct sock_filter allow[] = {RETURN(SECCOMP_RET_ALLOW)};
    struct sock_filter refuse[] = {LOAD(nr), IF(SYS_openat, 0, 1),
                                   RETURN(SECCOMP_RET_ERRNO | EPERM), RETURN(SECCOMP_RET_ALLOW)};
    // One call that we never make.
    struct sock_filter other[] = {LOAD(nr), IF(SYS_ptrace, 0, 1), RETURN(SECCOMP_RET_KILL_PROCESS),
                                  RETURN(SECCOMP_RET_ALLOW)};
    const struct {
        const struct sock_filter *p;
        size_t n;
    } all[] = {{allow, LENGTH(allow)}, {refuse, LENGTH(refuse)}, {other, LENGTH(other)}};
    for (size_t i = 0; i < LENGTH(all); i++) {
        struct sandbox_verdict v = ask(all[i].p, all[i].n);
        assert_false(v.kills_calls);
        assert_false(v.kills_handler);
        assert_false(v.kills_wait);
    }
}

static void filters_that_kill(void **state)
{
    static const uint32_t actions[] = {SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_KILL_THREAD,
                                       SECCOMP_RET_TRAP,         SECCOMP_RET_TRACE,
                                       SECCOMP_RET_USER_NOTIF,   0x12340000};
    for (size_t i = 0; i < LENGTH(actions); i++) {
        struct sock_filter all[] = {RETURN(actions[i])};
        struct sandbox_verdict v = ask(all, LENGTH(all));
        assert_true(v.kills_calls && v.kills_handler && v.kills_wait);
        struct sock_filter one[] = {LOAD(nr), IF(SYS_mmap, 0, 1), RETURN(actions[i]),
                                    RETURN(SECCOMP_RET_ALLOW)};
        v = ask(one, LENGTH(one));
        assert_true(v.kills_calls);
        assert_false(v.kills_handler);
        assert_false(v.kills_wait);
    }
}

static void returning_and_waiting(void **state)
{
    struct sock_filter few[] = {LOAD(nr),
                                IF(SYS_rt_sigreturn, 4, 0),
                                IF(SYS_futex, 3, 0),
                                IF(SYS_clock_gettime, 2, 0),
                                IF(SYS_getpid, 1, 0),
                                RETURN(SECCOMP_RET_KILL_PROCESS),
                                RETURN(SECCOMP_RET_ALLOW)};
    struct sandbox_verdict v = ask(few, LENGTH(few));
    assert_true(v.kills_calls);
    assert_false(v.kills_handler);
    assert_false(v.kills_wait);
}

static void arguments_are_not_known(void **state)
{
    // futex is allowed for some operations only.
    struct sock_filter by_argument[] = {LOAD(nr),
                                        IF(SYS_futex, 0, 3),
                                        LOAD(args[1]),
                                        IF(129, 1, 0),
                                        RETURN(SECCOMP_RET_KILL_PROCESS),
                                        RETURN(SECCOMP_RET_ALLOW)};
    struct sandbox_verdict v = ask(by_argument, LENGTH(by_argument));
    assert_true(v.kills_wait);
    assert_false(v.kills_handler);
    // What is calculated from an argument, kept and compared is not known either.
    struct sock_filter kept[] = {LOAD(args[0]),
                                 BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 1),
                                 BPF_STMT(BPF_ST, 3),
                                 BPF_STMT(BPF_LDX | BPF_W | BPF_MEM, 3),
                                 BPF_STMT(BPF_MISC | BPF_TXA, 0),
                                 BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, 0, 0, 1),
                                 RETURN(SECCOMP_RET_KILL_PROCESS),
                                 RETURN(SECCOMP_RET_ALLOW)};
    v = ask(kept, LENGTH(kept));
    assert_true(v.kills_calls && v.kills_handler && v.kills_wait);
    struct sock_filter known[] = {LOAD(arch),
                                  BPF_STMT(BPF_ALU | BPF_XOR | BPF_K, 0),
                                  BPF_STMT(BPF_MISC | BPF_TAX, 0),
                                  BPF_STMT(BPF_LD | BPF_IMM, 0),
                                  BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_X, 0, 0, 1),
                                  RETURN(SECCOMP_RET_KILL_PROCESS),
                                  RETURN(SECCOMP_RET_ALLOW)};
    v = ask(known, LENGTH(known));
    assert_false(v.kills_calls || v.kills_handler || v.kills_wait);
}

static void programs_that_are_none(void **state)
{
    struct sock_filter beyond[] = {BPF_STMT(BPF_JMP | BPF_JA, 4000000000u)};
    struct sock_filter endless[64];
    assert_true(ask(beyond, LENGTH(beyond)).kills_calls);
    assert_true(ask(beyond, 0).kills_calls);
    // Every instruction leads two ways: it must end soon, and assume the worst.
    endless[0] = (struct sock_filter)LOAD(args[0]);
    for (size_t i = 1; i < LENGTH(endless) - 1; i++)
        endless[i] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 1u << i % 32, 0, 0);
    endless[LENGTH(endless) - 1] = (struct sock_filter)RETURN(SECCOMP_RET_ALLOW);
    assert_true(ask(endless, LENGTH(endless)).kills_calls);
}

// Installs the filter in a child and makes the call there: did the kernel kill it?
static bool kernel_kills(const struct sock_filter *filter, size_t n, long call)
{
    struct sock_fprog program = {(unsigned short)n, (struct sock_filter *)filter};
    int status;
    pid_t child = fork();
    if (child == 0) {
        signal(SIGSYS, SIG_DFL);
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program))
            _exit(2);
        syscall(call, -1, 0, 0, 0, 0, 0);
        kill(getpid(), SIGUSR2);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_false(WIFEXITED(status));
    return WTERMSIG(status) != SIGUSR2;
}

static void the_kernel_agrees(void **state)
{
    if (syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &(uint32_t){SECCOMP_RET_KILL_PROCESS}))
        skip(); // qemu-user has no seccomp
    // kill and getpid end the child and must be allowed.
    for (unsigned seed = 1; seed <= 40; seed++) {
        struct sock_filter filter[12];
        size_t n = 0;
        srandom(seed);
        filter[n++] = (struct sock_filter)LOAD(nr);
        filter[n++] = (struct sock_filter)IF(SYS_kill, 8, 0);
        filter[n++] = (struct sock_filter)IF(SYS_getpid, 7, 0);
        for (; n < 9; n++) {
            unsigned left = 9 - (unsigned)n;
            uint32_t k = (uint32_t)random() % 350;
            filter[n] = (struct sock_filter)BPF_JUMP(
                BPF_JMP | (random() % 2 ? BPF_JGT : BPF_JGE) | BPF_K, k,
                (uint8_t)(random() % (left + 1)), (uint8_t)(random() % (left + 1)));
        }
        filter[n++] = (struct sock_filter)RETURN(SECCOMP_RET_KILL_PROCESS);
        filter[n++] = (struct sock_filter)RETURN(SECCOMP_RET_ALLOW);
        filter[n++] = (struct sock_filter)RETURN(SECCOMP_RET_ALLOW);
        // Of the three calls that decide alone, futex is the one that can be made here.
        struct sandbox_verdict v = ask(filter, n);
        bool futex = kernel_kills(filter, n, SYS_futex);
        bool clock = kernel_kills(filter, n, SYS_clock_gettime);
        assert_int_equal(v.kills_wait, futex || clock);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(filters_that_kill_nothing), cmocka_unit_test(filters_that_kill),
        cmocka_unit_test(returning_and_waiting),     cmocka_unit_test(arguments_are_not_known),
        cmocka_unit_test(programs_that_are_none),    cmocka_unit_test(the_kernel_agrees),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
