// The collector and the C interface over it, in a process that knows what it does. Prints what
// was found next to what should be, and `N passed, N failed`.
#include <kiln/kiln.h>

#include <dlfcn.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../long.h"
#include "agent/agent.h"
#include "codec/codec.h"

static int passed, failed;
static __thread volatile unsigned long sink;

static void check(bool good, const char *what)
{
    printf("%s - %s\n", good ? "ok" : "not ok", what);
    *(good ? &passed : &failed) += 1;
}

static void check_near(const char *what, double got, double want, double tolerance)
{
    char text[300];
    snprintf(text, sizeof text, "%s: %.4g, wanted %.4g +- %.2g", what, got, want, tolerance);
    check(fabs(got - want) <= tolerance, text);
}

static double seconds_of(clockid_t clock)
{
    struct timespec ts;
    clock_gettime(clock, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

__attribute__((noipa)) void burn_cpu(double seconds);
__attribute__((noipa)) void burn_cpu(double seconds)
{
    double until = seconds_of(CLOCK_THREAD_CPUTIME_ID) + seconds;
    do
        for (int i = 0; i < 2000; i++)
            sink += (unsigned long)i * (unsigned long)i;
    while (seconds_of(CLOCK_THREAD_CPUTIME_ID) < until);
}

// --- what was written ---

struct result {
    struct arena *arena;
    struct model_profile *p;
    char *text;
    size_t n;
};

static void forget(struct result *r)
{
    arena_free(r->arena);
    free(r->text);
    *r = (struct result){0};
}

// What write puts into a file, as text and, if it is one, as a profile.
static struct result collect(int fd, int status, const struct kiln_error *error)
{
    struct result r = {.arena = arena_new(0)};
    if (status)
        printf("# %s\n", error->message);
    off_t n = lseek(fd, 0, SEEK_END);
    r.text = calloc(1, (size_t)n + 1);
    if (pread(fd, r.text, (size_t)n, 0) != n)
        abort();
    r.n = (size_t)n;
    close(fd);
    struct err e;
    r.p = status ? NULL : codec_read(r.arena, (uint8_t *)r.text, r.n, NULL, NULL, &e);
    return r;
}

static struct result write_window(int window, const struct kiln_output *output)
{
    struct kiln_error error;
    int fd = memfd_create("window", 0);
    int status = kiln_window_write_as(window, fd, output, &error);
    return collect(fd, status, &error);
}

static struct result write_last(uint32_t seconds, const struct kiln_output *output)
{
    struct kiln_error error;
    int fd = memfd_create("last", 0);
    int status = kiln_last_write(seconds, fd, output, &error);
    return collect(fd, status, &error);
}

static bool has_function(const struct model_profile *p, size_t sample, const char *name)
{
    for (uint32_t i = 0; i < p->stack_len[sample]; i++) {
        const struct model_location *l = &p->locations[model_stack(p, sample)[i]];
        for (uint32_t k = 0; k < l->n_lines; k++) {
            struct str s = model_str(p, p->functions[p->lines[l->first_line + k].function].name);
            if (str_eq(s, str_from(name)))
                return true;
        }
    }
    return false;
}

static bool has_label(const struct model_profile *p, size_t sample, const char *key,
                      const char *value)
{
    uint32_t n;
    const struct model_label *labels = model_labels(p, sample, &n);
    for (uint32_t i = 0; i < n; i++)
        if (str_eq(model_str(p, labels[i].key), str_from(key)) && !labels[i].is_number &&
            (!value || str_eq(model_str(p, labels[i].str), str_from(value))))
            return true;
    return false;
}

// CPU seconds of samples with a function and a label; NULL: any.
static double cpu_of(const struct model_profile *p, const char *function, const char *key,
                     const char *value)
{
    int64_t ns = 0;
    for (size_t i = 0; p && i < p->n_samples; i++)
        if ((!function || has_function(p, i, function)) && (!key || has_label(p, i, key, value)))
            ns += model_values(p, i)[1];
    return (double)ns / 1e9;
}

static int begin(void)
{
    struct kiln_error error;
    int window = kiln_window_begin(&error);
    if (window < 0)
        printf("# %s\n", error.message);
    return window;
}

static void start(struct kiln_options options)
{
    struct kiln_error error;
    options.size = sizeof options;
    if (kiln_start(&options, &error)) {
        printf("# %s\n", error.message);
        exit(1);
    }
}

// --- tests ---

static void test_formats(void)
{
    start((struct kiln_options){0});
    const char *const begins[] = {"\x1f\x8b", "", "", "<svg", "<!doctype html>", "{"};
    for (uint32_t format = KILN_PPROF; format <= KILN_JSON; format++) {
        int window = begin();
        burn_cpu(format == KILN_PPROF ? 0.3 : 0.1);
        struct kiln_output output = {.size = sizeof output, .format = format, .title = "A <title>"};
        struct result r = write_window(window, &output);
        char what[64];
        snprintf(what, sizeof what, "format %u begins as it should", format);
        check(r.n > 20 && strncmp(r.text, begins[format], strlen(begins[format])) == 0, what);
        snprintf(what, sizeof what, "format %u names burn_cpu", format);
        bool named = r.p && format <= KILN_PPROF_PLAIN ? cpu_of(r.p, "burn_cpu", NULL, NULL) > 0
                                                       : strstr(r.text, "burn_cpu") != NULL;
        check(named, what);
        if (format == KILN_PPROF && r.p) {
            check(r.p->mappings[0].has_functions, "its mapping says that there are names");
            check_near("its CPU time", cpu_of(r.p, "burn_cpu", NULL, NULL), 0.3, 0.08);
            check(cpu_of(r.p, "__vdso_clock_gettime", NULL, NULL) >= 0, "the vdso can be read");
        }
        if (format == KILN_HTML || format == KILN_SVG)
            check(strstr(r.text, "A &lt;title&gt;") || strstr(r.text, "A <title>") == NULL,
                  "the title is escaped");
        forget(&r);
    }
    struct kiln_output plain = {
        .size = sizeof plain, .flags = KILN_ADDRESSES | KILN_NO_LABELS, .format = KILN_PPROF};
    int window = begin();
    burn_cpu(0.1);
    struct result r = write_window(window, &plain);
    check(r.p && cpu_of(r.p, NULL, NULL, NULL) > 0 && cpu_of(r.p, "burn_cpu", NULL, NULL) == 0,
          "addresses only");
    check(r.p && cpu_of(r.p, NULL, "thread", NULL) == 0, "no labels");
    forget(&r);
    struct kiln_output wrong = {.size = sizeof wrong, .format = 77};
    struct kiln_error error;
    check(kiln_window_write_as(begin(), 1, &wrong, &error) == -1 && strstr(error.message, "77"),
          "a format that is none is refused by name");
    check(kiln_window_write_as(63, 1, NULL, &error) == -1 && strstr(error.message, "63"),
          "a window that is not open is refused by number");
    int closed = begin();
    kiln_window_cancel(closed);
    int opened = begin();
    kiln_window_cancel(closed);
    check(kiln_window_write_as(closed, 1, NULL, &error) == -1, "a window is closed once");
    struct kiln_output stay = {.size = sizeof stay, .flags = KILN_STAY};
    int null = open("/dev/null", O_WRONLY);
    check(kiln_window_write_as(opened, null, &stay, &error) == 0, "and no other window with it");
    close(null);
    kiln_window_cancel(opened);
    check(kiln_window_write_as(begin(), -1, NULL, &error) == -1, "a bad descriptor is an error");
    struct kiln_statistics s = {.size = sizeof s};
    kiln_get_statistics(&s);
    check(s.windows == 0 && s.frequency == 100, "no window is left open");
    char text[500];
    check(agent_symbol((uintptr_t)burn_cpu + 4, text, sizeof text) && strstr(text, "burn_cpu"),
          "agent_symbol finds burn_cpu");
    check(!agent_symbol(16, text, sizeof text), "and nothing at 16");
    kiln_stop();
}

static void test_rates(void)
{
    start((struct kiln_options){.frequency = 50});
    struct kiln_error error;
    int plain = begin();
    struct kiln_window_options fast = {.size = sizeof fast, .frequency = 500};
    int asked = kiln_window_begin_with(&fast, &error);
    check(asked >= 0, "a window at 500 Hz");
    double before = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    struct kiln_statistics s = {.size = sizeof s};
    kiln_get_statistics(&s);
    check(s.frequency == 500, "the rate is 500 Hz then");
    burn_cpu(0.5);
    struct kiln_window_options other = {.size = sizeof other, .frequency = 40};
    check(kiln_window_begin_with(&other, &error) == KILN_CONFLICT && strstr(error.message, "500"),
          "40 Hz is a conflict that names 500 Hz");
    int same = kiln_window_begin_with(&fast, &error);
    check(same >= 0, "another window at 500 Hz is none");
    other.flags = KILN_FORCE;
    int forced = kiln_window_begin_with(&other, &error);
    check(forced >= 0, "40 Hz by force");
    burn_cpu(1);
    double used = seconds_of(CLOCK_PROCESS_CPUTIME_ID) - before;
    struct result r = write_window(asked, NULL);
    check_near("CPU time of a window over two rates / used", cpu_of(r.p, NULL, NULL, NULL) / used,
               1, 0.08);
    forget(&r);
    r = write_window(forced, NULL);
    check(r.p && r.p->period == 25000000, "the period of 40 Hz is 25 ms");
    check_near("CPU time at 40 Hz", cpu_of(r.p, "burn_cpu", NULL, NULL), 1, 0.18);
    forget(&r);
    kiln_window_cancel(same);
    kiln_get_statistics(&s);
    check(s.frequency == 50, "afterwards the rate is what it was");
    used = seconds_of(CLOCK_PROCESS_CPUTIME_ID) - before;
    r = write_window(plain, NULL);
    check_near("CPU time of a window that did not ask / used", cpu_of(r.p, NULL, NULL, NULL) / used,
               1, 0.08);
    forget(&r);
    kiln_stop();
}

static void test_last(void)
{
    struct kiln_error error;
    check(kiln_last_write(10, 1, NULL, &error) == -1 && strstr(error.message, "not running"),
          "the last seconds of what does not run");
    start((struct kiln_options){.frequency = 200});
    check(kiln_last_write(0, 1, NULL, &error) == -1 && strstr(error.message, "1 to 120"),
          "0 seconds are refused with the range");
    check(kiln_last_write(121, 1, NULL, &error) == -1 && strstr(error.message, "121"),
          "so are 121");
    kiln_labels early = kiln_labels_with(0, "phase", "early");
    kiln_labels had = kiln_labels_enter(early);
    burn_cpu(0.5);
    kiln_labels_enter(had);
    double late = seconds_of(CLOCK_MONOTONIC);
    usleep(1300000);
    while (seconds_of(CLOCK_MONOTONIC) - late < 3.3)
        burn_cpu(0.1);
    double lasted = (seconds_of(CLOCK_MONOTONIC) - late) * 1e9; // and the early part before
    struct result all = write_last(120, NULL), two = write_last(2, NULL);
    check_near("early CPU time in the last 120 s", cpu_of(all.p, NULL, "phase", "early"), 0.5, 0.1);
    check_near("early CPU time in the last 2 s", cpu_of(two.p, NULL, "phase", "early"), 0, 0);
    double since = (seconds_of(CLOCK_MONOTONIC) - late) * 1e9;
    check(two.p && two.p->duration_nanos >= 1900000000 && (double)two.p->duration_nanos < since,
          "the last 2 s last at least 2 s, and begin after the early part");
    check(all.p && (double)all.p->duration_nanos > lasted, "the last 120 s begin at the start");
    check(cpu_of(two.p, NULL, NULL, NULL) * 1e9 <= (double)two.p->duration_nanos * 1.1,
          "no more CPU time than time");
    forget(&all);
    forget(&two);
    kiln_stop();
}

static void test_labels(void)
{
    start((struct kiln_options){.frequency = 500});
    int window = begin();
    kiln_labels outer = kiln_labels_push("endpoint", "/a"), inner = kiln_labels_push("kind", "x");
    burn_cpu(0.2);
    struct kiln_context both, had;
    kiln_context_get(&both);
    kiln_labels_hold(both.labels);
    kiln_labels_pop(inner);
    burn_cpu(0.1);
    kiln_labels_pop(outer);
    check(kiln_labels_current() == 0, "pops undo pushes");
    kiln_labels_pop(kiln_labels_push(NULL, NULL));
    check(kiln_labels_with(0, "key", NULL) == kiln_labels_with(0, "key", ""), "NULL is no text");
    kiln_context_enter(&both, &had);
    burn_cpu(0.1);
    kiln_context_enter(&had, NULL);
    kiln_labels_release(both.labels);
    unsigned char trace[16] = {0xab, [15] = 1}, span[8] = {0xcd, [7] = 2};
    kiln_set_trace(trace, span);
    burn_cpu(0.2);
    kiln_set_trace(NULL, NULL);
    burn_cpu(0.1);
    struct result r = write_window(window, NULL);
    check_near("CPU time with both labels", cpu_of(r.p, NULL, "kind", "x"), 0.3, 0.08);
    check_near("CPU time with the outer one", cpu_of(r.p, NULL, "endpoint", "/a"), 0.4, 0.08);
    check_near("CPU time of a trace",
               cpu_of(r.p, NULL, "trace_id", "ab000000000000000000000000000001"), 0.2, 0.06);
    check_near("CPU time of a span", cpu_of(r.p, NULL, "span_id", "cd00000000000002"), 0.2, 0.06);
    forget(&r);
    kiln_stop();
}

// A request id for each request, for ever: neither memory nor drops grow.
static void test_label_churn(void)
{
    start((struct kiln_options){.frequency = 100});
    struct kiln_statistics s = {.size = sizeof s};
    uint64_t most = 0, n = 0;
    double until = seconds_of(CLOCK_MONOTONIC) + (tests_are_long() ? 3 : 1.5);
    int window = begin();
    while (seconds_of(CLOCK_MONOTONIC) < until) {
        // As fast as a service of many cores would do it.
        for (int i = 0; i < 10; i++) {
            char value[32];
            snprintf(value, sizeof value, "request-%llu", (unsigned long long)n++);
            kiln_labels had = kiln_labels_push("request", value);
            sink += had;
            kiln_labels_pop(had);
        }
        burn_cpu(0.0001);
        kiln_get_statistics(&s);
        most = s.label_sets > most ? s.label_sets : most;
    }
    struct result r = write_window(window, NULL);
    printf("# %llu label sets, %llu at once, %llu KiB, %llu dropped\n", (unsigned long long)n,
           (unsigned long long)most, (unsigned long long)s.label_memory >> 10,
           (unsigned long long)s.labels_dropped);
    check(s.labels_dropped == 0, "no label is dropped");
    check(n < 40000 || most < n * 3 / 4, "sets that nobody holds are forgotten");
    check(s.label_memory < 24 << 20, "label sets stay within their memory");
    forget(&r);
    // Held for ever: a limit, counted, and the process goes on.
    kiln_labels kept = kiln_labels_with(0, "kept", "yes");
    for (int i = 0; i < 300000; i++) {
        char value[32];
        snprintf(value, sizeof value, "%d", i);
        kiln_labels_with(kept, "leak", value);
    }
    kiln_get_statistics(&s);
    check(s.labels_dropped > 0 && s.label_sets <= 1 << 18, "sets that are never released end at "
                                                           "the limit");
    // Sets of before, which nobody holds, may be forgotten only now, and make room.
    bool is_base = false;
    for (int i = 0; i < 300000 && !is_base; i++) {
        char value[32];
        snprintf(value, sizeof value, "%d", i);
        is_base = kiln_labels_with(kept, "new", value) == kept;
    }
    check(is_base, "then the base is what one gets");
    kiln_stop();
}

static uint64_t label_sets(void)
{
    struct kiln_statistics s = {.size = sizeof s};
    kiln_get_statistics(&s);
    return s.label_sets;
}

static bool forgets_all_but(uint64_t n)
{
    for (int i = 0; i < 200 && label_sets() > n; i++)
        usleep(50000);
    return label_sets() <= n;
}

enum { PASSED = 5000, OF_A_THREAD = 40, THREADS = 500 };

static void *release_passed(void *set)
{
    for (int i = 0; i < PASSED; i++)
        kiln_labels_release(*(kiln_labels *)set);
    return NULL;
}

static void *hold_passed(void *set)
{
    for (int i = 0; i < PASSED; i++)
        kiln_labels_hold(*(kiln_labels *)set);
    return NULL;
}

static void run_in_thread(void *(*call)(void *context), void *context)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, call, context))
        abort();
    pthread_join(thread, NULL);
}

