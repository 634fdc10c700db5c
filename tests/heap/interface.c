// The C interface to heap profiles: an allocator that is none tells of objects. With a sample in
// every byte nothing is estimated.
#include "heap_test.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/time.h>
#include <sys/wait.h>

static char *object(long i)
{
    return (char *)0x100000000 + i * 2048;
}

static void begin(long from, long to, size_t n)
{
    for (long i = from; i < to; i++)
        kiln_heap_note_allocated(object(i), n);
}

static void end(long from, long to)
{
    for (long i = from; i < to; i++)
        kiln_heap_note_freed(object(i));
}

static void expect(const char *what, int window, long long a, long long b, long long c, long long d)
{
    long long v[4];
    sums(window, v);
    if (v[0] != a || v[1] != b || v[2] != c || v[3] != d) {
        fprintf(stderr, "%s: %lld %lld %lld %lld, not %lld %lld %lld %lld\n", what, v[0], v[1],
                v[2], v[3], a, b, c, d);
        wrong = 1;
    }
}

// --- a handler that interrupts samples ---

static volatile long handled;

static void on_alarm(int number)
{
    for (int i = 0; i < 10; i++, handled++)
        kiln_heap_allocated(object(1000000 + handled), 1000);
    kiln_heap_freed(object(1000000 + handled - 1));
}

static void interrupted(void)
{
    struct itimerval often = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
    long long before[4], after[4];
    sums(-1, before);
    signal(SIGALRM, on_alarm);
    setitimer(ITIMER_REAL, &often, NULL);
    for (int round = 0; round < 300; round++) {
        begin(10000, 14000, 1000);
        end(10000, 14000);
    }
    setitimer(ITIMER_REAL, &never, NULL);
    sums(-1, after);
    // Those that met a sample in progress are counted, not taken.
    const char *told = strstr(text_of(-1, KILN_JSON), "have no stack; ");
    long nested = told ? strtol(told + strlen("have no stack; "), NULL, 10) : 0;
    long long allocated = after[0] - before[0] - 300 * 4000;
    CHECK(handled > 100);
    CHECK(allocated <= handled && allocated >= handled - nested);
    // Of ten that a handler begins it ends one.
    long long live = after[2] - before[2];
    CHECK(live <= handled - handled / 10 && live >= handled - handled / 10 - nested);
    printf("interface: %ld objects in handlers, %ld not taken\n", handled, nested);
}

// --- a fork while another thread asks for windows ---

static _Atomic bool over;

static void *ask_for_windows(void *context)
{
    while (!over)
        kiln_heap_window_cancel(0);
    return context;
}

static void forked(void)
{
    enum { FORKS = 200 };
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, ask_for_windows, NULL) == 0);
    for (int i = 0; i < FORKS && !wrong; i++) {
        pid_t child = fork();
        if (child == 0) {
            alarm(20); // a lock whose holder is not there is waited for without end
            int window = kiln_heap_window_begin(NULL);
            kiln_heap_window_cancel(window);
            _exit(window < 0);
        }
        int status = -1;
        waitpid(child, &status, 0);
        CHECK(status == 0);
    }
    over = true;
    pthread_join(thread, NULL);
}

int main(void)
{
    struct kiln_heap_options options = {sizeof options, 1, 0, 0, 1};
    struct kiln_heap_options deep = {sizeof options, 1, 2000, 0, 1};
    CHECK(!kiln_heap_active());
    CHECK(kiln_heap_write(2, NULL, &error) == -1 && strstr(error.message, "kiln_heap_start"));
    begin(0, 10, 100); // not sampled: nobody asked for it
    CHECK(kiln_heap_start(&deep, &error) == -1 && strstr(error.message, "2000"));
    CHECK(kiln_heap_start(&options, &error) == 0);
    CHECK(kiln_heap_active());
    CHECK(kiln_heap_start(&options, &error) == -1 && strstr(error.message, "already"));
    CHECK(kiln_heap_set_interval(0, &error) == -1 && strstr(error.message, "1 to"));
    long long v[4];
    sums(-1, v);
    CHECK(v[2] == 0 && v[3] == 0);
    long long a = v[0], b = v[1];
    begin(100, 1100, 1000);
    expect("begun", -1, a + 1000, b + 1000000, 1000, 1000000);
    end(0, 10); // not known: no harm
    end(100, 600);
    expect("half", -1, a + 1000, b + 1000000, 500, 500000);
    int window = kiln_heap_window_begin(&error);
    CHECK(window >= 0);
    begin(2000, 2010, 1000);
    end(600, 700);
    expect("window", window, 10, 10000, -90, -90000);
    CHECK(kiln_heap_window_write(window, 2, NULL, &error) == -1);
    a += 1010, b += 1010000;
    expect("all", -1, a, b, 410, 410000);
    // The same address again, whose end nobody told of.
    begin(2000, 2010, 500);
    expect("again", -1, a + 10, b + 5000, 410, 405000);
    a += 10, b += 5000;
    kiln_heap_stop();
    CHECK(!kiln_heap_active());
    begin(3000, 4000, 1000);
    end(700, 1100);
    end(2000, 2010);
    sums(-1, v);
    CHECK(v[0] == a && v[2] == 0);
    CHECK(kiln_heap_start(NULL, &error) == 0);
    sums(-1, v);
    pid_t child = fork();
    if (child == 0) {
        long long in_child[4];
        begin(5000, 6000, 1000);
        sums(-1, in_child);
        CHECK(in_child[2] == v[2] + 1000);
        end(5000, 6000);
        sums(-1, in_child);
        CHECK(in_child[2] == v[2]);
        _exit(wrong);
    }
    int status = -1;
    waitpid(child, &status, 0);
    CHECK(status == 0);
    expect("after fork", -1, v[0], v[1], v[2], v[3]);
    forked();
    CHECK(kiln_heap_set_interval(2, &error) == 0);
    interrupted();
    CHECK(strstr(text_of(-1, KILN_FOLDED), " "));
    return wrong;
}
