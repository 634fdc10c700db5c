// The spool for ClickHouse: a segment as it is, then with the hashes of its records corrected. It
// is sent to a ClickHouse that answers with the rest of the input.
#include <stdlib.h>

#include "store/clickhouse.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum { BATCH = 77, HEAD = 16 };

static const uint8_t *answers;
static size_t n_answers;

// The linker redirects the store's calls to these functions; their types must be the same.
__typeof__(clickhouse_query) __wrap_clickhouse_query;
__typeof__(clickhouse_number) __wrap_clickhouse_number;
__typeof__(clickhouse_insert) __wrap_clickhouse_insert;
__typeof__(drops_query) __wrap_drops_query;
__typeof__(spool_append_decision) __wrap_spool_append_decision;

int __wrap_clickhouse_query(struct clickhouse *c, struct str sql, struct arena *arena,
                            struct unpack *rows, struct err *e)
{
    size_t part = n_answers / 2;
    if (rows)
        *rows = (struct unpack){answers, answers + part, false};
    answers += part;
    n_answers -= part;
    return 0;
}

int __wrap_clickhouse_number(struct clickhouse *c, struct str sql, struct budget *budget,
                             uint64_t *n, struct err *e)
{
    *n = n_answers ? *answers : 0;
    if (str_find(sql, STR("system.processes"), 0) != SIZE_MAX)
        *n = 0;
    return 0;
}

int __wrap_clickhouse_insert(struct clickhouse *c, const char *table, const char *id,
                             struct str rows, struct err *e)
{
    return 0;
}

int __wrap_drops_query(struct clickhouse *c, struct day_drops *days, size_t n, struct arena *arena,
                       struct err *e)
{
    return 0;
}

int __wrap_spool_append_decision(struct spool *s, struct segment_file *f, uint64_t whole,
                                 struct str record, struct err *e)
{
    return 0;
}

static void ignore_note(void *ctx, const char *text)
{
}

// Sets the hash of each complete record to the correct value.
static void fix_hashes(uint8_t *bytes, size_t n)
{
    for (size_t at = 0; n - at >= HEAD;) {
        uint32_t head[2];
        memcpy(head, bytes + at, sizeof head);
        if (head[0] > n - at - HEAD)
            return;
        uint64_t hash = hash_stable(bytes + at + HEAD, head[0], BATCH ^ head[1]);
        memcpy(bytes + at + 8, &hash, sizeof hash);
        at += HEAD + head[0];
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (n < 2)
        return 0;
    // The first byte selects the size of the segment and whether it was attempted before.
    size_t length = (n - 1) * (data[0] & 127) / 127;
    uint8_t *bytes = malloc(length + 1);
    struct clickhouse *c = calloc(1, sizeof *c);
    struct segment_file f = {.batch = BATCH, .fd = -1, .attempted = data[0] & 128};
    struct err e;
    if (bytes && c && !known_init(&c->stored, 0)) {
        c->options.note = ignore_note;
        memcpy(bytes, data + 1, length);
        pthread_mutex_init(&c->spool.lock, NULL);
        for (int i = 0; i < 2; i++) {
            answers = data + 1 + length;
            n_answers = n - 1 - length;
            clickhouse_send(c, &f, bytes, length, &e);
            fix_hashes(bytes, length);
        }
        pthread_mutex_destroy(&c->spool.lock);
        known_fini(&c->stored);
    }
    free(c);
    free(bytes);
    return 0;
}
