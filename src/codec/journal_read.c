#include "codec/journal.h"

#include <stdio.h>
#include <stdlib.h>

#include "capture/record.h"
#include "model/builder.h"

struct module {
    uint64_t start, end, file_offset;
    struct str path;
    const uint8_t *build_id;
    uint32_t n_build_id;
    uint32_t mapping; // mapping index + 1; 0 means not built yet
};

struct thread {
    uint32_t serial, tid;
    struct str name;
};

struct labels {
    uint32_t set, n;
    const uint8_t *data, *end;
};

struct reader {
    struct arena *arena;
    const uint8_t *data;
    size_t n;
    struct journal_part part;
    struct model_builder b;
    struct module *modules;
    size_t n_modules, cap_modules;
    struct thread *threads; // sorted by serial
    size_t n_threads, cap_threads;
    struct labels *labels;
    size_t n_labels, cap_labels;
    uint64_t n_rings;
};

// --- blocks and records ---

struct block {
    uint32_t kind;
    const uint8_t *p; // follows the header
    size_t n;         // bytes used
};

// Reads the block at *at and moves *at past it. Returns false at the end or if the block is
// invalid.
static bool next_block(const struct reader *r, size_t *at, struct block *block)
{
    struct journal_block head;
    if (r->n - *at < sizeof head)
        return false;
    memcpy(&head, r->data + *at, sizeof head);
    if (head.size < sizeof head || head.size % 64 || head.size > r->n - *at)
        return false;
    uint32_t used = head.kind == JOURNAL_RECORDS ? atomic_load(&head.used) : head.size;
    if (used < sizeof head || used > head.size)
        used = sizeof head;
    *block = (struct block){head.kind, r->data + *at + sizeof head, used - sizeof head};
    *at += head.size;
    return true;
}

static size_t first_block(void)
{
    return (sizeof(struct journal_part) + 63) & ~(size_t)63;
}

// Takes the first record off the block.
static bool next_record(struct block *block, struct journal_record *head, const uint8_t **record)
{
    if (block->n < sizeof *head)
        return false;
    memcpy(head, block->p, sizeof *head);
    if (head->size < sizeof *head || head->size % 8 || head->size > block->n)
        return false;
    *record = block->p;
    block->p += head->size;
    block->n -= head->size;
    return true;
}

// --- modules and labels ---

static void journal_read_module(struct reader *r, const uint8_t *record, size_t size)
{
    struct journal_module read;
    struct module module = {0};
    memset(&read, 0, sizeof read);
    memcpy(&read, record, size < sizeof read ? size : sizeof read);
    const struct module_record *m = &read.module;
    size_t room = size > sizeof read ? size - sizeof read : 0;
    // An invalid module keeps its number, because stacks refer to modules by number.
    if (m->n_path <= room && m->n_build_id <= room - m->n_path && m->start < m->end) {
        module.start = m->start;
        module.end = m->end;
        module.file_offset = m->file_offset;
        module.path = (struct str){(const char *)record + sizeof read, m->n_path};
        module.build_id = record + sizeof read + m->n_path;
        module.n_build_id = m->n_build_id;
    }
    r->modules =
        arena_push(r->arena, r->modules, r->n_modules, &r->cap_modules, sizeof *r->modules);
    r->modules[r->n_modules++] = module;
}

static void journal_read_labels(struct reader *r, const uint8_t *record, size_t size)
{
    struct journal_labels head;
    if (size < sizeof head)
        return;
    memcpy(&head, record, sizeof head);
    r->labels = arena_push(r->arena, r->labels, r->n_labels, &r->cap_labels, sizeof *r->labels);
    r->labels[r->n_labels++] =
        (struct labels){head.set, head.n, record + sizeof head, record + size};
}

static struct str fixed_size_text(const char *p, size_t n)
{
    return (struct str){p, strnlen(p, n)};
}

static void journal_read_thread(struct reader *r, const uint8_t *record, size_t size)
{
    struct journal_thread t;
    if (size < sizeof t)
        return;
    memcpy(&t, record, sizeof t);
    const char *name = (const char *)record + offsetof(struct journal_thread, name);
    r->threads =
        arena_push(r->arena, r->threads, r->n_threads, &r->cap_threads, sizeof *r->threads);
    r->threads[r->n_threads++] =
        (struct thread){t.serial, t.tid, fixed_size_text(name, sizeof t.name)};
}

static int compare_threads(const void *a, const void *b)
{
    uint32_t x = ((const struct thread *)a)->serial, y = ((const struct thread *)b)->serial;
    return (x > y) - (x < y);
}

