// Reads a large pprof message on several threads, or keeps its samples encoded. The first pass over
// the message finds its tables and divides the rest into windows. Threads then check all samples,
// so that later passes cannot fail on the same data. The error reported is the first of the file.
#include "codec/pprof_stream.h"

#include <sys/mman.h>

#include "codec/pprof_tables.h"
#include "model/events.h"
#include "model/stream.h"
#include "model/units.h"

// A message with few windows is read faster by one thread.
enum { WINDOW = 128 << 10, SMALLEST_WINDOW = 64, WINDOWS_PER_THREAD = 4, WORTH_WINDOWS = 16 };
enum { MOST_TYPES = 64, RECENT_SETS = 1024, PAGE = 4096 };

enum sample_fault { NO_FAULT, BAD_SAMPLE, BAD_VALUES };

// What the check found in a window.
struct checked_window {
    size_t n_frames;
    enum sample_fault fault; // of the first bad sample
    size_t bad_sample, bad_byte;
    uint32_t n_values; // of the bad sample
    bool dangling, has_labels, has_squares, has_zeros, has_negatives;
    struct model_label *number_labels; // distinct keys and units
    size_t n_number_labels, cap_number_labels;
};

struct encoded_samples {
    struct model_stream stream;
    uint8_t *data;
    size_t size;
    struct pprof_tables tables;
    const struct pprof_range *ranges;
    size_t n_samples, most_bytes, most_samples; // most: of a window
    struct checked_window *checked;
    bool has_squares;
    bool is_mapped_file; // pages can be dropped after use
    bool is_disposable;  // and those of other data after decoding
};

static size_t stream_window_end(const struct encoded_samples *s, size_t index)
{
    return index + 1 < s->stream.n_windows ? s->ranges[index + 1].at : s->size;
}

static size_t samples_in_window(const struct encoded_samples *s, size_t index)
{
    bool is_last = index + 1 == s->stream.n_windows;
    return (is_last ? s->n_samples : s->ranges[index + 1].first_sample) -
           s->ranges[index].first_sample;
}

static void drop_window_pages(const struct encoded_samples *s, size_t index)
{
    size_t from = (s->ranges[index].at + PAGE - 1) & ~(size_t)(PAGE - 1);
    size_t to = stream_window_end(s, index) & ~(size_t)(PAGE - 1);
    if (to > from)
        madvise(s->data + from, to - from, MADV_DONTNEED);
}

// --- decoding a window ---

struct window_decoder {
    struct pprof_decoder d;
    const struct encoded_samples *samples;
    size_t cap_sets, cap_labels;
    uint32_t recent[RECENT_SETS]; // label set by hash; a cache
};

// Allocates room for the largest window. Untouched pages take no memory. The memory may have been
// used for windows of another profile.
static void begin_windows(const struct encoded_samples *s, struct model_window *window)
{
    struct arena *arena = window->arena;
    struct model_profile *w = &window->p, old = *w;
    struct window_decoder *decoder = window->decoder;
    if (!decoder)
        decoder = arena_alloc(arena, sizeof *decoder);
    decoder->samples = s;
    decoder->d.tables = &s->tables;
    decoder->d.arena = arena;
    window->decoder = decoder;
    *w = *s->tables.p;
    w->values = old.values;
    w->stacks = old.stacks;
    w->stack_len = old.stack_len;
    w->label_set = old.label_set;
    w->squares = old.squares;
    w->label_sets = old.label_sets;
    w->labels = old.labels;
    size_t n_values = s->most_samples * w->n_types + 1;
    if (n_values > window->cap_values) {
        w->values = arena_raw(arena, n_values, sizeof *w->values);
        window->cap_values = n_values;
    }
    if (s->most_samples > window->cap_samples) {
        w->stacks = arena_raw(arena, s->most_samples, sizeof *w->stacks);
        w->stack_len = arena_raw(arena, s->most_samples, sizeof *w->stack_len);
        w->label_set = arena_raw(arena, s->most_samples, sizeof *w->label_set);
        w->squares = arena_raw(arena, s->most_samples, sizeof *w->squares);
        window->cap_samples = s->most_samples;
    }
    // Each frame takes at least one byte.
    if (s->most_bytes > window->cap_frames) {
        window->frames = arena_raw(arena, s->most_bytes, sizeof *window->frames);
        window->cap_frames = s->most_bytes;
    }
}

