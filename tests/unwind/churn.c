// Snapshots are built while objects come and go in another thread.
// usage: churn PLUGIN SECONDS
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "unwind/unwind.h"

static atomic_bool stop;
static atomic_long loads;

static void *load(void *path)
{
    while (!stop) {
        void *library = dlopen(path, RTLD_NOW);
        if (library) {
            loads++;
            dlclose(library);
        }
    }
    return NULL;
}

static size_t depth(const struct unwind_snapshot *snapshot, enum unwind_end *why)
{
    uintptr_t pcs[64];
    struct unwind_regs regs;
    unwind_regs_here(&regs);
    static struct unwind_cache cache;
    return unwind_stack(snapshot, &regs, (struct unwind_stack_bounds){0}, pcs, 64, &cache, why);
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    pthread_t thread;
    if (pthread_create(&thread, NULL, load, argv[1]) != 0)
        return 2;
    time_t end = time(NULL) + strtol(argv[2], NULL, 10);
    struct unwind_snapshot *snapshot = NULL;
    long built = 0, bad = 0;
    while (time(NULL) < end) {
        struct err e;
        struct unwind_snapshot *next = unwind_snapshot_build(snapshot, &e);
        if (!next) {
            printf("%s\n", e.message);
            bad++;
            break;
        }
        unwind_snapshot_free(snapshot);
        snapshot = next;
        // Every other one walks by .eh_frame.
        while (built % 2 && unwind_snapshot_build_table(snapshot, true))
            ;
        built++;
        enum unwind_end why;
        if (depth(snapshot, &why) < 3 || why != UNWIND_END_ROOT)
            bad++;
    }
    stop = true;
    pthread_join(thread, NULL);
    unwind_snapshot_free(snapshot);
    printf("%ld snapshots during %ld loads, %ld bad\n", built, (long)loads, bad);
    return bad != 0 || built == 0 || loads == 0;
}