static void *find_passed(void *set)
{
    *(kiln_labels *)set = kiln_labels_with(0, "passed", "around");
    return NULL;
}

static void *find_base(void *set)
{
    *(kiln_labels *)set = kiln_labels_with(0, "base", "of another");
    return NULL;
}

static void *make_and_release(void *number)
{
    for (int i = 0; i < OF_A_THREAD; i++) {
        char value[32];
        snprintf(value, sizeof value, "%d-%d", *(int *)number, i);
        kiln_labels set = kiln_labels_with(0, "passing", value);
        if (kiln_labels_with(0, "passing", value) != set)
            abort();
        kiln_labels_release(set);
        kiln_labels_release(set);
    }
    return NULL;
}

// Threads cache references: none is lost or gained if one thread drops a reference that another
// took.
static void test_label_references(void)
{
    start((struct kiln_options){.frequency = 100});
    check(forgets_all_but(10000), "few sets are left of tests before");
    kiln_labels kept = kiln_labels_with(0, "passed", "around");
    for (int round = 0; round < 3; round++) {
        hold_passed(&kept);
        run_in_thread(release_passed, &kept);
        run_in_thread(hold_passed, &kept);
        release_passed(&kept);
    }
    // This thread caches the sets that it made from a base, but not the base itself.
    kiln_labels base = kiln_labels_with(0, "base", "of another"), found;
    kiln_labels_release(kiln_labels_with(base, "made", "of it"));
    kiln_labels_release(base);
    for (int i = 0; i < 7; i++) {
        char value[2] = {(char)('a' + i)};
        kiln_labels_release(kiln_labels_with(0, "others", value));
    }
    int most = 0;
    for (int i = 0; i < THREADS; i++) {
        run_in_thread(make_and_release, &i);
        most = i % 50 == 0 && (int)label_sets() > most ? (int)label_sets() : most;
    }
    // Whoever is not held goes first; others come in its place.
    check(most > 4096 && forgets_all_but(5000), "sets of threads that ended are forgotten");
    run_in_thread(find_passed, &found);
    check(found == kept, "a set that is held is not");
    run_in_thread(find_base, &found);
    check(found == base, "nor is what a set was made of that may come again");
    kiln_labels longest = kiln_labels_with(0, "a key that is longer than what a thread keeps of it",
                                           "and so is its value"),
                again = kiln_labels_with(0, "a key that is longer than what a thread keeps of it",
                                         "and so is its value");
    check(longest && longest == again, "long labels are found again");
    kiln_labels without = kiln_labels_without(longest, "a key"),
                none = kiln_labels_without(kept, "passed");
    check(without == longest && none == 0, "labels are taken away");
    check(kiln_labels_without(kept, "passed") == 0 &&
              kiln_labels_with(kept, "passed", "") != kiln_labels_with(kept, "", "passed"),
          "what was made of other texts is another set");
    kiln_stop();
}

