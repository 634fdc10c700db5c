// A journal as a process leaves it, in memory: what tests read and break.
#pragma once

#include <string.h>

#include "capture/record.h"
#include "codec/journal.h"

struct image {
    _Alignas(64) uint8_t p[32768];
    size_t n;
    struct journal_block *records;
};

static inline struct journal_part *image_part(struct image *i)
{
    return (struct journal_part *)i->p;
}

static inline void image_begin(struct image *i)
{
    memset(i, 0, sizeof *i);
    i->n = (sizeof(struct journal_part) + 63) & ~(size_t)63;
    struct journal_part *part = image_part(i);
    part->magic = JOURNAL_MAGIC;
    part->version = JOURNAL_VERSION;
    part->pid = 77;
    part->hz = 100;
    part->time_nanos = 1700000000000000000;
    atomic_store(&part->duration_nanos, 2000000000u);
    memcpy(part->program, "app", 4);
}

static inline struct journal_block *image_block(struct image *i, uint32_t kind, size_t bytes)
{
    struct journal_block *block = (struct journal_block *)(i->p + i->n);
    block->kind = kind;
    block->size = (uint32_t)((sizeof *block + bytes + 63) & ~(size_t)63);
    atomic_store(&block->used, sizeof *block);
    i->n += block->size;
    atomic_store(&image_part(i)->used, i->n);
    if (kind == JOURNAL_RECORDS)
        i->records = block;
    return block;
}

static inline void *image_record(struct image *i, uint32_t kind, size_t size)
{
    struct journal_block *block = i->records;
    struct journal_record *record =
        (struct journal_record *)((uint8_t *)block + atomic_load(&block->used));
    size = (size + 7) & ~(size_t)7;
    *record = (struct journal_record){kind, (uint32_t)size};
    atomic_fetch_add(&block->used, (uint32_t)size);
    return record;
}

static inline void image_module(struct image *i, uint64_t start, uint64_t end, const char *path)
{
    size_t n = strlen(path);
    struct journal_module *record = image_record(i, JOURNAL_MODULE, sizeof *record + n + 4);
    struct module_record *m = &record->module;
    m->start = start;
    m->end = end;
    m->file_offset = 0x1000;
    m->n_path = (uint32_t)n;
    m->n_build_id = 4;
    memcpy(m->text, path, n);
    memcpy(m->text + n, "\xde\xad\xbe\xef", 4);
}

static inline void image_thread(struct image *i, uint32_t serial, uint32_t tid, const char *name)
{
    struct journal_thread *t = image_record(i, JOURNAL_THREAD, sizeof *t);
    t->serial = serial;
    t->tid = tid;
    memcpy(t->name, name, strlen(name));
}

static inline struct journal_stack *image_stack(struct image *i, uint32_t thread, uint64_t ticks,
                                                const uint64_t *pcs, const uint16_t *modules,
                                                uint16_t n)
{
    struct journal_stack *s = image_record(i, JOURNAL_STACK, sizeof *s + n * (size_t)10);
    s->thread = thread;
    s->n = n;
    atomic_store(&s->ticks, ticks);
    atomic_store(&s->nanos, ticks * 10000000u);
    memcpy(s->pcs, pcs, n * sizeof *pcs);
    memcpy(s->pcs + n, modules, n * sizeof *modules);
    return s;
}

static inline struct ring *image_ring(struct image *i, uint32_t words)
{
    struct journal_block *block =
        image_block(i, JOURNAL_RING, sizeof(struct ring) + words * sizeof(uint64_t));
    struct ring *r = (struct ring *)(block + 1);
    r->size = words;
    r->tid = 79;
    r->serial = 9;
    memcpy(r->name, "late", 5);
    return r;
}

// Modules, threads, labels, stacks of every kind, and a ring with a filler in it.
static inline void image_make(struct image *i)
{
    image_begin(i);
    image_block(i, JOURNAL_RECORDS, 1024);
    image_module(i, 0x400000, 0x500000, "/bin/app");
    image_module(i, 0x7f0000000000, 0x7f0000100000, "/lib/libx.so");
    image_thread(i, 1, 78, "worker");
    struct journal_labels *l = image_record(i, JOURNAL_LABELS, sizeof *l + 8 + 3 + 3);
    l->set = 5;
    l->n = 1;
    memcpy(l->data, (uint32_t[2]){3, 3}, 8);
    memcpy((char *)l->data + 8, "keyval", 6);
    const uint64_t pcs[] = {0x7f0000000010, 0x400123};
    const uint16_t modules[] = {1, 0};
    image_stack(i, 1, 3, pcs, modules, 2)->label = 5;
    image_stack(i, 1, 2, pcs, modules, 0)->kind = CAPTURE_BLOCKED;
    struct journal_stack *traced = image_stack(i, 1, 1, pcs + 1, modules + 1, 1);
    traced->truncated = 1;
    traced->ids[0] = 1;
    traced->ids[2] = 2;
    struct ring *r = image_ring(i, 16);
    const struct record record = {.n = 2, .ticks = 4, .ns = 40000000};
    const struct record last = {.n = 1, .ticks = 1, .ns = 10000000, .unticked = true};
    // The first begins at 14: there is no room for it before the end.
    r->words[14] = RING_FILLER;
    uint32_t first = record_encode(r->words, &record);
    memcpy(r->words + RECORD_HEAD, (uint64_t[]){0x7f0000000020, 0x400456}, 16);
    atomic_store(&r->tail, 14);
    uint32_t second = record_encode(r->words + first, &last);
    r->words[first + RECORD_HEAD] = 0x400456;
    atomic_store(&r->head, 16 + first + second);
    atomic_store(&r->unticked, 2);
    atomic_store(&r->unticked_ns, 20000000);
}
