#include "agent/keeper.h"

#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "base/attributes.h"
#include "capture/capture.h"
#include "capture/heap_capture.h"
#include "process/call.h"
#include "process/clock.h"
#include "process/own_threads.h"

enum { CHECKPOINT_SECONDS = 1 };
enum { WRITE_AT_EXIT = 1, END_PROCESS = 2, WAKE = 4 };

static struct {
    _Atomic uint32_t jobs, written; // futexes
    _Atomic bool started, regularly;
    _Atomic int status;
    _Atomic(const struct keeper_hooks *) hooks;
} keeper;

static __thread bool is_keeper INITIAL_EXEC;

static void keeper_futex(_Atomic uint32_t *word, int operation, uint32_t value,
                         struct timespec *timeout)
{
    process_call(SYS_futex, (long)word, operation | FUTEX_PRIVATE_FLAG, value, (long)timeout, 0, 0);
}

static void keeper_ask(uint32_t job)
{
    atomic_fetch_or(&keeper.jobs, job);
    keeper_futex(&keeper.jobs, FUTEX_WAKE, 1, NULL);
}

static void wake_keeper(void)
{
    keeper_ask(WAKE);
}

// Without exit handlers nobody else writes the profile, and this thread cannot wait for itself.
static void keeper_end_now(const struct keeper_hooks *hooks)
{
    int status = atomic_load(&keeper.status);
    if (status && hooks)
        hooks->write_at_exit();
    atomic_store(&keeper.written, 1);
    own_thread_end_process(status);
}

static void *keeper_main(void *context)
{
    struct timespec second = {.tv_sec = CHECKPOINT_SECONDS};
    is_keeper = true;
    capture_is_helper();
    capture_heap_enter();
    for (;;) {
        const struct keeper_hooks *hooks = atomic_load(&keeper.hooks);
        uint32_t jobs = atomic_exchange(&keeper.jobs, 0);
        bool regularly = hooks && atomic_load(&keeper.regularly);
        if (jobs & END_PROCESS)
            keeper_end_now(hooks);
        if (jobs & WRITE_AT_EXIT) {
            if (hooks)
                hooks->write_at_exit();
            atomic_store(&keeper.written, 1);
            keeper_futex(&keeper.written, FUTEX_WAKE, 1, NULL);
        } else if (regularly) {
            hooks->write_so_far();
        }
        own_thread_park_point();
        keeper_futex(&keeper.jobs, FUTEX_WAIT, 0, regularly ? &second : NULL);
    }
    return NULL;
}

void keeper_set_hooks(const struct keeper_hooks *hooks)
{
    atomic_store(&keeper.hooks, hooks);
}

int keeper_start(struct err *e)
{
    pthread_t thread;
    if (atomic_exchange(&keeper.started, true))
        return 0;
    own_threads_on_park(wake_keeper);
    int result =
        own_thread_start(&thread, keeper_main, NULL, OWN_THREAD_DETACHED, "that writes at exit", e);
    if (result)
        atomic_store(&keeper.started, false);
    return result;
}

void keeper_write_at_exit(unsigned seconds)
{
    uint64_t end = process_now_ns() + seconds * UINT64_C(1000000000);
    struct timespec second = {.tv_sec = 1};
    if (!atomic_load(&keeper.started))
        return;
    keeper_ask(WRITE_AT_EXIT);
    // A signal handler may fork meanwhile, and the child has no keeper to wait for.
    while (atomic_load(&keeper.started) && !atomic_load(&keeper.written) && process_now_ns() < end)
        keeper_futex(&keeper.written, FUTEX_WAIT, 0, &second);
}

bool keeper_can_write(void)
{
    return atomic_load(&keeper.started) && !is_keeper;
}

void keeper_write_regularly(void)
{
    atomic_store(&keeper.regularly, true);
    keeper_ask(WAKE);
}

void keeper_end_process(int status)
{
    atomic_store(&keeper.status, status);
    if (!atomic_load(&keeper.started))
        own_thread_end_process(status);
    keeper_ask(END_PROCESS);
}

void keeper_after_fork_in_child(void)
{
    atomic_store(&keeper.started, false);
    atomic_store(&keeper.regularly, false);
    atomic_store(&keeper.jobs, 0);
    atomic_store(&keeper.written, 0);
}