static void *named_thread(void *name)
{
    prctl(PR_SET_NAME, name);
    burn_cpu(0.6); // a good part of it after the scan has found the thread
    return NULL;
}

static void run_named(const char *first, const char *second)
{
    pthread_t threads[2];
    pthread_create(&threads[0], NULL, named_thread, (void *)first);
    pthread_create(&threads[1], NULL, named_thread, (void *)second);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
}

static void test_thread_filter(void)
{
    start((struct kiln_options){.frequency = 250, .threads = "keep-*,!keep-not"});
    int window = begin();
    run_named("keep-this", "keep-not");
    burn_cpu(0.2);
    struct result r = write_window(window, NULL);
    struct kiln_statistics s = {.size = sizeof s};
    kiln_get_statistics(&s);
    check(cpu_of(r.p, NULL, "thread", "keep-this") > 0.2, "a thread that was asked for");
    check_near("CPU time of one that was not", cpu_of(r.p, NULL, "thread", "keep-not"), 0, 0);
    check(s.filtered > 20, "what is left out is counted");
    check(r.p && r.p->n_comments > 0, "and told in a comment");
    forget(&r);
    kiln_stop();
}

static int rename_frames(void *context, const struct kiln_frame *frame, char *renamed, size_t n)
{
    if (strcmp(frame->name, "burn_cpu") == 0) {
        snprintf(renamed, n, "renamed %s", (const char *)context);
        return KILN_RENAME;
    }
    return strcmp(frame->name, "run_hooked") == 0 ? KILN_DROP : KILN_KEEP;
}

