/* A service for ordering bikes, cars and scooters over HTTP that pushes its CPU profiles to a
 * server.
 *
 *     rideshare us-east http://127.0.0.1:4040          # picks a free port and prints it
 *     rideshare us-east http://127.0.0.1:4040 8080
 *     rideshare --version 1.4.1 us-east http://127.0.0.1:4040
 *     curl http://127.0.0.1:8080/car
 *
 * Each process is one region: its profiles have the tags region and service_version. The thread
 * that serves a request has the label vehicle.
 *
 * One of the regions and version 1.4.2 have a performance problem on purpose;
 * docs/tutorials/demo.md finds both.
 */
#include <kiln/kiln.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { WORKERS = 4, VEHICLES = 100000 };

static struct {
    float x, y;
} vehicles[VEHICLES];

/* ---- Durations, in CPU time, so that shares are the same on every machine ---- */

static double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Waits until the process has used that much more CPU time. */
static void wait_milliseconds(long ms)
{
    struct timespec t = {0, ms * 1000000};
    while (clock_nanosleep(CLOCK_PROCESS_CPUTIME_ID, 0, &t, &t) == EINTR)
        ;
}

/* ---- The driver roster and its lock ---- */

static atomic_bool roster_lock;
static int drivers_free;

/* A spinlock: good only for locks that are held briefly. */
static void mutex_lock(atomic_bool *taken)
{
    while (atomic_load(taken) || atomic_exchange(taken, true))
        ;
}

static void mutex_unlock(atomic_bool *taken)
{
    atomic_store(taken, false);
}

static sem_t cars_ordered;

/* Refreshes the roster at each order of a car. In eu-north that is slow, and the roster stays
 * locked meanwhile, so the order has to wait. */
static void *refresh_roster(void *region)
{
    bool slow = strcmp(region, "eu-north") == 0;
    for (;;) {
        while (sem_wait(&cars_ordered))
            ;
        mutex_lock(&roster_lock);
        if (slow)
            wait_milliseconds(95);
        drivers_free = 100;
        mutex_unlock(&roster_lock);
    }
    return NULL;
}

/* ---- Orders ---- */

/* Returns the seconds until it arrives. The search costs 10 ms of CPU time per unit of radius. */
static float find_nearest_vehicle(int radius)
{
    float nearest = 1e9f;
    double end = cpu_seconds() + 0.01 * radius;
    do {
        for (int i = 0; i < VEHICLES; i++) {
            float x = vehicles[i].x - 0.5f, y = vehicles[i].y - 0.5f;
            if (x * x + y * y < nearest)
                nearest = x * x + y * y;
        }
    } while (cpu_seconds() < end);
    return nearest * 1000;
}

/* Only cars need a driver. */
static bool check_driver_availability(void)
{
    mutex_lock(&roster_lock);
    bool available = drivers_free-- > 0;
    mutex_unlock(&roster_lock);
    unsigned hours = 0;
    double end = cpu_seconds() + 0.01;
    do {
        for (unsigned i = 0; i < VEHICLES; i++)
            hours = hours * 31 + i;
    } while (cpu_seconds() < end);
    return available && hours != 1;
}

static const struct price {
    const char *vehicle;
    float per_minute;
} PRICES[] = {
    {"car", 0.9f}, {"bike", 0.2f},    {"scooter", 0.3f},   {"van", 1.2f},
    {"bus", 2.1f}, {"minibus", 1.6f}, {"limousine", 4.5f}, {"helicopter", 60},
};
enum { N_PRICES = sizeof PRICES / sizeof *PRICES };

/* Version 1.4.2 lacks the `break`, so it scans the list to its end. */
static bool stops_at_price;

/* Each entry costs 0.5 ms of CPU time. The most popular vehicles come first. */
static float find_price(const char *vehicle)
{
    float price = 0;
    unsigned hash = 0;
    double end = cpu_seconds();
    for (int i = 0; i < N_PRICES; i++) {
        end += 0.0005;
        do {
            for (unsigned k = 0; k < VEHICLES; k++)
                hash = hash * 31 + k;
        } while (cpu_seconds() < end);
        if (strcmp(PRICES[i].vehicle, vehicle) == 0 && hash != 1) {
            price = PRICES[i].per_minute;
            if (stops_at_price)
                break;
        }
    }
    return price;
}

struct offer {
    float seconds, per_minute;
};

static struct offer order_bike(void)
{
    float seconds = find_nearest_vehicle(1) + 10;
    return (struct offer){seconds, find_price("bike")};
}

static struct offer order_scooter(void)
{
    float seconds = find_nearest_vehicle(2) + 20;
    return (struct offer){seconds, find_price("scooter")};
}

static struct offer order_car(void)
{
    sem_post(&cars_ordered);
    float seconds = find_nearest_vehicle(3);
    seconds += check_driver_availability() ? 30 : 90;
    return (struct offer){seconds, find_price("car")};
}

/* ---- HTTP ---- */

