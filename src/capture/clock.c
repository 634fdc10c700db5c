#include "capture/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include "process/sandbox.h"

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

// --- timer on a thread's CPU clock ---

static int open_timer(struct capture_thread *t)
{
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGPROF};
    event.sigev_value.sival_ptr =
        (void *)(uintptr_t)((uint64_t)capture_state.cookie << 32 |
                            (atomic_load(&t->generation) & 0xffff) << 16 | t->index);
    event.sigev_notify_thread_id = t->tid;
    return (int)syscall(SYS_timer_create, process_thread_clock(t->tid), &event, &t->timer);
}

static int run_timer(const struct capture_thread *t, uint64_t first, uint64_t period)
{
    struct itimerspec when = {
        .it_interval = {(time_t)(period / 1000000000u), (long)(period % 1000000000u)},
        .it_value = {(time_t)(first / 1000000000u), (long)(first % 1000000000u)},
    };
    return (int)syscall(SYS_timer_settime, t->timer, 0, &when, NULL);
}

void clock_stop(const struct capture_thread *t)
{
    if (atomic_load(&t->clock) == CLOCK_TIMER)
        run_timer(t, 0, 0);
}

// For a timer whose thread has ended, the kernel reports an interval of 0.
bool clock_is_dead(const struct capture_thread *t)
{
    struct itimerspec now;
    return atomic_load(&t->clock) == CLOCK_TIMER &&
           syscall(SYS_timer_gettime, t->timer, &now) == 0 && !now.it_interval.tv_sec &&
           !now.it_interval.tv_nsec;
}

// --- limits ---

// Each timer counts as a pending signal of the user, and each perf event is a descriptor. Use at
// most a quarter of a limit: the program and the user's other processes need the rest.
enum { SHARE = 4 };
// With fewer timers than this, busy threads that get none use the process timer.
enum { FEW_TIMERS = 1024 };

static struct clock_limit {
    _Atomic uint64_t most;
    _Atomic uint32_t used;
} timers, events;
// Whether a thread failed to get a timer since the limits were last read, and in the interval
// before that.
static _Atomic bool clocks_scarce, clocks_were_scarce;

static void clock_limit_read(int resource, struct clock_limit *limit)
{
    struct rlimit64 now;
    if (syscall(SYS_prlimit64, 0, resource, NULL, &now) == 0)
        atomic_store(&limit->most,
                     now.rlim_cur == RLIM64_INFINITY ? UINT32_MAX : now.rlim_cur / SHARE);
}

void clock_read_limits(void)
{
    clock_limit_read(RLIMIT_SIGPENDING, &timers);
    clock_limit_read(RLIMIT_NOFILE, &events);
    atomic_store(&clocks_were_scarce, atomic_exchange(&clocks_scarce, false));
}

static bool clock_limit_take(struct clock_limit *limit)
{
    if (atomic_fetch_add(&limit->used, 1) < atomic_load(&limit->most))
        return true;
    atomic_fetch_sub(&limit->used, 1);
    return false;
}

uint32_t clock_count(void)
{
    return atomic_load(&timers.used) + atomic_load(&events.used);
}

bool clock_is_scarce(void)
{
    return atomic_load(&clocks_scarce) || atomic_load(&clocks_were_scarce);
}

// --- a perf event ---

// Above the descriptors that programs use: some programs close every low descriptor.
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

// The program may have closed the descriptor, and its number may have been reused.
static void close_perf(struct capture_thread *t)
{
    uint64_t id;
    if (ioctl(t->timer, PERF_EVENT_IOC_ID, &id) == 0 && id == t->perf_id)
        close(t->timer);
}

int clock_check_perf(struct err *e)
{
    sandbox_expect_call(SYS_perf_event_open);
    sandbox_expect_call(SYS_ioctl);
    int fd = open_event(0, true);
    if (fd >= 0)
        return close(fd);
    return err_set(
        e,
        "perf events are not permitted (%s): set kernel.perf_event_paranoid to 2 or "
        "less, allow perf_event_open in the container, or leave the clock at its default",
        strerror(errno));
}

// --- process timer ---

// A process has only one ITIMER_PROF, and the program may want it. Our interval is one that no
// program would choose, so the handler can tell our signals from the program's. Once the program
// has used the timer, we never use it again.

static _Atomic uint32_t n_process_timer_users;

static uint64_t interval_us(const struct itimerval *timer)
{
    return (uint64_t)timer->it_interval.tv_sec * 1000000u + (uint64_t)timer->it_interval.tv_usec;
}

