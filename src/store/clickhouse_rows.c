// A profile as rows. Everything that rows refer to is named by a hash of its content, so that
// any server writes the same rows for the same things, without asking.
#include <stdlib.h>

#include "store/clickhouse.h"

// --- what is known ---

int known_init(struct known *k, size_t bytes)
{
    size_t n = 1024;
    while (n * 2 * sizeof *k->slots <= bytes)
        n *= 2;
    k->slots = calloc(n, sizeof *k->slots);
    k->mask = n - 1;
    return k->slots ? 0 : -1;
}

void known_clear(struct known *k)
{
    memset(k->slots, 0, (k->mask + 1) * sizeof *k->slots);
}

void known_fini(struct known *k)
{
    free(k->slots);
}

// Whether it was written for that day; from now on it is.
static bool is_known(struct known *k, uint64_t hash, uint16_t day)
{
    uint64_t key = hash_mix(hash, day) | 1, *slot = &k->slots[(key >> 8) & k->mask];
    bool known = *slot == key;
    *slot = key;
    return known;
}

// --- RowBinary ---

static void put_u8(struct out *out, uint8_t v)
{
    out_char(out, (char)v);
}

static void put_u16(struct out *out, uint16_t v)
{
    out_write(out, &v, sizeof v);
}

static void put_u32(struct out *out, uint32_t v)
{
    out_write(out, &v, sizeof v);
}

static void put_u64(struct out *out, uint64_t v)
{
    out_write(out, &v, sizeof v);
}

static void put_varint(struct out *out, uint64_t v)
{
    for (; v >= 128; v >>= 7)
        out_char(out, (char)(v | 128));
    out_char(out, (char)v);
}

static void put_str(struct out *out, struct str s)
{
    put_varint(out, s.n);
    out_str(out, s);
}

// --- a profile ---

struct writer {
    struct known *known;
    const struct store_put *put;
    const struct model_profile *p;
    struct arena *arena;
    struct put_rows *to;
    uint64_t batch, scope, series;
    uint64_t base, derived;
    uint64_t *location; // hashes; 0: not used so far
    struct out content;
};

static uint64_t hash_str(struct str s, uint64_t seed)
{
    return hash_stable(s.p, s.n, seed);
}

// All of a location's row behind its hash. *hashed: how much of it is what the location is; where
// its file was mapped is not, unless that is all there is to tell.
static void write_content(struct writer *w, const struct model_location *l, size_t *hashed)
{
    const struct model_profile *p = w->p;
    const struct model_line *lines = p->lines + l->first_line;
    const struct model_mapping *m = l->mapping != MODEL_NONE ? &p->mappings[l->mapping] : NULL;
    bool fixed = m && !m->file && !m->build_id;
    struct out *out = &w->content;
    out->n = 0;
    put_u64(out, l->address - (m ? m->start : 0));
    put_u8(out, l->is_folded);
    put_u8(out, m != NULL);
    put_u64(out, m ? m->limit - m->start : 0);
    put_u64(out, m ? m->offset : 0);
    put_str(out, m ? model_str(p, m->file) : STR(""));
    put_str(out, m ? model_str(p, m->build_id) : STR(""));
    put_u32(out, m ? (m->has_functions ? SYMBOLS_HAS_FUNCTIONS : 0) |
                         (m->has_filenames ? SYMBOLS_HAS_FILENAMES : 0) |
                         (m->has_line_numbers ? SYMBOLS_HAS_LINE_NUMBERS : 0) |
                         (m->has_inline_frames ? SYMBOLS_HAS_INLINE_FRAMES : 0) |
                         (fixed ? SYMBOLS_FIXED : 0)
                   : 0);
    for (int column = 0; column < 6; column++) {
        put_varint(out, l->n_lines);
        for (uint32_t i = 0; i < l->n_lines; i++) {
            const struct model_function *f = &p->functions[lines[i].function];
            if (column < 3)
                put_str(out, model_str(p, column == 0   ? f->name
                                          : column == 1 ? f->system_name
                                                        : f->filename));
            else
                put_u64(out, (uint64_t)(column == 3   ? f->start_line
                                        : column == 4 ? lines[i].line
                                                      : lines[i].column));
        }
    }
    *hashed = out->n;
    put_u64(out, m ? m->start : 0);
    if (fixed)
        *hashed = out->n;
}