static uint32_t window_label_set(struct window_decoder *decoder, struct model_profile *w)
{
    struct pprof_decoder *d = &decoder->d;
    size_t n = d->n_labels;
    if (n == 0)
        return 0;
    model_sort_labels(w->strings, d->labels, n, d->arena);
    uint32_t *recent = &decoder->recent[model_hash_labels(d->labels, n) >> 32 & (RECENT_SETS - 1)];
    if (*recent < w->n_label_sets && w->label_sets[*recent].n == n &&
        model_same_labels(w->labels + w->label_sets[*recent].first, d->labels, n))
        return *recent;
    if (w->n_labels + n >= MODEL_NONE)
        arena_fail(d->arena, "more than 2^32 labels");
    w->label_sets = arena_push(d->arena, w->label_sets, w->n_label_sets, &decoder->cap_sets,
                               sizeof *w->label_sets);
    w->label_sets[w->n_label_sets] = (struct model_label_set){w->n_labels, (uint32_t)n};
    for (size_t i = 0; i < n; i++) {
        w->labels =
            arena_push(d->arena, w->labels, w->n_labels, &decoder->cap_labels, sizeof *w->labels);
        w->labels[w->n_labels++] = d->labels[i];
    }
    return *recent = w->n_label_sets++;
}

static void begin_stream_window(const struct encoded_samples *s, size_t index,
                                struct model_window *window)
{
    struct window_decoder *decoder = window->decoder;
    if (!decoder || decoder->samples != s)
        begin_windows(s, window);
    decoder = window->decoder;
    struct model_profile *w = &window->p;
    decoder->d.frames = window->frames;
    decoder->d.dangling = false;
    window->first = s->ranges[index].first_sample;
    w->n_samples = 0;
    w->n_labels = 0;
    w->label_sets =
        arena_push(window->arena, w->label_sets, 0, &decoder->cap_sets, sizeof *w->label_sets);
    w->label_sets[0] = (struct model_label_set){0};
    w->n_label_sets = 1;
}

static _Noreturn void fail_changed(struct arena *arena)
{
    arena_refuse(arena, "the profile changed while it was read; read it again");
}

static void read_encoded_window(const struct model_stream *stream, size_t index, unsigned what,
                                struct model_window *window)
{
    const struct encoded_samples *s = (const struct encoded_samples *)stream;
    begin_stream_window(s, index, window);
    struct window_decoder *decoder = window->decoder;
    struct pprof_decoder *d = &decoder->d;
    struct model_profile *w = &window->p;
    size_t most = samples_in_window(s, index);
    d->skips_labels = !(what & MODEL_WITH_LABELS);
    struct proto_span span = {s->data + s->ranges[index].at, s->data + stream_window_end(s, index)};
    while (span.p < span.end) {
        struct proto_field f;
        if (!proto_next(&span, &f))
            fail_changed(window->arena);
        if (f.number != 2)
            continue;
        size_t i = w->n_samples;
        arena_spend(window->arena, 1 + (size_t)(f.span.end - f.span.p) / 8);
        uint32_t *stack = d->frames;
        if (i == most || f.wire != WIRE_BYTES ||
            !pprof_decode_sample(d, f.span, w->values + i * w->n_types) ||
            d->n_values != w->n_types)
            fail_changed(window->arena);
        w->stacks[i] = stack;
        w->stack_len[i] = (uint32_t)(d->frames - stack);
        w->label_set[i] = what & MODEL_WITH_LABELS ? window_label_set(decoder, w) : 0;
        if (what & MODEL_WITH_SQUARES)
            w->squares[i] = d->squares ? (double)d->squares : model_periods(w, i);
        w->n_samples++;
    }
    if (d->dangling || w->n_samples != most)
        fail_changed(window->arena);
    if (s->is_mapped_file)
        drop_window_pages(s, index);
}

// --- checking ---

struct sample_check {
    struct encoded_samples *s;
    struct {
        struct model_window window;
        int64_t *absolute, first_value;
    } workers[PARALLEL_MOST];
};

// Keeps the keys and units of numeric labels, each pair once.
static void note_number_labels(struct checked_window *checked, const struct pprof_decoder *d)
{
    for (size_t i = 0; i < d->n_labels; i++) {
        const struct model_label *l = &d->labels[i];
        size_t k = 0;
        if (!l->is_number)
            continue;
        while (k < checked->n_number_labels && (checked->number_labels[k].key != l->key ||
                                                checked->number_labels[k].unit != l->unit))
            k++;
        if (k < checked->n_number_labels)
            continue;
        arena_spend(d->arena, 1 + k / 8);
        checked->number_labels =
            arena_push(d->arena, checked->number_labels, k, &checked->cap_number_labels,
                       sizeof *checked->number_labels);
        checked->number_labels[checked->n_number_labels++] =
            (struct model_label){.key = l->key, .unit = l->unit, .is_number = true};
    }
}

