#include "capture/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

// --- a timer of the thread ---

static int open_timer(struct capture_thread *t)
{
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGPROF};
    event.sigev_value.sival_ptr =
        (void *)(uintptr_t)((uint64_t)capture_state.cookie << 32 |
                            (atomic_load(&t->generation) & 0xffff) << 16 | t->index);
    event.sigev_notify_thread_id = t->tid;
    return (int)syscall(SYS_timer_create, thread_cpu_clock(t->tid), &event, &t->timer);
}

static int run_timer(struct capture_thread *t, uint64_t first, uint64_t period)
{
    struct itimerspec when = {
        .it_interval = {(time_t)(period / 1000000000u), (long)(period % 1000000000u)},
        .it_value = {(time_t)(first / 1000000000u), (long)(first % 1000000000u)},
    };
    return (int)syscall(SYS_timer_settime, t->timer, 0, &when, NULL);
}

// --- a perf event ---

// Above what programs use: some close all the descriptors that they think could be theirs.
enum { PERF_FD = 900 };

static int open_event(pid_t tid, bool without_kernel)
{
    struct perf_event_attr attr = {
        .size = sizeof attr,
        .type = PERF_TYPE_SOFTWARE,
        .config = PERF_COUNT_SW_TASK_CLOCK,
        .sample_period = capture_state.period_ns,
        .disabled = 1,
        .exclude_kernel = without_kernel,
        .exclude_hv = 1,
    };
    return (int)syscall(SYS_perf_event_open, &attr, tid, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

static int open_perf(struct capture_thread *t)
{
    int fd = open_event(t->tid, false);
    if (fd < 0 && (errno == EACCES || errno == EPERM))
        fd = open_event(t->tid, true);
    if (fd < 0)
        return -1;
    int high = fcntl(fd, F_DUPFD_CLOEXEC, PERF_FD);
    if (high >= 0) {
        close(fd);
        fd = high;
    }
    struct f_owner_ex owner = {F_OWNER_TID, t->tid};
    if (ioctl(fd, PERF_EVENT_IOC_ID, &t->perf_id) || fcntl(fd, F_SETOWN_EX, &owner) ||
        fcntl(fd, F_SETSIG, SIGPROF) || fcntl(fd, F_SETFL, O_ASYNC)) {
        close(fd);
        return -1;
    }
    t->timer = fd;
    return 0;
}

// The program may have closed it, and the number may be that of something else by now.
static void close_perf(struct capture_thread *t)
{
    uint64_t id;
    if (ioctl(t->timer, PERF_EVENT_IOC_ID, &id) == 0 && id == t->perf_id)
        close(t->timer);
}

int clock_check_perf(struct err *e)
{
    int fd = open_event(0, true);
    if (fd >= 0)
        return close(fd);
    return err_set(
        e,
        "perf events are not permitted (%s): set kernel.perf_event_paranoid to 2 or "
        "less, allow perf_event_open in the container, or leave the clock at its default",
        strerror(errno));
}

// --- the timer of the process ---

static _Atomic uint32_t n_by_process;

static bool is_ours(const struct itimerval *timer)
{
    uint64_t us =
        (uint64_t)timer->it_interval.tv_sec * 1000000u + (uint64_t)timer->it_interval.tv_usec;
    return us && us == atomic_load(&capture_state.process_period_us);
}

static int set_process_timer(uint64_t us)
{
    struct timeval period = {(time_t)(us / 1000000u), (suseconds_t)(us % 1000000u)};
    struct itimerval timer = {period, period}, now;
    if (getitimer(ITIMER_PROF, &now))
        return -1;
    bool taken = timerisset(&now.it_interval) || timerisset(&now.it_value);
    if (taken && !is_ours(&now)) {
        atomic_store(&capture_state.process_period_us, 0);
        errno = EBUSY;
        return -1;
    }
    // Before the first signal can come, which is to be known for ours.
    atomic_store(&capture_state.process_period_us, us);
    return setitimer(ITIMER_PROF, &timer, NULL);
}

static int run_by_process(uint64_t period)
{
    return set_process_timer(period / 1000 ? period / 1000 : 1);
}

static void leave_process(void)
{
    if (atomic_fetch_sub(&n_by_process, 1) == 1)
        set_process_timer(0);
}

void clock_keep_process(void)
{
    if (atomic_load(&n_by_process))
        run_by_process(capture_state.period_ns);
}

void clock_before_exec(void)
{
    if (atomic_load(&n_by_process))
        set_process_timer(0);
}

void clock_after_fork_in_child(void)
{
    EACH_SLOT(t)
    if (atomic_load(&t->state) == THREAD_ARMED && atomic_load(&t->clock) == CLOCK_PERF)
        close_perf(t);
    atomic_store(&n_by_process, 0);
    atomic_store(&capture_state.process_period_us, 0);
}

// --- any of them ---

int clock_open(struct capture_thread *t)
{
    if (capture_state.perf && open_perf(t) == 0) {
        atomic_store(&t->clock, CLOCK_PERF);
        return 0;
    }
    if (open_timer(t) == 0) {
        atomic_store(&t->clock, CLOCK_TIMER);
        return 0;
    }
    // Limits on pending signals are limits on timers, too.
    if (errno != EAGAIN && errno != ENOSYS && errno != EPERM)
        return -1;
    atomic_store(&t->clock, CLOCK_PROCESS);
    atomic_fetch_add(&n_by_process, 1);
    return 0;
}

int clock_run(struct capture_thread *t, uint64_t first, uint64_t period)
{
    int clock = (int)atomic_load(&t->clock);
    int failed = clock == CLOCK_TIMER  ? run_timer(t, first, period)
                 : clock == CLOCK_PERF ? ioctl(t->timer, PERF_EVENT_IOC_ENABLE, 0)
                                       : run_by_process(period);
    if (failed)
        clock_close(t);
    return failed ? -1 : 0;
}

void clock_close(struct capture_thread *t)
{
    switch (atomic_load(&t->clock)) {
    case CLOCK_TIMER:
        syscall(SYS_timer_delete, t->timer);
        break;
    case CLOCK_PERF:
        close_perf(t);
        break;
    default:
        leave_process();
    }
}