static uint64_t write_location(struct writer *w, uint32_t index)
{
    size_t hashed;
    if (w->location[index])
        return w->location[index];
    write_content(w, &w->p->locations[index], &hashed);
    uint64_t hash = hash_stable(w->content.p, hashed, w->scope) | 1;
    w->location[index] = hash;
    if (!is_known(w->known, hash, w->to->day)) {
        struct out *out = &w->to->rows[T_LOCATIONS];
        put_u16(out, w->to->day);
        put_u64(out, w->scope);
        put_u64(out, hash);
        out_write(out, w->content.p, w->content.n);
        w->to->n[T_LOCATIONS]++;
    }
    return hash;
}

static uint64_t write_stack(struct writer *w, size_t sample)
{
    const uint32_t *stack = model_stack(w->p, sample);
    uint32_t depth = w->p->stack_len[sample];
    uint64_t hash = w->scope + depth;
    for (uint32_t i = 0; i < depth; i++)
        hash = hash_stable_mix(hash, write_location(w, stack[i]));
    hash |= 1; // 0 is no stack
    if (!is_known(w->known, ~hash, w->to->day)) {
        struct out *out = &w->to->rows[T_STACKS];
        put_u16(out, w->to->day);
        put_u64(out, w->scope);
        put_u64(out, hash);
        put_varint(out, depth);
        for (uint32_t i = 0; i < depth; i++)
            put_u64(out, w->location[stack[i]]);
        w->to->n[T_STACKS]++;
    }
    return hash;
}

// What the values of one type of one profile have in common.
static uint64_t family_of(const struct writer *w, const struct kind *kind, uint32_t column)
{
    uint64_t hash = hash_str(labels_get(w->put->labels, w->put->n_labels, STR("__name__")), 11);
    hash = hash_str(kind->types[column].type, hash);
    hash = hash_str(kind->types[column].unit, hash);
    hash = hash_str(kind->period_type, hash);
    hash = hash_str(kind->period_unit, hash);
    return hash_stable_mix(hash, w->scope);
}

static void write_series(struct writer *w, const struct kind *kind, const uint64_t *families)
{
    const struct store_put *put = w->put;
    struct pack labels = {.arena = w->arena}, body = {.arena = w->arena};
    labels_pack(&labels, put->labels, put->n_labels);
    kind_pack(&body, kind);
    if (w->derived)
        w->base = hash_stable_mix(hash_stable(body.p, body.n, families[0]), w->derived) | 1;
    w->series = hash_stable(labels.p, labels.n,
                            hash_stable(body.p, body.n, hash_stable_mix(w->scope, 5 + w->base))) |
                1;
    if (is_known(w->known, w->series ^ 0x5555, w->to->day))
        return;
    struct out *out = &w->to->rows[T_SERIES];
    put_u16(out, w->to->day);
    put_str(out, put->tenant);
    put_u64(out, w->scope);
    put_u64(out, w->series);
    put_str(out, labels_get(put->labels, put->n_labels, STR("service_name")));
    put_str(out, (struct str){(const char *)body.p, body.n});
    put_varint(out, put->n_labels);
    for (size_t i = 0; i < put->n_labels; i++)
        put_str(out, put->labels[i].name);
    put_varint(out, put->n_labels);
    for (size_t i = 0; i < put->n_labels; i++)
        put_str(out, put->labels[i].value);
    put_varint(out, kind->k);
    for (uint32_t i = 0; i < kind->k; i++)
        put_u64(out, families[i]);
    put_u64(out, w->base);
    put_u64(out, w->derived);
    w->to->n[T_SERIES]++;
}

struct row {
    uint64_t stack, span;
    struct store_trace trace;
    size_t sample;
};

static int row_order(const void *a, const void *b)
{
    const struct row *x = a, *y = b;
    if (x->stack != y->stack)
        return x->stack < y->stack ? -1 : 1;
    if (x->span != y->span)
        return x->span < y->span ? -1 : 1;
    if (x->trace.high != y->trace.high)
        return x->trace.high < y->trace.high ? -1 : 1;
    return x->trace.low < y->trace.low ? -1 : x->trace.low > y->trace.low;
}

// The columns whose values are those of the first times the period, and with them the first: time
// on a CPU beside the number of samples. Their rows are written once. Only this factor, because it
// is part of the kind: a factor that may be another one in each profile would be a series each.
static uint64_t find_derived(const struct model_profile *p)
{
    uint64_t derived = 0;
    for (uint32_t c = 1; c < p->n_types && p->period > 1; c++) {
        size_t i = 0;
        for (; i < p->n_samples; i++) {
            const int64_t *values = model_values(p, i);
            int64_t product;
            if (__builtin_mul_overflow(values[0], p->period, &product) || product != values[c])
                break;
        }
        if (i == p->n_samples)
            derived |= UINT64_C(1) << c;
    }
    return derived ? derived | 1 : 0;
}