static bool check_window(void *context, struct parallel_worker *worker, size_t index)
{
    struct sample_check *check = context;
    const struct encoded_samples *s = check->s;
    struct checked_window *checked = &check->s->checked[index];
    struct model_window *window = &check->workers[worker->index].window;
    window->arena = worker->arena;
    begin_stream_window(s, index, window);
    struct pprof_decoder *d = &((struct window_decoder *)window->decoder)->d;
    uint32_t n_types = s->tables.p->n_types;
    int64_t **absolute = &check->workers[worker->index].absolute;
    if (!*absolute)
        *absolute = arena_array(worker->arena, n_types + 1, sizeof **absolute);
    struct proto_span span = {s->data + s->ranges[index].at, s->data + stream_window_end(s, index)};
    for (size_t sample = 0; span.p < span.end;) {
        struct proto_field f;
        if (!proto_next(&span, &f))
            fail_changed(worker->arena);
        if (f.number != 2)
            continue;
        arena_spend(worker->arena, 1 + (size_t)(f.span.end - f.span.p) / 8);
        d->frames = window->frames;
        int64_t *values = window->p.values;
        bool good = pprof_decode_sample(d, f.span, values);
        if (!good || d->n_values != n_types) {
            checked->fault = good ? BAD_VALUES : BAD_SAMPLE;
            checked->bad_sample = window->first + sample;
            checked->bad_byte = (size_t)(f.span.p - s->data);
            checked->n_values = d->n_values;
            return false;
        }
        checked->n_frames += (size_t)(d->frames - window->frames);
        checked->has_labels |= d->n_labels > 0;
        checked->has_squares |= d->squares > 0;
        note_number_labels(checked, d);
        int64_t all = 0;
        for (uint32_t t = 0; t < n_types; t++) {
            (*absolute)[t] = units_add((*absolute)[t], units_abs(values[t]));
            checked->has_negatives |= values[t] < 0;
            all |= values[t];
        }
        checked->has_zeros |= all == 0;
        if (n_types)
            check->workers[worker->index].first_value =
                units_add(check->workers[worker->index].first_value, values[0]);
        sample++;
    }
    checked->dangling = d->dangling;
    if (s->is_mapped_file)
        drop_window_pages(s, index);
    return true;
}

static void join_number_labels(struct encoded_samples *s, struct arena *arena)
{
    struct checked_window all = {0};
    struct pprof_decoder d = {.arena = arena};
    for (size_t i = 0; i < s->stream.n_windows; i++) {
        d.labels = s->checked[i].number_labels;
        d.n_labels = s->checked[i].n_number_labels;
        note_number_labels(&all, &d);
    }
    s->stream.number_labels = all.number_labels;
    s->stream.n_number_labels = all.n_number_labels;
}

static enum pprof_result check_samples(struct pprof_reader *r, struct encoded_samples *s,
                                       unsigned threads)
{
    struct sample_check *check = arena_alloc(r->arena, sizeof *check);
    check->s = s;
    s->checked = arena_array(r->arena, s->stream.n_windows + 1, sizeof *s->checked);
    parallel_run(r->arena, threads, s->stream.n_windows, check_window, check);
    bool dangling = false;
    for (size_t i = 0; i < s->stream.n_windows; i++) {
        const struct checked_window *checked = &s->checked[i];
        if (checked->fault == BAD_SAMPLE)
            return pprof_bad_sample(r, checked->bad_sample, checked->bad_byte);
        if (checked->fault == BAD_VALUES)
            return pprof_bad_values(r, checked->bad_sample, checked->n_values);
        dangling |= checked->dangling;
        s->stream.has_labels |= checked->has_labels;
        s->stream.has_zeros |= checked->has_zeros;
        s->stream.has_negatives |= checked->has_negatives;
        s->has_squares |= checked->has_squares;
    }
    if (dangling)
        return pprof_bad_location(r);
    join_number_labels(s, r->arena);
    s->stream.absolute = arena_array(r->arena, r->p->n_types + 1, sizeof *s->stream.absolute);
    for (unsigned i = 0; i < PARALLEL_MOST; i++) {
        s->stream.first_value = units_add(s->stream.first_value, check->workers[i].first_value);
        for (uint32_t t = 0; check->workers[i].absolute && t < r->p->n_types; t++)
            s->stream.absolute[t] = units_add(s->stream.absolute[t], check->workers[i].absolute[t]);
    }
    return PPROF_OK;
}

// --- columns ---

// The labels of a window, until their place in the profile is known.
struct window_labels {
    struct model_label_set *sets;
    struct model_label *labels;
    uint32_t n_sets, n_labels, first_set, first_label;
};

