// Reads a pprof message in two passes, on the caller's thread.
#include "codec/pprof_tables.h"

#include <sys/mman.h>

#include "model/events.h"

enum { RELEASE_STEP = 8 << 20, RECENT_SETS = 4096 };

struct sample_reader {
    struct pprof_reader *r;
    struct pprof_decoder d;
    uint32_t *recent; // label set by hash; a cache
};

// Creates the column at the first sample with an event that weighs more than one period.
static void set_squares(struct sample_reader *r, size_t sample)
{
    struct model_profile *p = r->r->p;
    if (!p->is_weighed || (!p->squares && !r->d.squares))
        return;
    if (!p->squares) {
        double *squares = arena_array(r->r->arena, r->r->n_samples, sizeof *squares);
        for (size_t i = 0; i < sample; i++)
            squares[i] = model_periods(p, i);
        p->squares = squares;
    }
    p->squares[sample] = r->d.squares ? (double)r->d.squares : model_periods(p, sample);
}

// Compares only with recently used sets. A full table would cost a cache miss per sample if labels
// have many values (request ids), and gains little otherwise.
static uint32_t recent_label_set(struct sample_reader *r)
{
    const struct model_profile *p = r->r->p;
    struct model_label *labels = r->d.labels;
    size_t n = r->d.n_labels;
    model_sort_labels(p->strings, labels, n, r->r->arena);
    uint64_t hash = model_hash_labels(labels, n);
    uint32_t *slot = &r->recent[hash >> 32 & (RECENT_SETS - 1)];
    const struct model_label_set *set = &p->label_sets[*slot];
    if (set->n == n && model_same_labels(p->labels + set->first, labels, n))
        return *slot;
    return *slot = model_build_new_label_set(&r->r->b, labels, n);
}

static void set_labels(struct sample_reader *r, size_t sample)
{
    struct model_profile *p = r->r->p;
    if (!r->d.n_labels)
        return;
    if (!p->label_set) {
        p->label_set = arena_array(r->r->arena, r->r->n_samples, sizeof *p->label_set);
        r->recent = arena_array(r->r->arena, RECENT_SETS, sizeof *r->recent);
    }
    p->label_set[sample] = recent_label_set(r);
}

enum pprof_result pprof_read_samples(struct pprof_reader *r, bool disposable)
{
    struct sample_reader reader = {.r = r, .d = {.tables = &r->tables, .arena = r->arena}};
    struct pprof_decoder *d = &reader.d;
    struct model_profile *p = r->p;
    disposable &= p->n_types > 0;
    p->values =
        arena_raw(r->arena, r->n_samples * (p->n_types ? p->n_types : 1), sizeof *p->values);
    p->stacks = arena_raw(r->arena, r->n_samples, sizeof *p->stacks);
    p->stack_len = arena_raw(r->arena, r->n_samples, sizeof *p->stack_len);
    // Each frame takes at least one byte. Untouched pages take no memory.
    d->frames = arena_raw(r->arena, r->sample_bytes, sizeof *d->frames);

    struct proto_span s = {r->data, r->data + r->size};
    const uint8_t *released = s.p;
    while (s.p < s.end) {
        struct proto_field f;
        if (!proto_next(&s, &f))
            return pprof_bad(r, "cut short");
        if (f.number != 2)
            continue;
        size_t sample = p->n_samples;
        uint32_t *stack = d->frames;
        arena_spend(r->arena, 1 + (size_t)(f.span.end - f.span.p) / 8);
        if (!pprof_decode_sample(d, f.span, p->values + sample * p->n_types))
            return pprof_bad_sample(r, sample, (size_t)(f.span.p - r->data));
        if (d->n_values != p->n_types)
            return pprof_bad_values(r, sample, d->n_values);
        if (d->frames - stack >= MODEL_NONE)
            return pprof_bad(r, "a stack of more than 2^32 frames");
        p->stacks[sample] = stack;
        p->stack_len[sample] = (uint32_t)(d->frames - stack);
        p->n_samples++;
        set_labels(&reader, sample);
        set_squares(&reader, sample);
        if (disposable && s.p - released >= RELEASE_STEP) {
            size_t n = (size_t)(s.p - released) & ~(size_t)(RELEASE_STEP - 1);
            madvise((void *)released, n, MADV_DONTNEED);
            released += n;
        }
    }
    if (d->dangling)
        return pprof_bad_location(r);
    return model_check(p, r->e) ? PPROF_BAD : PPROF_OK;
}

enum pprof_result pprof_read(struct arena *arena, uint8_t *data, size_t n, bool disposable,
                             struct model_profile **profile, struct err *e)
{
    struct pprof_reader r = {.arena = arena, .e = e, .data = data, .size = n};
    struct arena_trap trap;
    if (ARENA_TRY(arena, trap)) {
        arena_caught(arena, e);
        return PPROF_BAD;
    }
    enum pprof_result result = pprof_read_all_tables(&r);
    if (result == PPROF_OK)
        result = pprof_read_samples(&r, disposable);
    arena_try_end(arena);
    if (result == PPROF_OK)
        *profile = r.p;
    return result;
}

struct model_profile *codec_read_pprof(struct arena *arena, const uint8_t *data, size_t n,
                                       struct err *e)
{
    struct model_profile *p = NULL;
    // An empty input may have a NULL pointer. The cast is safe: without disposable the reader
    // neither writes to the data nor releases it.
    pprof_read(arena, (uint8_t *)(n ? data : (const uint8_t *)""), n, false, &p, e);
    return p;
}
