// Joins profiles whose samples are encoded. Their tables are merged. Windows are decoded by the
// stream of their profile and then refer to the merged tables.
#include "base/sort.h"
#include "model/stream.h"
#include "model/transform.h"
#include "model/units.h"

struct joined_part {
    const struct model_profile *p;
    struct model_merged_tables tables;
    size_t first_window, first_sample;
};

struct joined_stream {
    struct model_stream stream;
    struct joined_part *parts;
    size_t n;
};

// --- reading ---

static const struct joined_part *part_of_window(const struct joined_stream *s, size_t index)
{
    size_t low = 0, high = s->n;
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        *(s->parts[middle].first_window <= index ? &low : &high) = middle;
    }
    return &s->parts[low];
}

static void read_joined_window(const struct model_stream *stream, size_t index, unsigned what,
                               struct model_window *window)
{
    const struct joined_stream *s = (const struct joined_stream *)stream;
    const struct joined_part *part = part_of_window(s, index);
    const struct model_stream *encoded = part->p->stream;
    encoded->read(encoded, index - part->first_window, what, window);
    window->first += part->first_sample;
    struct model_profile *w = &window->p;
    for (size_t i = 0; i < w->n_samples; i++)
        for (uint32_t k = 0; k < w->stack_len[i]; k++) {
            uint32_t location = part->tables.location_of[w->stacks[i][k]];
            if (!location)
                arena_refuse(window->arena, "the profile changed while it was read; read it again");
            w->stacks[i][k] = location - 1;
        }
    for (uint32_t i = 0; i < w->n_labels; i++) {
        w->labels[i].key = part->tables.string_of[w->labels[i].key] - 1;
        w->labels[i].str = part->tables.string_of[w->labels[i].str] - 1;
        w->labels[i].unit = part->tables.string_of[w->labels[i].unit] - 1;
    }
}

// Merges the samples. Locations get the numbers that they have already.
static void decode_joined(const struct model_stream *stream, struct model_profile *p)
{
    const struct joined_stream *s = (const struct joined_stream *)stream;
    struct model_merger *merger = model_merger_new(s->parts[0].p, s->n, p->arena);
    for (size_t i = 0; i < s->n; i++)
        model_merger_take(merger, model_decode_samples(s->parts[i].p, p->arena));
    const struct model_profile *merged = model_merger_finish(merger);
    p->n_samples = merged->n_samples;
    p->values = merged->values;
    p->stacks = merged->stacks;
    p->stack_len = merged->stack_len;
    p->label_set = merged->label_set;
    p->label_sets = merged->label_sets;
    p->n_label_sets = merged->n_label_sets;
    p->labels = merged->labels;
    p->n_labels = merged->n_labels;
    p->squares = merged->squares;
    for (uint32_t i = 0; i < p->n_labels; i++) {
        struct model_label *l = &p->labels[i];
        l->key = model_intern(p->strings, model_str(merged, l->key));
        l->str = model_intern(p->strings, model_str(merged, l->str));
        l->unit = model_intern(p->strings, model_str(merged, l->unit));
    }
}

// --- joining ---

struct first_uses {
    uint32_t n_locations;
    uint64_t *by_worker[PARALLEL_MOST]; // by location: sample << 32 | frame, + 1; 0: unused
};

static void note_first_uses(void *context, struct parallel_worker *worker,
                            const struct model_profile *window, size_t first)
{
    struct first_uses *uses = context;
    uint64_t **mine = &uses->by_worker[worker->index];
    if (!*mine)
        *mine = arena_array(worker->arena, (size_t)uses->n_locations + 1, sizeof **mine);
    // A worker visits windows in order.
    for (size_t i = 0; i < window->n_samples; i++)
        for (uint32_t k = 0; k < window->stack_len[i]; k++) {
            uint64_t *use = &(*mine)[window->stacks[i][k]];
            if (!*use)
                *use = ((uint64_t)(first + i) << 32 | k) + 1;
        }
}

struct first_use {
    uint64_t at;
    uint32_t location;
};