struct column_copy {
    const struct encoded_samples *s;
    struct model_profile *p;
    uint32_t **frames; // where the frames of each window begin
    struct window_labels *labels;
    unsigned what;
    struct model_window windows[PARALLEL_MOST];
};

static bool copy_window(void *context, struct parallel_worker *worker, size_t index)
{
    struct column_copy *copy = context;
    struct model_window *window = &copy->windows[worker->index];
    window->arena = worker->arena;
    read_encoded_window(&copy->s->stream, index, copy->what, window);
    struct model_profile *p = copy->p;
    const struct model_profile *w = &window->p;
    size_t n_frames =
        (size_t)(((struct window_decoder *)window->decoder)->d.frames - window->frames);
    if (n_frames != copy->s->checked[index].n_frames)
        fail_changed(worker->arena);
    memcpy(copy->frames[index], window->frames, n_frames * sizeof *window->frames);
    memcpy(p->values + window->first * p->n_types, w->values,
           w->n_samples * p->n_types * sizeof *w->values);
    memcpy(p->stack_len + window->first, w->stack_len, w->n_samples * sizeof *w->stack_len);
    for (size_t i = 0; i < w->n_samples; i++)
        p->stacks[window->first + i] = copy->frames[index] + (w->stacks[i] - window->frames);
    if (p->squares)
        memcpy(p->squares + window->first, w->squares, w->n_samples * sizeof *w->squares);
    if (copy->s->is_disposable)
        drop_window_pages(copy->s, index);
    if (!p->label_set)
        return true;
    memcpy(p->label_set + window->first, w->label_set, w->n_samples * sizeof *w->label_set);
    struct window_labels *labels = &copy->labels[index];
    labels->n_sets = w->n_label_sets - 1;
    labels->n_labels = w->n_labels;
    labels->sets = arena_raw(worker->arena, labels->n_sets + 1, sizeof *labels->sets);
    labels->labels = arena_raw(worker->arena, labels->n_labels + 1, sizeof *labels->labels);
    memcpy(labels->sets, w->label_sets + 1, labels->n_sets * sizeof *labels->sets);
    if (labels->n_labels)
        memcpy(labels->labels, w->labels, labels->n_labels * sizeof *labels->labels);
    return true;
}

// Moves the label sets of a window to their place in the profile.
static bool place_labels(void *context, struct parallel_worker *worker, size_t index)
{
    (void)worker;
    const struct column_copy *copy = context;
    const struct window_labels *from = &copy->labels[index];
    struct model_profile *p = copy->p;
    for (uint32_t i = 0; i < from->n_sets; i++)
        p->label_sets[from->first_set + i] =
            (struct model_label_set){from->first_label + from->sets[i].first, from->sets[i].n};
    if (from->n_labels)
        memcpy(p->labels + from->first_label, from->labels, from->n_labels * sizeof *from->labels);
    uint32_t *set = p->label_set + copy->s->ranges[index].first_sample;
    for (size_t i = 0, n = samples_in_window(copy->s, index); i < n; i++)
        set[i] = set[i] ? set[i] - 1 + from->first_set : 0;
    return true;
}

static void copy_stream_labels(struct column_copy *copy, struct arena *arena)
{
    uint64_t n_sets = 1, n_labels = 0;
    size_t n_windows = copy->s->stream.n_windows;
    for (size_t i = 0; i < n_windows; i++) {
        copy->labels[i].first_set = (uint32_t)n_sets;
        copy->labels[i].first_label = (uint32_t)n_labels;
        n_sets += copy->labels[i].n_sets;
        n_labels += copy->labels[i].n_labels;
        if (n_labels >= MODEL_NONE)
            arena_fail(arena, "more than 2^32 labels");
    }
    struct model_profile *p = copy->p;
    p->n_label_sets = (uint32_t)n_sets;
    p->n_labels = (uint32_t)n_labels;
    p->label_sets = arena_raw(arena, n_sets, sizeof *p->label_sets);
    p->label_sets[0] = (struct model_label_set){0};
    p->labels = arena_raw(arena, n_labels, sizeof *p->labels);
    parallel_run(arena, parallel_threads(), n_windows, place_labels, copy);
}