static int rename_threads(void *context, const struct kiln_thread *thread, char *renamed, size_t n)
{
    if (strcmp(thread->name, "drop-me") == 0)
        return KILN_DROP;
    snprintf(renamed, n, "pool");
    return strncmp(thread->name, "pool-", 5) == 0 ? KILN_RENAME : KILN_KEEP;
}

__attribute__((noipa)) void run_hooked(void);
__attribute__((noipa)) void run_hooked(void)
{
    burn_cpu(0.2);
    sink++;
}

static int drop_all(void *context, const struct kiln_frame *frame, char *renamed, size_t n)
{
    return KILN_DROP;
}

static void test_hooks(void)
{
    start((struct kiln_options){.frequency = 250});
    int window = begin();
    run_hooked();
    run_named("pool-1", "drop-me");
    kiln_set_frame_hook(rename_frames, "by a hook");
    kiln_set_thread_hook(rename_threads, NULL);
    struct result r = write_window(window, NULL);
    check(cpu_of(r.p, "renamed by a hook", NULL, NULL) > 0.3, "a frame is renamed");
    check(cpu_of(r.p, "burn_cpu", NULL, NULL) == 0, "its old name is gone");
    check(cpu_of(r.p, "run_hooked", NULL, NULL) == 0, "a frame is dropped");
    check(cpu_of(r.p, NULL, "thread", "pool") > 0.2, "a thread is renamed");
    check(cpu_of(r.p, NULL, "thread", "drop-me") == 0, "a thread is dropped");
    // Frames without a name are not asked about: libc's are such without its debug file.
    bool all_named = cpu_of(r.p, "__libc_start_call_main", NULL, NULL) > 0;
    forget(&r);
    kiln_set_frame_hook(drop_all, NULL);
    kiln_set_thread_hook(NULL, NULL);
    window = begin();
    run_hooked();
    r = write_window(window, NULL);
    check(cpu_of(r.p, all_named ? "[dropped]" : NULL, NULL, NULL) > 0.1,
          "what has no frame left keeps its weight");
    forget(&r);
    kiln_set_frame_hook(NULL, NULL);
    kiln_stop();
}

