// Measures the search for changes over a store: services with 300 functions and 20 pods, two weeks
// of hours, then one run for each further hour.
//
// usage: watch DIRECTORY [SERVICES [HOURS [LOOKS]]]
// Prints `name value unit` lines, which bench/changes compares with goals.
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

#include "../tests/unit/store_profiles.h"
#include "changes/changes.h"

#define SECOND INT64_C(1000000000)
#define HOUR (3600 * SECOND)
#define T0 (INT64_C(20000) * 24 * HOUR)

// PER_HOUR: profiles of a pod. DRAWS: samples of a profile. BATCH: hours per put.
enum { PODS = 20, PER_HOUR = 3, DRAWS = 600, BATCH = 6 };

static double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void exit_if_failed(int code, const struct err *e)
{
    if (!code)
        return;
    fprintf(stderr, "watch: %s\n", e->message);
    exit(1);
}

static void put_hours(struct store *store, const struct model_profile *all, int service, int from,
                      int to)
{
    struct arena *arena = arena_new(0);
    int n = (to - from) * PODS * PER_HOUR;
    struct store_put *puts = arena_array(arena, (size_t)n, sizeof *puts);
    struct err e;
    struct str name = str_from(arena_printf(arena, "service%d", service));
    for (int i = 0; i < n; i++) {
        int hour = from + i / (PODS * PER_HOUR), at = i % (PODS * PER_HOUR);
        uint64_t seed = (uint64_t)(hour * 1000003 + service * 101 + at);
        const char *version = arena_printf(arena, "%d", (hour + 7 * service) / 50);
        struct store_label *labels = arena_array(arena, 4, sizeof *labels);
        labels[0] = (struct store_label){STR("__name__"), STR("process_cpu")};
        labels[1] =
            (struct store_label){STR("pod"), str_from(arena_printf(arena, "pod%d", at % PODS))};
        labels[2] = (struct store_label){STR("service_name"), name};
        labels[3] = (struct store_label){STR("version"), str_from(version)};
        puts[i] = (struct store_put){.tenant = STR("anonymous"),
                                     .labels = labels,
                                     .n_labels = 4,
                                     .time = T0 + hour * HOUR + at * 50 * SECOND,
                                     .duration = 10 * SECOND,
                                     .profile = profile_draw(arena, all, DRAWS, seed)};
    }
    exit_if_failed(store_put(store, puts, (size_t)n, &e), &e);
    arena_free(arena);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: watch DIRECTORY [SERVICES [HOURS [LOOKS]]]\n");
        return 2;
    }
    int services = argc > 2 ? (int)strtoul(argv[2], NULL, 10) : 5,
        hours = argc > 3 ? (int)strtoul(argv[3], NULL, 10) : CHANGES_WINDOWS;
    int looks = argc > 4 ? (int)strtoul(argv[4], NULL, 10) : 3;
    const struct profile_shape shape = {300, 2000, 24, 120, 0x555500000000};
    struct store_options options = {.commit_nanos = -1, .maintain_nanos = -1};
    struct err e;
    struct store *store = store_open(argv[1], &options, &e);
    if (!store)
        exit_if_failed(-1, &e);
    struct arena *arena = arena_new(0);
    const struct model_profile *all = profile_all(arena, &shape);
    for (int hour = 0; hour < hours; hour += BATCH)
        for (int i = 0; i < services; i++)
            put_hours(store, all, i, hour, hour + BATCH < hours ? hour + BATCH : hours);
    exit_if_failed(store_maintain(store, true, &e), &e);
    struct changes_options job = {.data = argv[1], .store = store};
    struct changes *c = changes_open(&job, &e);
    double began = cpu_seconds();
    exit_if_failed(changes_look(c, T0 + hours * HOUR + HOUR / 10, &e), &e);
    printf("first_look %.3f ms a service\n", (cpu_seconds() - began) / services * 1e3);
    double sum = 0;
    for (int hour = hours; hour < hours + looks; hour++) {
        for (int i = 0; i < services; i++)
            put_hours(store, all, i, hour, hour + 1);
        began = cpu_seconds();
        exit_if_failed(changes_look(c, T0 + (hour + 1) * HOUR + HOUR / 10, &e), &e);
        sum += cpu_seconds() - began;
    }
    double look = sum / looks / services;
    printf("look %.3f ms a service\n", look * 1e3);
    printf("thousand_services %.2f %% of a core\n", look * 1000 / 3600 * 100);
    char path[4200];
    struct stat st;
    snprintf(path, sizeof path, "%.4000s/changes/anonymous.db", argv[1]);
    if (stat(path, &st) == 0)
        printf("state %.0f bytes a service and hour\n", (double)st.st_size / services / hours);
    struct changes_counters counters;
    changes_counters(c, &counters);
    printf("found %llu changes\n", (unsigned long long)counters.found);
    changes_close(c);
    store_close(store);
    arena_free(arena);
    return 0;
}
