// usage: eintr SECONDS
//
// Calls what a signal may interrupt, right after using CPU time, so that a tick is as likely as
// can be to be on its way. Prints `n_NAME=CALLS NAME=INTERRUPTED ...`. What signal(7) says is
// never restarted has a name that begins with never_.
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int pipe_in, pipe_out, short_socket, listener, poller;
static struct sockaddr_storage address;
static socklen_t n_address;
static sem_t semaphore;
static volatile unsigned sink;

static void burn(void)
{
    unsigned n = 200 + sink % 4096;
    for (unsigned i = 0; i < n; i++)
        sink = sink * 1103515245 + 12345;
}

static void *feed(void *context)
{
    // A byte and a connection a millisecond: the other side blocks in between.
    for (;;) {
        usleep(1000);
        if (write(pipe_in, "x", 1) != 1)
            return NULL;
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        if (fd >= 0) {
            connect(fd, (struct sockaddr *)&address, n_address);
            close(fd);
        }
        sem_post(&semaphore);
    }
}

static bool call_read(void)
{
    char c;
    return read(pipe_out, &c, 1) < 0;
}

static bool call_accept(void)
{
    int fd = accept(listener, NULL, NULL);
    if (fd >= 0)
        close(fd);
    return fd < 0;
}

static bool call_sem_wait(void)
{
    return sem_wait(&semaphore) < 0;
}

static bool call_waitpid(void)
{
    pid_t child = vfork();
    if (child == 0)
        _exit(0);
    bool failed = waitpid(child, NULL, 0) < 0;
    if (failed)
        waitpid(child, NULL, 0);
    return failed;
}

static bool call_nanosleep(void)
{
    struct timespec t = {.tv_nsec = 100000};
    return nanosleep(&t, NULL) < 0;
}

static bool call_poll(void)
{
    struct pollfd p = {.fd = poller, .events = POLLIN};
    return poll(&p, 1, 1) < 0;
}

static bool call_epoll_wait(void)
{
    struct epoll_event e;
    return epoll_wait(poller, &e, 1, 1) < 0;
}

static bool call_select(void)
{
    struct timeval t = {.tv_usec = 200};
    return select(0, NULL, NULL, NULL, &t) < 0;
}

static bool call_recv_timeout(void)
{
    char c;
    return recv(short_socket, &c, 1, 0) < 0 && errno == EINTR;
}

static bool call_sem_timedwait(void)
{
    static sem_t empty;
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    t.tv_nsec += 200000;
    t.tv_sec += t.tv_nsec / 1000000000;
    t.tv_nsec %= 1000000000;
    return sem_timedwait(&empty, &t) < 0 && errno == EINTR;
}

static bool call_sigtimedwait(void)
{
    sigset_t set;
    struct timespec t = {.tv_nsec = 100000};
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    return sigtimedwait(&set, NULL, &t) < 0 && errno == EINTR;
}

static const struct {
    const char *name;
    bool (*call)(void);
} calls[] = {
    {"read", call_read},
    {"accept", call_accept},
    {"sem_wait", call_sem_wait},
    {"waitpid", call_waitpid},
    {"never_nanosleep", call_nanosleep},
    {"never_poll", call_poll},
    {"never_epoll_wait", call_epoll_wait},
    {"never_select", call_select},
    {"never_recv_timeout", call_recv_timeout},
    {"never_sem_timedwait", call_sem_timedwait},
    {"never_sigtimedwait", call_sigtimedwait},
};

static double now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static int fail(const char *what)
{
    perror(what);
    return 1;
}

int main(int argc, char **argv)
{
    enum { CALLS = sizeof calls / sizeof *calls };
    unsigned long done[CALLS] = {0}, interrupted[CALLS] = {0};
    double end = now() + (argc > 1 ? strtod(argv[1], NULL) : 2);
    int ends[2], pair[2];
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval patience = {.tv_usec = 1000};
    n_address = sizeof address;
    if (pipe(ends) || socketpair(AF_UNIX, SOCK_STREAM, 0, pair) ||
        setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) ||
        (poller = epoll_create1(0)) < 0 || (listener = socket(AF_INET, SOCK_STREAM, 0)) < 0 ||
        bind(listener, (struct sockaddr *)&any, sizeof any) || listen(listener, 64) ||
        getsockname(listener, (struct sockaddr *)&address, &n_address) ||
        sem_init(&semaphore, 0, 0))
        return fail("set-up");
    pipe_out = ends[0];
    pipe_in = ends[1];
    short_socket = pair[0];
    pthread_t feeder;
    if (pthread_create(&feeder, NULL, feed, NULL))
        return fail("thread");
    while (now() < end)
        for (unsigned i = 0; i < CALLS; i++) {
            burn();
            done[i]++;
            interrupted[i] += calls[i].call();
        }
    for (unsigned i = 0; i < CALLS; i++)
        printf("n_%s=%lu %s=%lu ", calls[i].name, done[i], calls[i].name, interrupted[i]);
    printf("\n");
    return 0;
}
