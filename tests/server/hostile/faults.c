// Preloaded into a server under test: its clock, disk and syncs behave as a file says, which the
// test changes while the server runs (faults.py). CLOCK_MONOTONIC stays as it is.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

struct faults {
    int64_t clock_offset; // ns, added to CLOCK_REALTIME
    int64_t sync_delay;   // us, before each fsync
    int64_t write_delay;  // us, before each write to a file
    int64_t write_error;  // errno of writes to regular files and of syncs; 0: none
};

static const struct faults none;
static const volatile struct faults *faults = &none;

static void *next(const char *name)
{
    return dlsym(RTLD_NEXT, name);
}

__attribute__((constructor)) static void faults_open(void)
{
    const char *path = getenv("KILN_TEST_FAULTS");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    void *p = mmap(NULL, sizeof *faults, PROT_READ, MAP_SHARED, fd, 0);
    if (p != MAP_FAILED)
        faults = p;
    close(fd);
}

static void pause_us(int64_t us)
{
    struct timespec t = {us / 1000000, us % 1000000 * 1000};
    if (us > 0)
        nanosleep(&t, NULL);
}

static void shift(struct timespec *t, int64_t ns)
{
    int64_t all = t->tv_sec * INT64_C(1000000000) + t->tv_nsec + ns;
    t->tv_sec = all / 1000000000;
    t->tv_nsec = all % 1000000000;
}

int clock_gettime(clockid_t clock, struct timespec *t)
{
    static int (*real)(clockid_t, struct timespec *);
    if (!real)
        real = (int (*)(clockid_t, struct timespec *))next("clock_gettime");
    int result = real(clock, t);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        shift(t, faults->clock_offset);
    return result;
}

time_t time(time_t *to)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    if (to)
        *to = t.tv_sec;
    return t.tv_sec;
}

int gettimeofday(struct timeval *restrict to, void *restrict zone)
{
    struct timespec t;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &t);
    *to = (struct timeval){t.tv_sec, t.tv_nsec / 1000};
    return 0;
}

// The kernel waits by its own clock. A time that is closer to the realtime clock than to the
// monotonic one is taken for one of the first: a wait for it takes as long as the clock says, even
// if it changes meanwhile.
int pthread_cond_timedwait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict until)
{
    static int (*real)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
    if (!real) {
        void *found = dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
        real = (int (*)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *))(
            found ? found : next("pthread_cond_timedwait"));
    }
    struct timespec now, end;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (until->tv_sec - now.tv_sec <= 20 * 365 * 86400)
        return real(cond, mutex, until);
    for (;;) {
        clock_gettime(CLOCK_REALTIME, &now);
        int64_t left =
            (until->tv_sec - now.tv_sec) * INT64_C(1000000000) + until->tv_nsec - now.tv_nsec;
        if (left <= 0)
            return ETIMEDOUT;
        end = now;
        shift(&end, (left < 50000000 ? left : 50000000) - faults->clock_offset);
        int result = real(cond, mutex, &end);
        if (result != ETIMEDOUT)
            return result;
    }
}

// SQLite's index of its log is shared memory: it has a place on the disk already.
static bool is_shared_memory(int fd)
{
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path);
    return n > 4 && memcmp(path + n - 4, "-shm", 4) == 0;
}

static int failure(int fd)
{
    struct stat s;
    if (faults->write_delay || faults->write_error) {
        int saved = errno;
        if (fstat(fd, &s) == 0 && S_ISREG(s.st_mode) && !is_shared_memory(fd)) {
            pause_us(faults->write_delay);
            if (faults->write_error)
                return (int)faults->write_error;
        }
        errno = saved;
    }
    return 0;
}

#define FAILING(type, name, parameters, arguments)  \
    type name parameters                            \
    {                                               \
        static type(*real) parameters;              \
        if (!real)                                  \
            real = (type(*) parameters)next(#name); \
        int code = failure(fd);                     \
        if (code) {                                 \
            errno = code;                           \
            return -1;                              \
        }                                           \
        return real arguments;                      \
    }

FAILING(ssize_t, write, (int fd, const void *p, size_t n), (fd, p, n))
FAILING(ssize_t, pwrite, (int fd, const void *p, size_t n, off_t at), (fd, p, n, at))
FAILING(ssize_t, pwrite64, (int fd, const void *p, size_t n, off64_t at), (fd, p, n, at))
static int sync_file(const char *name, int fd)
{
    int (*real)(int) = (int (*)(int))next(name);
    pause_us(faults->sync_delay);
    int code = failure(fd);
    if (code) {
        errno = code;
        return -1;
    }
    return real(fd);
}

int fsync(int fd)
{
    return sync_file("fsync", fd);
}

int fdatasync(int fd)
{
    return sync_file("fdatasync", fd);
}