static struct thread find_thread(const struct reader *r, uint32_t serial)
{
    struct thread wanted = {.serial = serial};
    const struct thread *found =
        r->n_threads ? bsearch(&wanted, r->threads, r->n_threads, sizeof wanted, compare_threads)
                     : NULL;
    return found ? *found : wanted;
}

static uint32_t journal_mapping_of(struct reader *r, uint32_t module)
{
    struct module *m = module < r->n_modules ? &r->modules[module] : NULL;
    if (!m || m->end == 0)
        return MODEL_NONE;
    if (!m->mapping) {
        struct model_mapping made = {
            .start = m->start,
            .limit = m->end,
            .offset = m->file_offset,
            .file = model_build_string(&r->b, m->path),
            .build_id = model_build_string(
                &r->b, str_from(arena_hex(r->arena, m->build_id, m->n_build_id))),
        };
        m->mapping = model_build_mapping(&r->b, made) + 1;
    }
    return m->mapping - 1;
}

// Searches the newest module first because it may reuse the addresses of an unloaded one.
static uint32_t journal_read_module_of(const struct reader *r, uint64_t pc)
{
    for (size_t i = r->n_modules; i-- > 0;)
        if (pc >= r->modules[i].start && pc < r->modules[i].end)
            return (uint32_t)i;
    return JOURNAL_NO_MODULE;
}

static void journal_build_labels(struct reader *r, uint32_t set)
{
    const struct labels *l = NULL;
    for (size_t i = 0; i < r->n_labels && !l && set; i++)
        if (r->labels[i].set == set)
            l = &r->labels[i];
    const uint8_t *p = l ? l->data : NULL;
    for (uint32_t i = 0; l && i < l->n && l->end - p >= 8; i++) {
        uint32_t lengths[2];
        memcpy(lengths, p, sizeof lengths);
        p += sizeof lengths;
        if (lengths[0] > (size_t)(l->end - p) || lengths[1] > (size_t)(l->end - p) - lengths[0])
            return;
        struct str key = {(const char *)p, lengths[0]};
        model_build_label(&r->b, key, (struct str){key.p + key.n, lengths[1]});
        p += lengths[0] + lengths[1];
    }
}

// --- samples ---

struct sample {
    uint64_t ticks, nanos, squares; // 0: each tick is one event
    uint32_t label;
    struct thread thread;
    uint64_t ids[3];
    uint8_t kind;
    bool truncated;
    size_t n;
    const uint8_t *pcs, *modules; // modules NULL: look up each pc
};

static void journal_add_sample(struct reader *r, const struct sample *s)
{
    uint32_t frames[JOURNAL_STACK_MAX + 2];
    size_t n = 0;
    if (s->ticks == 0)
        return;
    if (s->kind == CAPTURE_UNTICKED)
        frames[n++] = model_build_named_location(&r->b, STR("[ended before a tick]"));
    for (size_t i = 0; i < s->n; i++) {
        uint64_t pc;
        uint16_t module;
        memcpy(&pc, s->pcs + i * sizeof pc, sizeof pc);
        if (s->modules)
            memcpy(&module, s->modules + i * sizeof module, sizeof module);
        uint32_t at = journal_mapping_of(r, s->modules ? module : journal_read_module_of(r, pc));
        frames[n++] = model_build_location(&r->b, at, pc, NULL, 0);
    }
    if (s->kind == CAPTURE_BLOCKED)
        frames[n++] = model_build_named_location(&r->b, STR("[signals blocked]"));
    else if (s->kind == CAPTURE_UNSAMPLED)
        frames[n++] = model_build_named_location(&r->b, STR("[threads starting and ending]"));
    else if (s->kind != CAPTURE_STACK && s->kind != CAPTURE_UNTICKED)
        frames[n++] = model_build_named_location(&r->b, STR("[dropped]"));
    else if (s->truncated)
        frames[n++] = model_build_named_location(&r->b, STR("[truncated]"));
    if (s->thread.name.n)
        model_build_label(&r->b, STR("thread"), s->thread.name);
    if (s->thread.tid)
        model_build_number_label(&r->b, STR("thread_id"), s->thread.tid, STR(""));
    if (s->ids[0] | s->ids[1])
        model_build_label(&r->b, STR("trace_id"),
                          str_from(arena_hex(r->arena, (const uint8_t *)s->ids, 16)));
    if (s->ids[2])
        model_build_label(&r->b, STR("span_id"),
                          str_from(arena_hex(r->arena, (const uint8_t *)(s->ids + 2), 8)));
    if (r->part.follow) {
        model_build_label(&r->b, STR("process"), fixed_size_text(r->part.program, JOURNAL_NAME));
        model_build_number_label(&r->b, STR("process_id"), r->part.pid, STR(""));
    }
    journal_build_labels(r, s->label);
    int64_t values[2] = {(int64_t)s->ticks, (int64_t)s->nanos};
    model_build_weighed_sample(&r->b, frames, n, values,
                               (double)(s->squares ? s->squares : s->ticks));
}