static void decode_columns(const struct encoded_samples *s, struct model_profile *p,
                           unsigned threads)
{
    struct arena *arena = p->arena;
    size_t n = s->n_samples, n_frames = 0;
    struct column_copy *copy = arena_alloc(arena, sizeof *copy);
    copy->s = s;
    copy->p = p;
    copy->what = (s->stream.has_labels ? MODEL_WITH_LABELS : 0) |
                 (s->has_squares && p->is_weighed ? MODEL_WITH_SQUARES : 0);
    for (size_t i = 0; i < s->stream.n_windows; i++)
        n_frames += s->checked[i].n_frames;
    uint32_t *frames = arena_raw(arena, n_frames, sizeof *frames);
    copy->frames = arena_array(arena, s->stream.n_windows + 1, sizeof *copy->frames);
    copy->labels = arena_array(arena, s->stream.n_windows + 1, sizeof *copy->labels);
    for (size_t i = 0; i < s->stream.n_windows; i++) {
        copy->frames[i] = frames;
        frames += s->checked[i].n_frames;
    }
    p->values = arena_raw(arena, n * (p->n_types ? p->n_types : 1), sizeof *p->values);
    p->stacks = arena_raw(arena, n, sizeof *p->stacks);
    p->stack_len = arena_raw(arena, n, sizeof *p->stack_len);
    if (copy->what & MODEL_WITH_LABELS)
        p->label_set = arena_raw(arena, n, sizeof *p->label_set);
    if (copy->what & MODEL_WITH_SQUARES)
        p->squares = arena_raw(arena, n, sizeof *p->squares);
    parallel_run(arena, threads, s->stream.n_windows, copy_window, copy);
    if (p->label_set)
        copy_stream_labels(copy, arena);
}

static void decode_stream(const struct model_stream *stream, struct model_profile *p)
{
    decode_columns((const struct encoded_samples *)stream, p, parallel_threads());
}

// --- reading ---

// Windows of a size that depends on the input alone, or small ones if threads were asked for.
static size_t window_bytes(size_t n, unsigned threads)
{
    size_t bytes = n / threads / WINDOWS_PER_THREAD;
    return bytes > WINDOW || !parallel_is_explicit() ? WINDOW
           : bytes < SMALLEST_WINDOW                 ? SMALLEST_WINDOW
                                                     : bytes;
}

static enum pprof_result read_in_windows(struct pprof_reader *r,
                                         const struct pprof_stream_options *options)
{
    struct encoded_samples *s = arena_alloc(r->arena, sizeof *s);
    *s = (struct encoded_samples){
        .stream = {.n_windows = r->n_ranges, .read = read_encoded_window, .decode = decode_stream},
        .data = r->data,
        .size = r->size,
        .tables = r->tables,
        .ranges = r->ranges,
        .n_samples = r->n_samples,
        .is_mapped_file = options->is_mapped_file,
        .is_disposable = options->is_disposable && !options->keeps_encoded,
    };
    for (size_t i = 0; i < r->n_ranges; i++) {
        size_t bytes = stream_window_end(s, i) - s->ranges[i].at, samples = samples_in_window(s, i);
        s->most_bytes = bytes > s->most_bytes ? bytes : s->most_bytes;
        s->most_samples = samples > s->most_samples ? samples : s->most_samples;
    }
    enum pprof_result result = check_samples(r, s, options->threads);
    r->p->n_samples = r->n_samples;
    if (result == PPROF_OK && model_check(r->p, r->e))
        result = PPROF_BAD;
    if (result != PPROF_OK)
        return result;
    if (options->keeps_encoded)
        r->p->stream = &s->stream;
    else
        decode_columns(s, r->p, options->threads);
    return PPROF_OK;
}

enum pprof_result pprof_read_stream(struct arena *arena, uint8_t *data, size_t n,
                                    const struct pprof_stream_options *options,
                                    struct model_profile **profile, struct err *e)
{
    struct pprof_reader *r;
    struct arena_trap trap;
    if (ARENA_TRY(arena, trap)) {
        arena_caught(arena, e);
        return PPROF_BAD;
    }
    r = arena_alloc(arena, sizeof *r);
    *r = (struct pprof_reader){
        .arena = arena,
        .e = e,
        .data = data,
        .size = n,
        .range_bytes = window_bytes(n, options->threads),
        .drops_pages = options->is_mapped_file,
    };
    enum pprof_result result = pprof_read_all_tables(r);
    // Windows have room for all values of a sample, and hostile input may have very many types.
    bool has_windows = (r->n_ranges >= WORTH_WINDOWS || parallel_is_explicit()) &&
                       r->p->n_types > 0 && r->p->n_types <= MOST_TYPES;
    if (result == PPROF_OK)
        result = has_windows ? read_in_windows(r, options)
                             : pprof_read_samples(r, options->is_disposable);
    arena_try_end(arena);
    if (result == PPROF_OK)
        *profile = r->p;
    return result;
}