static const struct route {
    const char *path, *vehicle;
    struct offer (*order)(void);
} ROUTES[] = {
    {"/bike", "bike", order_bike},
    {"/car", "car", order_car},
    {"/scooter", "scooter", order_scooter},
};

/* Parses a request line such as GET /car HTTP/1.1. */
static const struct route *find_route(const char *request)
{
    const char *path = strncmp(request, "GET ", 4) ? "" : request + 4;
    for (size_t i = 0; i < sizeof ROUTES / sizeof *ROUTES; i++)
        if (strcspn(path, " ?\r\n") == strlen(ROUTES[i].path) &&
            strncmp(path, ROUTES[i].path, strlen(ROUTES[i].path)) == 0)
            return &ROUTES[i];
    return NULL;
}

static void serve_request(int connection)
{
    char request[4096], body[128], answer[512];
    size_t n = 0;
    for (;;) {
        ssize_t got = recv(connection, request + n, sizeof request - 1 - n, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return;
        request[n += (size_t)got] = 0;
        if (strstr(request, "\r\n\r\n") || n == sizeof request - 1)
            break;
    }
    const struct route *route = find_route(request);
    if (route) {
        kiln_labels had = kiln_labels_push("vehicle", route->vehicle);
        struct offer offer = route->order();
        kiln_labels_pop(had);
        snprintf(body, sizeof body, "a %s will be there in %.0f s, for %.2f a minute\n",
                 route->vehicle, (double)offer.seconds, (double)offer.per_minute);
    } else {
        snprintf(body, sizeof body, "order at /bike, /car or /scooter\n");
    }
    int length = snprintf(answer, sizeof answer,
                          "HTTP/1.1 %s\r\nContent-Type: text/plain\r\nContent-Length: %zu\r\n"
                          "Connection: close\r\n\r\n%s",
                          route ? "200 OK" : "404 Not Found", strlen(body), body);
    send(connection, answer, (size_t)length, MSG_NOSIGNAL);
}

static void *serve(void *listener)
{
    struct timeval patience = {10, 0};
    for (;;) {
        int connection = accept(*(int *)listener, NULL, NULL);
        if (connection < 0) {
            usleep(10000); /* the client disconnected, or too many open files */
            continue;
        }
        setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
        setsockopt(connection, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
        serve_request(connection);
        close(connection);
    }
    return NULL;
}

/* Returns the port, or -1. */
static int listen_at(int port, int *listener)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    socklen_t size = sizeof address;
    int on = 1;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    *listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (*listener < 0 || setsockopt(*listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) ||
        bind(*listener, (struct sockaddr *)&address, size) || listen(*listener, 64) ||
        getsockname(*listener, (struct sockaddr *)&address, &size))
        return -1;
    return ntohs(address.sin_port);
}

int main(int argc, char **argv)
{
    const char *version = "1.4.2";
    if (argc > 2 && strcmp(argv[1], "--version") == 0) {
        version = argv[2];
        argc -= 2;
        argv += 2;
    }
    if (argc < 3 || argc > 4) {
        fprintf(stderr, "usage: rideshare [--version VERSION] REGION SERVER [PORT]\n");
        return 2;
    }
    stops_at_price = strcmp(version, "1.4.2") != 0;
    /* Block the signals before threads are created, so that only sigwait below receives them. */
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &ends, NULL);

    static int listener;
    int port = listen_at(argc > 3 ? (int)strtol(argv[3], NULL, 10) : 0, &listener);
    if (port < 0) {
        fprintf(stderr, "rideshare: 127.0.0.1:%s: %s\n", argc > 3 ? argv[3] : "0", strerror(errno));
        return 1;
    }

    /* A hundred samples per CPU-second, without the profiler's own threads. */
    struct kiln_options options = {.size = sizeof options, .threads = "!kiln"};
    const char *tags[] = {"region", argv[1], "service_version", version, NULL};
    struct kiln_push_options agent = {
        .size = sizeof agent,
        .url = argv[2],
        .application = "rideshare",
        .tags = tags,
        .interval = 5, /* seconds: a short interval for the demo */
    };
    struct kiln_error error;
    if (kiln_start(&options, &error) || kiln_push_start(&agent, &error)) {
        fprintf(stderr, "rideshare: %s\n", error.message);
        return 1;
    }

    unsigned seed = 1;
    for (int i = 0; i < VEHICLES; i++) {
        vehicles[i].x = (float)rand_r(&seed) / (float)RAND_MAX;
        vehicles[i].y = (float)rand_r(&seed) / (float)RAND_MAX;
    }
    pthread_t thread;
    sem_init(&cars_ordered, 0, 0);
    int failed = pthread_create(&thread, NULL, refresh_roster, argv[1]);
    for (int i = 0; i < WORKERS && !failed; i++)
        failed = pthread_create(&thread, NULL, serve, &listener);
    if (failed) {
        fprintf(stderr, "rideshare: no thread: %s\n", strerror(failed));
        return 1;
    }
    printf("http://127.0.0.1:%d\n", port);
    fflush(stdout);

    int signal;
    sigwait(&ends, &signal);
    kiln_push_stop();
    kiln_stop();
    return 0;
}