static void journal_read_stack(struct reader *r, const uint8_t *record, size_t size)
{
    struct journal_stack stack;
    if (size < sizeof stack)
        return;
    memcpy(&stack, record, sizeof stack);
    if (stack.n > JOURNAL_STACK_MAX || stack.n * (size_t)10 > size - sizeof stack)
        return;
    journal_add_sample(r, &(struct sample){
                              .ticks = atomic_load(&stack.ticks),
                              .nanos = atomic_load(&stack.nanos),
                              .squares = atomic_load(&stack.squares),
                              .label = stack.label,
                              .thread = find_thread(r, stack.thread),
                              .ids = {stack.ids[0], stack.ids[1], stack.ids[2]},
                              .kind = stack.kind,
                              .truncated = stack.truncated,
                              .n = stack.n,
                              .pcs = record + sizeof stack,
                              .modules = record + sizeof stack + stack.n * sizeof(uint64_t),
                          });
}

// Adds one ring record, length words long.
static void journal_add_ring_record(struct reader *r, const struct thread *thread,
                                    const uint8_t *record, uint32_t length)
{
    uint64_t words[RECORD_HEAD_MAX] = {0};
    struct record raw;
    memcpy(words, record, (length < RECORD_HEAD_MAX ? length : RECORD_HEAD_MAX) * sizeof *words);
    if (!record_decode(words, &raw))
        return;
    struct sample sample = {
        .ticks = raw.ticks,
        .nanos = raw.ns,
        .squares = (uint64_t)raw.ticks * raw.ticks,
        .label = raw.label,
        .thread = *thread,
        .ids = {raw.ids.trace[0], raw.ids.trace[1], raw.ids.span},
        .kind = raw.unticked ? CAPTURE_UNTICKED : CAPTURE_STACK,
        .truncated = raw.end != UNWIND_END_ROOT,
        .n = raw.n,
        .pcs = record + record_head(raw.has_ids) * sizeof *words,
    };
    r->n_rings++;
    journal_add_sample(r, &sample);
}

// Adds the samples that the signal handler had written when the process stopped.
static void journal_add_ring(struct reader *r, const struct block *block)
{
    struct ring ring;
    if (block->n < sizeof ring)
        return;
    memcpy(&ring, block->p, sizeof ring);
    const char *name = (const char *)block->p + offsetof(struct ring, name);
    struct thread thread = {ring.serial, ring.tid, fixed_size_text(name, sizeof ring.name)};
    struct sample rest = {.thread = thread, .kind = CAPTURE_BLOCKED};
    rest.ticks = atomic_load(&ring.blocked);
    rest.nanos = atomic_load(&ring.blocked_ns);
    journal_add_sample(r, &rest);
    rest.kind = CAPTURE_UNTICKED;
    rest.ticks = atomic_load(&ring.unticked);
    rest.nanos = atomic_load(&ring.unticked_ns);
    journal_add_sample(r, &rest);
    const uint8_t *words = block->p + sizeof ring;
    uint64_t head = atomic_load(&ring.head), tail = atomic_load(&ring.tail);
    if (ring.size == 0 || ring.size & (ring.size - 1) ||
        ring.size > (block->n - sizeof ring) / sizeof(uint64_t) || head - tail > ring.size)
        return;
    while (tail != head) {
        uint64_t first;
        uint32_t at = (uint32_t)(tail & (ring.size - 1)), left = ring.size - at;
        memcpy(&first, words + at * sizeof first, sizeof first);
        uint32_t length = first == RING_FILLER ? left : record_length(&first);
        if (length == 0 || length > left || length > head - tail)
            return;
        if (first != RING_FILLER)
            journal_add_ring_record(r, &thread, words + at * sizeof first, length);
        tail += length;
    }
}

