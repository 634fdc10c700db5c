// What tests/store/run drives: puts numbered profiles and says which ones the store acknowledged.
//
// usage: writer DIRECTORY put FIRST COUNT THREADS [maintain]
//            `ack N` after profile N was acknowledged, `fail N CODE MESSAGE` if it was not; waits
//            for a line of input before each after a failure
//        writer DIRECTORY list
//            `N TIMES` for every number that is there, `total T`, `damaged D`
//        writer DIRECTORY check | maintain
// DIRECTORY may be clickhouse://...: then the environment's KILN_TEST_SPOOL is the directory.
//
// Profile N is one millisecond after N - 1, has the value N + 1, and an id, so that it can be sent
// again by somebody who does not know whether it was stored.
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <unistd.h>

#include "../unit/store_profiles.h"

#define MILLISECOND INT64_C(1000000)
#define T0 (INT64_C(20000) * 86400 * 1000 * MILLISECOND + INT64_C(86390) * 1000 * MILLISECOND)

static struct store *store;
static int64_t next, end;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void say(const char *format, ...)
{
    char line[700];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    // One write: what the parent has read was acknowledged, whatever happens next.
    if (write(1, line, (size_t)n) != n)
        _exit(1);
}

static void note(void *ctx, const char *text)
{
    fprintf(stderr, "note: %s\n", text);
}

static struct model_profile *make(struct arena *arena, int64_t number)
{
    struct model_builder b;
    model_build(&b, arena);
    model_build_type(&b, STR("cpu"), STR("nanoseconds"));
    b.p->period_type = (struct model_value_type){model_build_string(&b, STR("cpu")),
                                                 model_build_string(&b, STR("nanoseconds"))};
    // Some values that cancel out, so that bodies are not all alike; new names now and then.
    uint64_t random = (uint64_t)number;
    for (int i = 0; i < 40; i++) {
        char name[64];
        uint32_t stack[4];
        for (int d = 0; d < 4; d++) {
            snprintf(name, sizeof name, "f%llu",
                     (unsigned long long)(profile_random(&random) % (uint64_t)(50 + number / 8)));
            stack[d] = model_build_named_location(&b, str_from(name));
        }
        int64_t value = (int64_t)(profile_random(&random) % 100), minus = -value;
        model_build_sample(&b, stack, 4, &value);
        model_build_sample(&b, stack, 3, &minus);
    }
    uint32_t leaf[1] = {model_build_named_location(&b, STR("main"))};
    int64_t value = number + 1;
    model_build_sample(&b, leaf, 1, &value);
    return b.p;
}

static void *put_all(void *arg)
{
    for (;;) {
        pthread_mutex_lock(&lock);
        int64_t number = next++;
        pthread_mutex_unlock(&lock);
        if (number >= end)
            return NULL;
        char id[32], pod[8];
        snprintf(id, sizeof id, "%lld", (long long)number);
        snprintf(pod, sizeof pod, "%d", (int)(number % 3));
        struct store_label labels[] = {{STR("__name__"), STR("process_cpu")},
                                       {STR("pod"), str_from(pod)},
                                       {STR("service_name"), STR("crash")}};
        struct arena *arena = arena_new(0);
        struct store_put put = {.tenant = STR("anonymous"),
                                .labels = labels,
                                .n_labels = 3,
                                .time = T0 + number * MILLISECOND,
                                .profile = make(arena, number),
                                .id = str_from(id)};
        struct err e;
        int code;
        while ((code = store_put(store, &put, 1, &e)) != 0) {
            char c;
            say("fail %lld %d %s\n", (long long)number, code, e.message);
            if (read(0, &c, 1) != 1)
                exit(0);
        }
        say("ack %lld\n", (long long)number);
        arena_free(arena);
    }
}

static void *maintain(void *arg)
{
    struct err e;
    for (;;) {
        if (store_maintain(store, true, &e))
            say("fail maintain %s\n", e.message);
        usleep(20000);
    }
    return NULL;
}

static int put(int argc, char **argv)
{
    int64_t count, threads;
    if (argc < 6 || !str_to_i64(str_from(argv[3]), &next) ||
        !str_to_i64(str_from(argv[4]), &count) || !str_to_i64(str_from(argv[5]), &threads))
        return 2;
    end = next + count;
    pthread_t ids[16], care;
    if (argc > 6)
        pthread_create(&care, NULL, maintain, NULL);
    for (int i = 0; i < threads && i < 16; i++)
        pthread_create(&ids[i], NULL, put_all, NULL);
    for (int i = 0; i < threads && i < 16; i++)
        pthread_join(ids[i], NULL);
    if (argc > 6)
        _exit(0);
    return 0;
}

static int list(void)
{
    struct arena *arena = arena_new(0);
    struct err e;
    struct store_line *lines;
    struct store_stacks *stacks;
    struct store_answer answer;
    size_t n;
    struct store_select select = {.tenant = STR("anonymous"),
                                  .type = STR("process_cpu:cpu:nanoseconds:cpu:nanoseconds"),
                                  .start = T0,
                                  .end = INT64_MAX};
    if (store_lines(store, &select, MILLISECOND, arena, &lines, &n, &answer, &e))
        return fprintf(stderr, "%s\n", e.message), 1;
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < lines[i].n_points; j++) {
            const struct store_point *p = &lines[i].points[j];
            printf("%lld %llu\n", (long long)p->index, (unsigned long long)p->n);
            if (p->sum != (double)(p->index + 1) * (double)p->n)
                printf("wrong %lld %f\n", (long long)p->index, p->sum);
            sum += p->sum;
        }
    // What the stacks say must be the same.
    uint32_t damaged = answer.damaged_days;
    if (store_merge(store, &select, arena, &stacks, &answer, &e))
        return fprintf(stderr, "%s\n", e.message), 1;
    int64_t total = 0;
    for (uint32_t i = 0; i < stacks->n_nodes; i++)
        total += stacks->self[i];
    if ((double)total != sum)
        printf("wrong total %lld %f\n", (long long)total, sum);
    printf("total %lld\ndamaged %u\n", (long long)total, damaged + answer.damaged_days);
    arena_free(arena);
    return 0;
}

int main(int argc, char **argv)
{
    struct err e;
    if (argc < 3)
        return 2;
    signal(SIGXFSZ, SIG_IGN);
    setvbuf(stdout, NULL, _IOLBF, 0);
    struct store_options options = {.commit_nanos = 5 * MILLISECOND,
                                    .maintain_nanos = -1,
                                    .note = note,
                                    .directory = getenv("KILN_TEST_SPOOL")};
    store = store_open(argv[1], &options, &e);
    if (!store)
        return fprintf(stderr, "%s\n", e.message), 1;
    int result = 2;
    if (strcmp(argv[2], "put") == 0)
        result = put(argc, argv);
    else if (strcmp(argv[2], "list") == 0)
        result = list();
    else if (strcmp(argv[2], "check") == 0)
        result = store_check(store, note, NULL, &e) != 0;
    else if (strcmp(argv[2], "maintain") == 0)
        result = store_maintain(store, true, &e) != 0;
    store_close(store);
    return result;
}
