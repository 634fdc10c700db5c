// A store in a directory of its own, for the tests of the store.
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <ftw.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store_profiles.h"

#define SECOND INT64_C(1000000000)
#define DAY (86400 * SECOND)
#define T0 (INT64_C(20000) * DAY) // the start of a day: 2024-10-04

static const struct profile_shape SHAPE = {300, 2000, 24, 120, 0x555500000000};
static const struct str CPU = {"process_cpu:cpu:nanoseconds:cpu:nanoseconds", 43};

static char notes[4096]; // the last note of the store

static void note(void *ctx, const char *text)
{
    snprintf(notes, sizeof notes, "%s", text);
}

static void must(int code, const struct err *e)
{
    if (code)
        fail_msg("%d: %s", code, e->message);
}

struct fixture {
    char dir[128];
    struct store *store;
    struct store_options options;
    struct arena *arena;
};

// Opens the store of f, which is closed first if it is open.
static void reopen(struct fixture *f)
{
    // tests/clickhouse runs test_store over ClickHouse, each test with a database of its own.
    const char *clickhouse = getenv("KILN_TEST_CLICKHOUSE");
    char where[300];
    struct err e;
    store_close(f->store);
    f->options.directory = f->dir;
    snprintf(where, sizeof where, clickhouse ? "%s/t%s" : "%s%s", clickhouse ? clickhouse : f->dir,
             clickhouse ? strrchr(f->dir, '-') + 1 : "");
    f->store = store_open(where, &f->options, &e);
    if (!f->store)
        fail_msg("%s", e.message);
}

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    snprintf(f->dir, sizeof f->dir, "/tmp/kiln-store-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    f->options = (struct store_options){.commit_nanos = -1, .maintain_nanos = -1, .note = note};
    f->arena = arena_new(0);
    reopen(f);
    *state = f;
    return 0;
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    return remove(path);
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    store_close(f->store);
    arena_free(f->arena);
    nftw(f->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    free(f);
    return 0;
}