static int child(void)
{
    struct kiln_error error;
    int window = kiln_window_begin(&error);
    if (window >= 0)
        return 1; // not running after fork
    if (kiln_start(NULL, &error) || (window = kiln_window_begin(&error)) < 0)
        return 2;
    burn_cpu(0.2);
    struct result r = write_window(window, NULL);
    int result = cpu_of(r.p, "burn_cpu", NULL, NULL) > 0.05 ? 0 : 3;
    forget(&r);
    kiln_stop();
    return result;
}

static void test_fork(void)
{
#ifdef __SANITIZE_THREAD__
    return; // its run-time allows no threads after a fork
#endif
    start((struct kiln_options){0});
    int window = begin();
    for (int i = 0; i < 3; i++) {
        pid_t pid = fork();
        if (pid == 0)
            _exit(child());
        int status = -1;
        waitpid(pid, &status, 0);
        check(WIFEXITED(status) && WEXITSTATUS(status) == 0, "a child profiles itself");
    }
    burn_cpu(0.2);
    struct result r = write_window(window, NULL);
    check_near("the parent's CPU time", cpu_of(r.p, "burn_cpu", NULL, NULL), 0.2, 0.06);
    forget(&r);
    kiln_stop();
}

// Code in no file, which a perf map names.
static void test_perf_map(void)
{
#if defined(__x86_64__)
    // loop: dec %edi; jnz loop; ret
    static const unsigned char code[] = {0xff, 0xcf, 0x75, 0xfc, 0xc3};
    unsigned char *page =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(page, code, sizeof code);
    char path[64];
    snprintf(path, sizeof path, "/tmp/perf-%d.map", (int)getpid());
    FILE *f = fopen(path, "w");
    fprintf(f, "%llx 10 old name\nnonsense\n%llx 10 jitted loop\n",
            (unsigned long long)(uintptr_t)page, (unsigned long long)(uintptr_t)page);
    fclose(f);
    start((struct kiln_options){.frequency = 250});
    int window = begin();
    double until = seconds_of(CLOCK_THREAD_CPUTIME_ID) + 0.4;
    while (seconds_of(CLOCK_THREAD_CPUTIME_ID) < until) {
        void (*loop)(int);
        memcpy(&loop, &page, sizeof loop);
        loop(1000000);
    }
    struct result r = write_window(window, NULL);
    check(cpu_of(r.p, "jitted loop", NULL, NULL) > 0.2, "a perf map names code of a JIT");
    char text[100];
    check(agent_symbol((uintptr_t)page + 1, text, sizeof text) && !strcmp(text, "jitted loop"),
          "agent_symbol does, too");
    forget(&r);
    kiln_stop();
    unlink(path);
#endif
}

