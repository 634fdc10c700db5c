#include "report/formats.h"

#include <stdlib.h>

#include "model/stream.h"
#include "model/units.h"

struct value {
    uint32_t key, name; // string ids
    int64_t sum;
};

struct tally {
    struct report *r;
    struct value *values;
    size_t n, cap;
    struct hash_table index;
};

static struct value *find_or_add(struct tally *t, uint32_t key, uint32_t name)
{
    uint64_t hash = hash_mix(key, name);
    for (struct hash_probe at = hash_find(&t->index, hash); hash_hit(&t->index, &at);
         hash_next(&t->index, &at))
        if (t->values[at.item].key == key && t->values[at.item].name == name)
            return &t->values[at.item];
    t->values = arena_push(t->r->arena, t->values, t->n, &t->cap, sizeof *t->values);
    t->values[t->n] = (struct value){.key = key, .name = name};
    hash_add(&t->index, t->r->arena, hash, (uint32_t)t->n);
    return &t->values[t->n++];
}

static void add_label(struct tally *t, const struct model_label *l, int64_t sum)
{
    const struct model_profile *p = t->r->p;
    uint32_t name = l->str;
    if (l->is_number) {
        char text[256];
        size_t n = units_label(text, sizeof text, l->number,
                               model_str(p, t->r->o.label_units[l->key]), t->r->o.output_unit);
        name = model_intern(p->strings, (struct str){text, n});
    }
    struct value *v = find_or_add(t, l->key, name);
    v->sum = units_add(v->sum, sum);
}

// The labels that one thread counts.
struct label_counts {
    struct arena *arena;
    struct label_count {
        struct model_label label; // without unit
        int64_t sum;
    } * items;
    size_t n, cap;
    struct hash_table index;
    int64_t *sums; // by label set of a window
    bool *used;
    size_t cap_sets;
};

struct label_counter {
    uint32_t type;
    struct label_counts *counts[PARALLEL_MOST]; // by worker
};

static void count_label(struct label_counts *c, const struct model_label *l, int64_t sum)
{
    uint64_t hash = hash_mix((uint64_t)l->key << 32 | l->str, (uint64_t)l->number + l->is_number);
    for (struct hash_probe at = hash_find(&c->index, hash); hash_hit(&c->index, &at);
         hash_next(&c->index, &at)) {
        struct label_count *count = &c->items[at.item];
        if (count->label.key == l->key && count->label.str == l->str &&
            count->label.number == l->number && count->label.is_number == l->is_number) {
            count->sum = units_add(count->sum, sum);
            return;
        }
    }
    c->items = arena_push(c->arena, c->items, c->n, &c->cap, sizeof *c->items);
    c->items[c->n] = (struct label_count){*l, sum};
    hash_add(&c->index, c->arena, hash, (uint32_t)c->n++);
}

// Sums the samples of each label set first: sets are often equal.
static void count_labels(void *context, struct parallel_worker *worker,
                         const struct model_profile *window, size_t first)
{
    (void)first;
    struct label_counter *counter = context;
    struct label_counts **mine = &counter->counts[worker->index];
    if (!window->label_set)
        return;
    if (!*mine) {
        *mine = arena_alloc(worker->arena, sizeof **mine);
        (*mine)->arena = worker->arena;
        hash_init(&(*mine)->index, worker->arena, 256);
    }
    struct label_counts *c = *mine;
    if (window->n_label_sets > c->cap_sets) {
        c->cap_sets = (size_t)window->n_label_sets + window->n_label_sets / 4;
        c->sums = arena_raw(worker->arena, c->cap_sets, sizeof *c->sums);
        c->used = arena_raw(worker->arena, c->cap_sets, sizeof *c->used);
    }
    memset(c->sums, 0, window->n_label_sets * sizeof *c->sums);
    memset(c->used, 0, window->n_label_sets * sizeof *c->used);
    for (size_t i = 0; i < window->n_samples; i++) {
        int64_t *sum = &c->sums[window->label_set[i]];
        *sum = units_add(*sum, model_values(window, i)[counter->type]);
        c->used[window->label_set[i]] = true;
    }
    for (uint32_t s = 0; s < window->n_label_sets; s++) {
        const struct model_label_set *set = &window->label_sets[s];
        for (uint32_t i = 0; c->used[s] && i < set->n; i++)
            count_label(c, &window->labels[set->first + i], c->sums[s]);
    }
}