// How many rows the values have; they are not written when others stand for them.
static uint32_t write_samples(struct writer *w, const struct row *rows, size_t n, uint32_t column,
                              uint64_t family, bool others, int64_t *total)
{
    struct out *out = &w->to->rows[T_SAMPLES];
    uint32_t written = 0;
    *total = 0;
    for (size_t i = 0, end; i < n; i = end) {
        int64_t value = 0;
        for (end = i; end < n && row_order(&rows[i], &rows[end]) == 0; end++)
            value = pack_add(value, model_values(w->p, rows[end].sample)[column]);
        *total = pack_add(*total, value);
        if (!value)
            continue;
        written++;
        if (others)
            continue;
        put_u16(out, w->to->day);
        put_u64(out, family);
        put_u32(out, (uint32_t)(w->put->time / HOUR_NANOS));
        put_u64(out, w->series);
        put_u64(out, rows[i].stack);
        put_u64(out, (uint64_t)w->put->time);
        put_u64(out, rows[i].span);
        put_u64(out, rows[i].trace.high);
        put_u64(out, rows[i].trace.low);
        put_u64(out, (uint64_t)value);
        put_u64(out, w->batch);
    }
    w->to->n[T_SAMPLES] += others ? 0 : written;
    return written;
}

// What tells a put that came before: 0 if it has no id.
static uint64_t id_of(const struct writer *w)
{
    return w->put->id.n
               ? hash_stable_mix(hash_str(w->put->id, w->series), (uint64_t)w->put->time) | 1
               : 0;
}

static void write_profile(struct writer *w, uint64_t family, int64_t total, uint32_t n, bool others)
{
    struct out *out = &w->to->rows[T_PROFILES];
    put_u16(out, w->to->day);
    put_u64(out, family);
    put_u32(out, (uint32_t)(w->put->time / HOUR_NANOS));
    put_u64(out, w->series);
    put_u64(out, (uint64_t)w->put->time);
    put_u64(out, id_of(w));
    put_u64(out, (uint64_t)total);
    put_u64(out, (uint64_t)w->put->duration);
    put_u32(out, n);
    put_u8(out, !others);
    put_u64(out, w->batch);
    w->to->n[T_PROFILES]++;
}

void clickhouse_rows(struct known *known, const struct store_put *put, uint64_t batch,
                     struct arena *arena, struct put_rows *to)
{
    const struct model_profile *p = put->profile;
    struct writer w = {known, put, p, arena, to, .batch = batch};
    *to = (struct put_rows){.day = (uint16_t)(put->time / DAY_NANOS)};
    for (int i = 0; i < N_TABLES; i++)
        out_init_arena(&to->rows[i], arena);
    out_init_arena(&w.content, arena);
    w.location = arena_array(arena, p->n_locations, sizeof *w.location);
    w.scope = hash_str(labels_get(put->labels, put->n_labels, STR("service_name")),
                       hash_str(put->tenant, 3));
    struct kind kind;
    kind_of_profile(p, &kind);
    uint64_t *families = arena_array(arena, kind.k, sizeof *families);
    for (uint32_t i = 0; i < kind.k; i++)
        families[i] = family_of(&w, &kind, i);
    w.derived = find_derived(p);
    write_series(&w, &kind, families);
    struct row *rows = arena_array(arena, p->n_samples, sizeof *rows);
    uint32_t span_key = symbols_span_key(p);
    const struct store_trace *traces = symbols_traces(p, arena);
    size_t n = 0;
    for (size_t i = 0; i < p->n_samples; i++) {
        const int64_t *values = model_values(p, i);
        uint32_t c = 0;
        while (c < p->n_types && values[c] == 0)
            c++;
        if (c == p->n_types)
            continue;
        rows[n++] = (struct row){write_stack(&w, i),
                                 span_key == MODEL_NONE ? 0 : symbols_span(p, i, span_key),
                                 traces ? traces[i] : (struct store_trace){0}, i};
    }
    qsort(rows, n, sizeof *rows, row_order);
    for (uint32_t c = 0; c < kind.k; c++) {
        int64_t total;
        bool shared = w.derived >> c & 1, others = shared && c > 0;
        uint32_t written =
            write_samples(&w, rows, n, c, shared ? w.base : families[c], others, &total);
        write_profile(&w, families[c], total, written, others);
    }
}
