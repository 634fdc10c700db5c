// The order of what happens around fork: src/process/process.c.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "process/process.h"

static _Atomic int late_before, late_after;
static _Atomic bool subscribed;

static void before_late(void)
{
    atomic_fetch_add(&late_before, 1);
}

static void after_late(void)
{
    atomic_fetch_add(&late_after, 1);
}

static void *subscribe_late(void *context)
{
    static const struct process_fork_hooks late = {before_late, after_late, after_late};
    process_on_fork(PROCESS_FORK_ENDPOINTS, &late);
    atomic_store(&subscribed, true);
    return NULL;
}

static pthread_t subscriber;

// After this part's turn and before the fork itself.
static void before_early(void)
{
    struct timespec pause = {.tv_nsec = 20000000};
    pthread_create(&subscriber, NULL, subscribe_late, NULL);
    nanosleep(&pause, NULL);
}

static const struct process_fork_hooks early = {.before = before_early}, nothing;

static int fork_once(void)
{
    pid_t child = fork();
    if (child == 0)
        _exit(atomic_load(&late_before) == atomic_load(&late_after) ? 0 : 1);
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

// A part that subscribes while another thread forks would release locks that it never took.
static void hooks_come_in_pairs(void **state)
{
    process_on_fork(PROCESS_FORK_COLLECTOR, &early);
    assert_int_equal(fork_once(), 0);
    assert_int_equal(atomic_load(&late_before), atomic_load(&late_after));
    assert_int_equal(pthread_join(subscriber, NULL), 0);
    assert_true(atomic_load(&subscribed));

    process_on_fork(PROCESS_FORK_COLLECTOR, &nothing);
    assert_int_equal(fork_once(), 0);
    assert_int_equal(atomic_load(&late_before), 1);
    assert_int_equal(atomic_load(&late_after), 1);
}

// What starts again in a child subscribes there.
static void children_subscribe(void **state)
{
    pid_t child = fork();
    if (child == 0) {
        alarm(30);
        process_on_fork(PROCESS_FORK_COLLECTOR, &nothing);
        _exit(0);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hooks_come_in_pairs),
        cmocka_unit_test(children_subscribe),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