// Adds dropped ticks as a sample, and a comment with the reasons.
static void journal_add_dropped(struct reader *r)
{
    const struct journal_counts *c = &r->part.counts;
    uint64_t dropped = atomic_load(&r->part.dropped), lost = c->ring_full + c->no_snapshot;
    if (dropped + lost == 0)
        return;
    uint64_t nanos = atomic_load(&r->part.dropped_nanos) + lost * (1000000000u / r->part.hz);
    journal_add_sample(
        r, &(struct sample){.ticks = dropped + lost, .nanos = nanos, .kind = UINT8_MAX});
    char text[200];
    int n = snprintf(text, sizeof text,
                     "kiln: process %u dropped %llu ticks because memory was full, %llu by full "
                     "rings, %llu before the tables were ready",
                     r->part.pid, (unsigned long long)dropped, (unsigned long long)c->ring_full,
                     (unsigned long long)c->no_snapshot);
    model_build_comment(&r->b, (struct str){text, (size_t)n});
}

static bool is_jitdump(struct str path)
{
    const char *slash = path.n ? memrchr(path.p, '/', path.n) : NULL;
    return slash && str_ends(path, STR(".dump")) &&
           str_starts(str_from_to(path, (size_t)(slash - path.p), path.n), STR("/jit-"));
}

static void journal_read_blocks(struct reader *r, bool rings)
{
    struct block block;
    struct journal_record head;
    const uint8_t *record;
    // Read modules, labels and threads before the stacks that refer to them, wherever they are.
    for (size_t at = first_block(); next_block(r, &at, &block);)
        while (block.kind == JOURNAL_RECORDS && next_record(&block, &head, &record)) {
            if (head.kind == JOURNAL_MODULE)
                journal_read_module(r, record, head.size);
            else if (head.kind == JOURNAL_LABELS)
                journal_read_labels(r, record, head.size);
            else if (head.kind == JOURNAL_THREAD)
                journal_read_thread(r, record, head.size);
        }
    if (r->n_threads)
        qsort(r->threads, r->n_threads, sizeof *r->threads, compare_threads);
    // The main program becomes the first mapping. A jitdump file is found through its mapping,
    // which has no samples, so keep that too.
    journal_mapping_of(r, 0);
    for (size_t i = 0; i < r->n_modules; i++)
        if (is_jitdump(r->modules[i].path))
            journal_mapping_of(r, (uint32_t)i);
    for (size_t at = first_block(); next_block(r, &at, &block);) {
        while (block.kind == JOURNAL_RECORDS && next_record(&block, &head, &record))
            if (head.kind == JOURNAL_STACK)
                journal_read_stack(r, record, head.size);
        if (block.kind == JOURNAL_RING && rings)
            journal_add_ring(r, &block);
    }
    journal_add_dropped(r);
}

static void journal_build_types(struct model_builder *b, int64_t period)
{
    model_build_type(b, STR("samples"), STR("count"));
    model_build_type(b, STR("cpu"), STR("nanoseconds"));
    b->p->period_type = b->p->types[1];
    b->p->period = period;
}

struct model_profile *codec_journal_rest(struct arena *arena, const struct model_profile *like,
                                         int64_t nanos)
{
    struct model_builder b;
    model_build(&b, arena);
    journal_build_types(&b, like->period);
    uint32_t frame = model_build_named_location(&b, STR("[program start and exit]"));
    int64_t values[2] = {(nanos + like->period / 2) / like->period, nanos};
    model_build_weighed_sample(&b, &frame, 1, values, (double)values[0]);
    b.p->time_nanos = like->time_nanos;
    b.p->duration_nanos = like->duration_nanos;
    return b.p;
}

struct model_profile *codec_read_journal(struct arena *arena, const uint8_t *data, size_t n,
                                         bool rings, uint64_t *n_rings, struct err *e)
{
    struct reader r = {.arena = arena, .data = data, .n = n};
    struct arena_trap trap;
    if (n < first_block()) {
        err_set(e, "journal cut short: %zu bytes; its header has %zu", n, first_block());
        return NULL;
    }
    memcpy(&r.part, data, sizeof r.part);
    if (r.part.magic != JOURNAL_MAGIC || r.part.version != JOURNAL_VERSION) {
        err_set(e, "invalid journal; the process may use another version of libkiln");
        return NULL;
    }
    if (r.part.hz < 1 || r.part.hz > 10000) {
        err_set(e, "invalid frequency %u Hz in the journal of process %u; expected 1 to 10000",
                r.part.hz, r.part.pid);
        return NULL;
    }
    if (ARENA_TRY(arena, trap)) {
        arena_caught(arena, e);
        return NULL;
    }
    model_build(&r.b, arena);
    journal_build_types(&r.b, 1000000000u / r.part.hz);
    r.b.p->time_nanos = r.part.time_nanos;
    r.b.p->duration_nanos = (int64_t)atomic_load(&r.part.duration_nanos);
    journal_read_blocks(&r, rings);
    if (n_rings)
        *n_rings = r.n_rings;
    arena_try_end(arena);
    return r.b.p;
}
