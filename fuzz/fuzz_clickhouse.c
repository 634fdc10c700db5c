// ClickHouse answers in RowBinary. Each query gets the next part of the input.
#include <stdlib.h>

#include "store/clickhouse.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
// The linker redirects the store's calls to this function.
__typeof__(clickhouse_query) __wrap_clickhouse_query;

static struct unpack input;

// Input format: two bytes with the length, then the answer.
int __wrap_clickhouse_query(struct clickhouse *c, struct str sql, struct arena *arena,
                            struct unpack *rows, struct err *e)
{
    struct str head = unpack_bytes(&input, 2), answer = {"", 0};
    if (head.n == 2) {
        size_t n = (uint8_t)head.p[0] | (size_t)(uint8_t)head.p[1] << 8;
        size_t left = (size_t)(input.end - input.p);
        answer = unpack_bytes(&input, n < left ? n : left);
    }
    // Copy into the arena, where the sanitizer detects overruns.
    struct arena_trap trap;
    if (ARENA_TRY(arena, trap)) {
        arena_caught(arena, e);
        return STORE_BUSY;
    }
    uint8_t *copy = arena_array(arena, answer.n + 1, 1);
    memcpy(copy, answer.p, answer.n);
    arena_try_end(arena);
    *rows = (struct unpack){copy, copy + answer.n, false};
    return 0;
}

static void ignore_note(void *ctx, const char *text)
{
}

static void run_query(struct clickhouse *c, uint8_t what, struct arena *arena)
{
    struct store_select select = {.tenant = STR("t"),
                                  .type = what & 8
                                              ? STR("memory:inuse_space:bytes:space:bytes")
                                              : STR("process_cpu:cpu:nanoseconds:cpu:nanoseconds"),
                                  .start = 0,
                                  .end = 30 * HOUR_NANOS};
    struct store_answer answer = {0};
    struct store_stacks *stacks;
    struct store_line *lines;
    struct store_series *series;
    struct store_address *addresses;
    struct str *tenants;
    struct err e;
    size_t n;
    switch (what & 7) {
    case 0:
        clickhouse_series(c, &select, arena, &series, &n, &answer, &e);
        break;
    case 1:
        clickhouse_lines(c, &select, HOUR_NANOS, arena, &lines, &n, &answer, &e);
        break;
    case 2:
        clickhouse_unnamed(c, STR("t"), STR(""), 0, HOUR_NANOS, arena, &addresses, &n, &e);
        break;
    case 3:
        clickhouse_tenants(c, arena, &tenants, &n, &e);
        break;
    default:
        if (clickhouse_merge(c, &select, arena, &stacks, &answer, &e))
            break;
        for (uint32_t i = 1; i < stacks->n_nodes; i++)
            if (stacks->parent[i] >= i || stacks->location[i] >= stacks->symbols->n_locations)
                abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct clickhouse *c = calloc(1, sizeof *c);
    struct arena *arena = arena_new(64 << 20);
    if (n > 1 && c && arena) {
        pthread_mutex_init(&c->lock, NULL);
        pthread_mutex_init(&c->spool.lock, NULL);
        c->spool.next_seq = 1;
        // Known, so that each query reads voids without asking whether there are any.
        c->has_voids = true;
        c->voids_until = INT64_MAX;
        c->options = (struct store_options){.note = ignore_note, .memory = 64 << 20};
        input = (struct unpack){data + 1, data + n, false};
        run_query(c, data[0], arena);
        stacks_forget(c);
        pthread_mutex_destroy(&c->spool.lock);
        pthread_mutex_destroy(&c->lock);
    }
    arena_free(arena);
    free(c);
    return 0;
}