static int set_process_timer(uint64_t us)
{
    struct timeval period = {(time_t)(us / 1000000u), (suseconds_t)(us % 1000000u)};
    struct itimerval timer = {period, period}, now;
    if (syscall(SYS_getitimer, ITIMER_PROF, &now))
        return -1;
    bool set = timerisset(&now.it_interval) || timerisset(&now.it_value);
    if (set && interval_us(&now) != atomic_load(&capture_state.process_period_us))
        atomic_store(&capture_state.process_taken, 1);
    if (atomic_load(&capture_state.process_taken)) {
        errno = EBUSY;
        return -1;
    }
    // Set it before the first signal can arrive, which must be recognized as ours.
    if (us)
        atomic_store(&capture_state.process_period_us, us);
    int failed = (int)syscall(SYS_setitimer, ITIMER_PROF, &timer, NULL);
    if (!us && atomic_load(&capture_state.process_period_us)) {
        atomic_store(&capture_state.process_late, true);
        atomic_store(&capture_state.process_period_us, 0);
    }
    return failed;
}

static int run_process_timer(uint64_t period)
{
    uint64_t odd = 7 + atomic_load(&capture_state.cookie) % 9 * 10;
    return set_process_timer(period / 10000 * 10 + odd);
}

static void release_process_timer(void)
{
    if (atomic_fetch_sub(&n_process_timer_users, 1) == 1)
        set_process_timer(0);
}

void clock_keep_process(void)
{
    if (atomic_load(&n_process_timer_users))
        run_process_timer(atomic_load(&capture_state.period_ns));
}

void clock_before_exec(void)
{
    if (atomic_load(&n_process_timer_users))
        set_process_timer(0);
}

void clock_after_fork_in_child(void)
{
    EACH_SLOT(t)
    if (atomic_load(&t->state) == THREAD_ARMED && atomic_load(&t->clock) == CLOCK_PERF)
        close_perf(t);
    atomic_store(&n_process_timer_users, 0);
    atomic_store(&timers.used, 0);
    atomic_store(&events.used, 0);
    atomic_store(&capture_state.process_period_us, 0);
    atomic_store(&capture_state.process_late, false);
}

// --- any clock ---

static bool open_clock_as(struct capture_thread *t, struct clock_limit *limit,
                          int (*open_clock)(struct capture_thread *t), enum thread_clock clock)
{
    if (!clock_limit_take(limit)) {
        errno = EAGAIN;
        return false;
    }
    if (open_clock(t) == 0) {
        atomic_store(&t->clock, clock);
        return true;
    }
    int saved = errno;
    atomic_fetch_sub(&limit->used, 1);
    errno = saved;
    return false;
}

int clock_open(struct capture_thread *t)
{
    if (capture_state.perf && open_clock_as(t, &events, open_perf, CLOCK_PERF))
        return 0;
    bool full = atomic_load(&timers.used) >= atomic_load(&timers.most);
    if (open_clock_as(t, &timers, open_timer, CLOCK_TIMER))
        return 0;
    if (errno != EAGAIN && errno != ENOSYS && errno != EPERM)
        return -1;
    atomic_store(&clocks_scarce, true);
    if ((full && atomic_load(&timers.most) >= FEW_TIMERS) ||
        atomic_load(&capture_state.process_taken)) {
        errno = EAGAIN;
        return -1;
    }
    atomic_store(&t->clock, CLOCK_PROCESS);
    atomic_fetch_add(&n_process_timer_users, 1);
    return 0;
}

int clock_run(struct capture_thread *t, uint64_t first, uint64_t period)
{
    int clock = (int)atomic_load(&t->clock);
    return clock == CLOCK_TIMER  ? run_timer(t, first, period)
           : clock == CLOCK_PERF ? ioctl(t->timer, PERF_EVENT_IOC_ENABLE, 0)
                                 : run_process_timer(period);
}

void clock_close(struct capture_thread *t)
{
    int saved = errno;
    switch (atomic_load(&t->clock)) {
    case CLOCK_TIMER:
        syscall(SYS_timer_delete, t->timer);
        atomic_fetch_sub(&timers.used, 1);
        break;
    case CLOCK_PERF:
        close_perf(t);
        atomic_fetch_sub(&events.used, 1);
        break;
    case CLOCK_PROCESS:
        release_process_timer();
        break;
    default:
        break;
    }
    atomic_store(&t->clock, CLOCK_NONE);
    errno = saved;
}