static int compare_first_uses(const void *a, const void *b)
{
    const struct first_use *x = a, *y = b;
    return (x->at > y->at) - (x->at < y->at);
}

// Lists the locations in the order of their first use.
static size_t list_used_locations(const struct model_profile *p, struct arena *arena,
                                  uint32_t *locations)
{
    struct first_uses *uses = arena_alloc(arena, sizeof *uses);
    struct first_use *list = arena_array(arena, (size_t)p->n_locations + 1, sizeof *list);
    size_t n = 0;
    uses->n_locations = p->n_locations;
    model_each_window(p, arena, 0, note_first_uses, uses);
    for (uint32_t i = 0; i < p->n_locations; i++) {
        uint64_t at = 0;
        for (unsigned w = 0; w < PARALLEL_MOST; w++) {
            uint64_t other = uses->by_worker[w] ? uses->by_worker[w][i] : 0;
            if (other && (!at || other < at))
                at = other;
        }
        if (at)
            list[n++] = (struct first_use){at, i};
    }
    sort_items(arena, list, n, sizeof *list, compare_first_uses);
    for (size_t i = 0; i < n; i++)
        locations[i] = list[i].location;
    return n;
}

// Whether the merged samples would have the same sums.
static bool may_join(const struct model_profile *p, const struct model_profile *first)
{
    struct err e;
    return p->stream && !p->stream->has_zeros && !p->stream->has_negatives &&
           p->n_samples < MODEL_NONE && p->period == first->period &&
           model_check_equal_types(first, p, &e) == 0;
}

static void join_stream(struct joined_stream *s, const struct joined_part *part, uint32_t n_types,
                        size_t *cap, struct arena *arena)
{
    const struct model_stream *from = part->p->stream;
    struct model_stream *to = &s->stream;
    to->n_windows += from->n_windows;
    to->has_labels |= from->has_labels;
    to->first_value = units_add(to->first_value, from->first_value);
    for (uint32_t t = 0; t < n_types; t++)
        to->absolute[t] = units_add(to->absolute[t], from->absolute[t]);
    for (size_t i = 0; i < from->n_number_labels; i++) {
        struct model_label label = from->number_labels[i];
        label.key = part->tables.string_of[label.key] - 1;
        label.unit = part->tables.string_of[label.unit] - 1;
        to->number_labels = arena_push(arena, to->number_labels, to->n_number_labels, cap,
                                       sizeof *to->number_labels);
        to->number_labels[to->n_number_labels++] = label;
    }
}

struct model_profile *model_join_encoded(struct model_profile *const *profiles, size_t n,
                                         struct arena *arena)
{
    bool is_weighed = true;
    for (size_t i = 0; i < n; i++) {
        if (!may_join(profiles[i], profiles[0]))
            return NULL;
        is_weighed &= profiles[i]->is_weighed && profiles[i]->period > 0;
    }
    struct joined_stream *s = arena_alloc(arena, sizeof *s);
    s->stream.read = read_joined_window;
    s->stream.decode = decode_joined;
    s->stream.repeats = true;
    s->stream.absolute = arena_array(arena, profiles[0]->n_types + 1, sizeof *s->stream.absolute);
    s->parts = arena_array(arena, n, sizeof *s->parts);
    s->n = n;
    struct model_merger *merger = model_merger_new(profiles[0], n, arena);
    size_t n_samples = 0, cap = 0;
    for (size_t i = 0; i < n; i++) {
        const struct model_profile *p = profiles[i];
        struct joined_part *part = &s->parts[i];
        uint32_t *locations = arena_array(arena, (size_t)p->n_locations + 1, sizeof *locations);
        size_t n_used = list_used_locations(p, arena, locations);
        part->p = p;
        part->first_window = s->stream.n_windows;
        part->first_sample = n_samples;
        part->tables = model_merger_take_tables(merger, p, locations, n_used);
        join_stream(s, part, p->n_types, &cap, arena);
        n_samples += p->n_samples;
    }
    struct model_profile *to = model_merger_finish(merger);
    to->stream = &s->stream;
    to->n_samples = n_samples;
    to->is_weighed = is_weighed;
    return to;
}