static void copy_file(const char *from, const char *to)
{
    char buffer[65536];
    size_t n;
    FILE *in = fopen(from, "r"), *out = fopen(to, "w");
    if (!in || !out)
        abort();
    while ((n = fread(buffer, 1, sizeof buffer, in)))
        fwrite(buffer, 1, n, out);
    fclose(in);
    fclose(out);
}

// A library whose file is replaced by one with other names while it is loaded; neither has a
// build id to tell them apart.
static void test_replaced_file(void)
{
    char path[] = "/tmp/kiln-replaced-XXXXXX", fresh[64];
    close(mkstemp(path));
    snprintf(fresh, sizeof fresh, "%s.new", path);
    copy_file(VICTIM, path);
    void *library = dlopen(path, RTLD_NOW);
    void (*burn)(double, double (*)(clockid_t));
    *(void **)&burn = library ? dlsym(library, "victim_burn") : NULL;
    if (!burn) {
        check(false, "the victim is loaded");
        return;
    }
    copy_file(DECOY, fresh);
    rename(fresh, path);
    start((struct kiln_options){.frequency = 250});
    int window = begin();
    burn(0.3, seconds_of);
    struct result r = write_window(window, NULL);
    check(cpu_of(r.p, "decoy_burn", NULL, NULL) == 0, "no names from a file that took its place");
    if (geteuid() == 0)
        check(cpu_of(r.p, "victim_burn", NULL, NULL) > 0.1, "the kernel still has the old one");
    forget(&r);
    kiln_stop();
    dlclose(library);
    unlink(path);
}

int main(void)
{
    test_formats();
    test_rates();
    test_last();
    test_labels();
    test_thread_filter();
    test_hooks();
    test_fork();
    test_perf_map();
    test_replaced_file();
    test_label_references();
    test_label_churn();
    printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}