static int compare_values(const void *a, const void *b, void *profile)
{
    const struct model_profile *p = profile;
    const struct value *x = a, *y = b;
    if (x->key != y->key)
        return str_cmp(model_str(p, x->key), model_str(p, y->key));
    int64_t vx = units_abs(x->sum), vy = units_abs(y->sum);
    if (vx != vy)
        return vx > vy ? -1 : 1;
    return str_cmp(model_str(p, x->name), model_str(p, y->name));
}

// Writes one key: its total, then its values right-aligned in two columns.
static void put_key(struct tally *t, struct out *out, const struct value *values, size_t n)
{
    struct report *r = t->r;
    const struct model_profile *p = r->p;
    struct str key = model_str(p, values[0].key);
    size_t key_width = str_columns(key) + 2, value_width = 0;
    struct str *cells = arena_array(r->arena, n, sizeof *cells);
    int64_t total = 0;
    for (size_t i = 0; i < n; i++) {
        char value[256], share[40] = "";
        total = units_add(total, values[i].sum);
        report_format_value(r, values[i].sum, value, sizeof value);
        if (r->total > 0)
            units_percentage(share, sizeof share, values[i].sum, r->total);
        char *cell = arena_printf(r->arena, r->total > 0 ? "%s (%s):" : "%s%s:", value, share);
        cells[i] = str_from(cell);
        if (str_columns(cells[i]) + 1 > value_width)
            value_width = str_columns(cells[i]) + 1;
    }
    char sum[256], all[256];
    report_format_value(r, total, sum, sizeof sum);
    report_format_value(r, r->total, all, sizeof all);
    out_spaces(out, key_width - str_columns(key) - 1);
    out_str(out, key);
    out_printf(out, ": Total %s of %s", sum, all);
    if (r->total > 0) {
        out_text(out, " (");
        report_put_percentage(out, total, r->total);
        out_char(out, ')');
    }
    out_char(out, '\n');
    for (size_t i = 0; i < n; i++) {
        out_spaces(out, key_width);
        out_right(out, cells[i], value_width);
        out_char(out, ' ');
        out_str(out, model_str(p, values[i].name));
        out_char(out, '\n');
    }
    out_char(out, '\n');
}

void report_tags(struct report *r, struct out *out)
{
    const struct model_profile *p = r->p;
    if (p->stream ? !p->stream->has_labels : !p->label_set)
        return;
    struct tally t = {.r = r};
    hash_init(&t.index, r->arena, 256);
    struct label_counter *counter = arena_alloc(r->arena, sizeof *counter);
    counter->type = r->o.type;
    struct parallel_worker self = {.arena = r->arena};
    if (p->stream)
        model_each_window(p, r->arena, MODEL_WITH_LABELS, count_labels, counter);
    else
        count_labels(counter, &self, p, 0);
    for (unsigned i = 0; i < PARALLEL_MOST; i++)
        for (size_t k = 0; counter->counts[i] && k < counter->counts[i]->n; k++)
            add_label(&t, &counter->counts[i]->items[k].label, counter->counts[i]->items[k].sum);
    if (t.n)
        qsort_r(t.values, t.n, sizeof *t.values, compare_values, (void *)p);
    for (size_t i = 0, end; i < t.n; i = end) {
        for (end = i; end < t.n && t.values[end].key == t.values[i].key; end++)
            ;
        put_key(&t, out, t.values + i, end - i);
    }
}
