// The list of threads: src/process/tasks.c.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "process/own_threads.h"
#include "process/tasks.h"

enum { SLEEPERS = 100 };

static pthread_mutex_t running = PTHREAD_MUTEX_INITIALIZER;

static void *sleeper(void *context)
{
    pthread_mutex_lock(&running);
    pthread_mutex_unlock(&running);
    return context;
}

static int entries(const char *path)
{
    DIR *folder = opendir(path);
    int n = 0;
    while (readdir(folder))
        n++;
    closedir(folder);
    return n;
}

static int open_descriptors(void)
{
    return entries("/proc/thread-self/fd");
}

// The kernel's number: an emulator has a thread of its own.
static size_t threads_listed(void)
{
    return (size_t)entries("/proc/self/task") - 2;
}

struct seen {
    pid_t tids[2 * SLEEPERS];
    size_t n;
};

static void see(void *context, pid_t tid)
{
    struct seen *seen = context;
    if (seen->n < 2 * SLEEPERS)
        seen->tids[seen->n++] = tid;
}

static bool stop_now(void *context)
{
    return false;
}

static bool all_differ(const struct seen *seen)
{
    for (size_t i = 0; i < seen->n; i++)
        for (size_t j = 0; j < i; j++)
            if (seen->tids[i] == seen->tids[j])
                return false;
    return true;
}

// Every thread once, in a few at a time. Returns the number of calls.
static int list_in_parts(struct seen *seen, int *descriptors)
{
    int64_t position = 0;
    int calls = 0;
    seen->n = 0;
    do {
        if (!process_list_tasks(&position, see, stop_now, seen))
            return -1;
        if (++calls == 2)
            *descriptors = open_descriptors();
    } while (position);
    return calls;
}

static struct {
    int calls, before, meanwhile, after;
    struct seen parts, whole;
} own;

// In the middle of one list, the thread reads another.
static void *list_in_own_thread(void *context)
{
    int64_t position = 0, other = 0;
    struct seen few = {.n = 0};
    if (!own_thread_unshare_files(-1))
        return NULL;
    own.before = open_descriptors();
    own.calls = list_in_parts(&own.parts, &own.meanwhile);
    own.after = open_descriptors();
    process_list_tasks(&position, see, stop_now, &few);
    process_list_tasks(&other, see, NULL, &own.whole);
    while (position)
        process_list_tasks(&position, see, stop_now, &few);
    if (few.n != own.whole.n || !all_differ(&few) || open_descriptors() != own.before)
        own.calls = -1;
    return NULL;
}

static void every_thread_once(void **state)
{
    pthread_t threads[SLEEPERS], thread;
    pthread_mutex_lock(&running);
    for (int i = 0; i < SLEEPERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, sleeper, NULL), 0);
    struct seen seen;
    const size_t threads_before = threads_listed();
    assert_true(threads_before >= SLEEPERS + 1);
    int before = open_descriptors(), meanwhile = -1;
    int calls = list_in_parts(&seen, &meanwhile);
    assert_true(calls > SLEEPERS / 20);
    assert_int_equal(seen.n, threads_before);
    assert_true(all_differ(&seen));
    // The program could close it.
    assert_int_equal(meanwhile, before);
    pthread_create(&thread, NULL, list_in_own_thread, NULL);
    pthread_join(thread, NULL);
    pthread_mutex_unlock(&running);
    for (int i = 0; i < SLEEPERS; i++)
        pthread_join(threads[i], NULL);
    if (!own.calls)
        skip(); // TSan, or a kernel before 5.9
    assert_true(own.calls > SLEEPERS / 20);
    assert_int_equal(own.parts.n, threads_before + 1);
    assert_true(all_differ(&own.parts));
    assert_int_equal(own.meanwhile, own.before + 1);
    assert_int_equal(own.after, own.before);
    assert_int_equal(own.whole.n, threads_before + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_thread_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
