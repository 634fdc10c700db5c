// Converts a profile to rows. Ids are content hashes, so all servers write the same rows for the
// same content without coordination.
#include <stdlib.h>

#include "store/clickhouse.h"

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

static void put_row_id(struct out *out, struct id id)
{
    out_write(out, &id, sizeof id);
}

static void put_varint(struct out *out, uint64_t v)
{
    for (; v >= 128; v >>= 7)
        out_char(out, (char)(v | 128));
    out_char(out, (char)v);
}

static void put_row_str(struct out *out, struct str s)
{
    put_varint(out, s.n);
    out_str(out, s);
}

// --- a profile ---

// What an id identifies. Separates equal content, together with tenant and service.
enum use { USE_SCOPE = 1, USE_LOCATION, USE_STACK, USE_FAMILY, USE_BASE, USE_SERIES, USE_PUT };

struct writer {
    struct known *written;
    struct id_cache *cache;
    const struct store_put *put;
    const struct model_profile *p;
    struct arena *arena;
    struct put_rows *to;
    uint64_t batch;
    struct str service;
    struct id scope, series, base, stack_key;
    struct id stacks_key; // in the cache: common prefix of all stack keys
    uint64_t derived;
    struct row_ids *ids;
    struct out content;
};

static struct id hash_use(struct id scope, enum use use, struct str content)
{
    return id_hash((struct id){scope.a ^ use, scope.b}, content.p, content.n);
}

static bool is_written(struct writer *w, struct id id)
{
    return known_has(w->written, id, w->to->day, w->batch);
}

// Begins a row that others refer to and that the segment does not have. id is the sender's key for
// it. The caller writes the other columns.
static struct out *begin_row(struct writer *w, enum table table, struct id id, size_t *length)
{
    known_add(w->written, id, w->to->day, w->batch);
    struct out *out = &w->to->rows[table];
    put_row_id(out, id);
    *length = out->n;
    put_u32(out, 0);
    put_u16(out, w->to->day);
    put_row_str(out, w->put->tenant);
    put_row_str(out, w->service);
    w->to->n[table]++;
    return out;
}

static void end_row(struct out *out, size_t at)
{
    uint32_t length = (uint32_t)(out->n - at - sizeof length);
    if (!out->error)
        memcpy(out->p + at, &length, sizeof length);
}

// Writes a location's row after its hash. *hashed: size of the part that identifies the location.
// The mapping address is not part of it, unless nothing else identifies the mapping.
static void write_content(struct writer *w, const struct model_location *l, size_t *hashed)
{
    const struct model_profile *p = w->p;
    const struct model_line *lines = p->lines + l->first_line;
    const struct model_mapping *m = l->mapping != MODEL_NONE ? &p->mappings[l->mapping] : NULL;
    bool fixed = m && symbols_flags(m) & SYMBOLS_FIXED;
    struct out *out = &w->content;
    out->n = 0;
    put_u64(out, l->address - (m ? m->start : 0));
    put_u8(out, l->is_folded);
    put_u8(out, m != NULL);
    put_u64(out, m ? m->limit - m->start : 0);
    put_u64(out, m ? m->offset : 0);
    put_row_str(out, m ? model_str(p, m->file) : STR(""));
    put_row_str(out, m ? model_str(p, m->build_id) : STR(""));
    put_u32(out, m ? symbols_flags(m) : 0);
    for (int column = 0; column < 6; column++) {
        put_varint(out, l->n_lines);
        for (uint32_t i = 0; i < l->n_lines; i++) {
            const struct model_function *f = &p->functions[lines[i].function];
            if (column < 3)
                put_row_str(out, model_str(p, column == 0   ? f->name
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

// --- ids from the cache ---

static struct id repeat_u64(uint64_t v)
{
    return (struct id){v, v};
}

static struct id string_key(struct writer *w, uint32_t index)
{
    struct id *key = &w->ids->strings[index];
    if (id_is_none(*key))
        *key = id_cache_text(w->cache, model_str(w->p, index));
    return *key;
}

static struct id function_key(struct writer *w, uint32_t index)
{
    struct id *key = &w->ids->functions[index];
    const struct model_function *f = &w->p->functions[index];
    if (!id_is_none(*key))
        return *key;
    *key = id_cache_mix(w->cache, string_key(w, f->name), string_key(w, f->system_name));
    *key = id_cache_mix(w->cache, *key, string_key(w, f->filename));
    return *key = id_cache_mix(w->cache, *key, repeat_u64((uint64_t)f->start_line));
}

static struct id mapping_key(struct writer *w, uint32_t index)
{
    struct id *key = &w->ids->mappings[index];
    const struct model_mapping *m = &w->p->mappings[index];
    if (!id_is_none(*key))
        return *key;
    *key = id_cache_mix(w->cache, string_key(w, m->file), string_key(w, m->build_id));
    *key = id_cache_mix(w->cache, *key, repeat_u64(m->limit - m->start));
    *key = id_cache_mix(w->cache, *key, repeat_u64(m->offset));
    *key = id_cache_mix(w->cache, *key, repeat_u64(symbols_flags(m)));
    return *key = id_cache_mix(w->cache, *key,
                               repeat_u64(symbols_flags(m) & SYMBOLS_FIXED ? m->start : 0));
}

// The cache key covers everything that a location's id is made of.
static struct id location_key(struct writer *w, const struct model_location *l)
{
    bool mapped = l->mapping != MODEL_NONE;
    uint64_t start = mapped ? w->p->mappings[l->mapping].start : 0;
    struct id key = id_cache_mix(w->cache, w->scope, repeat_u64(l->address - start));
    key =
        id_cache_mix(w->cache, key,
                     repeat_u64((uint64_t)l->n_lines << 2 | (uint64_t)l->is_folded << 1 | mapped));
    if (mapped)
        key = id_cache_mix(w->cache, key, mapping_key(w, l->mapping));
    for (uint32_t i = l->first_line; i < l->first_line + l->n_lines; i++) {
        const struct model_line *line = &w->p->lines[i];
        key = id_cache_mix(w->cache, key, function_key(w, line->function));
        key = id_cache_mix(w->cache, key, repeat_u64((uint64_t)line->line));
        key = id_cache_mix(w->cache, key, repeat_u64((uint64_t)line->column));
    }
    return key;
}

// --- rows of locations and stacks ---

static void write_location_row(struct writer *w, uint32_t index)
{
    const struct model_location *l = &w->p->locations[index];
    struct id key = location_key(w, l), *id = &w->ids->locations[index];
    size_t hashed, length;
    bool cached = id_cache_find(w->cache, key, id);
    if (cached && is_written(w, *id))
        return;
    write_content(w, l, &hashed);
    if (!cached) {
        *id = hash_use(w->scope, USE_LOCATION, (struct str){w->content.p, hashed});
        id_cache_add(w->cache, key, *id);
    }
    if (is_written(w, *id))
        return;
    struct out *out = begin_row(w, T_LOCATIONS, *id, &length);
    put_row_id(out, *id);
    out_write(out, w->content.p, w->content.n);
    end_row(out, length);
}

// Returns the number of a stack. The number is also the sender's key of its row: with another
// secret, it is another row.
static uint64_t write_stack_row(struct writer *w, size_t sample)
{
    const uint32_t *stack = model_stack(w->p, sample);
    uint32_t depth = w->p->stack_len[sample];
    const struct id *locations = w->ids->locations;
    struct id key = id_cache_mix(w->cache, w->stacks_key, repeat_u64(depth)), known;
    for (uint32_t i = 0; i < depth; i++) {
        if (id_is_none(locations[stack[i]]))
            write_location_row(w, stack[i]);
        key = id_cache_mix(w->cache, key, locations[stack[i]]);
    }
    // known: the number, and half of the id.
    bool cached = id_cache_find(w->cache, key, &known);
    if (cached && is_written(w, known))
        return known.a;
    w->content.n = 0;
    for (uint32_t i = 0; i < depth; i++)
        put_row_id(&w->content, locations[stack[i]]);
    struct id id = hash_use(w->scope, USE_STACK, out_result(&w->content));
    known = (struct id){id_hash(w->stack_key, &id, sizeof id).a, id.b};
    id_cache_add(w->cache, key, known);
    if (is_written(w, known))
        return known.a;
    size_t length;
    struct out *out = begin_row(w, T_STACKS, known, &length);
    put_u64(out, known.a);
    put_row_id(out, id);
    put_varint(out, depth);
    out_write(out, w->content.p, w->content.n);
    end_row(out, length);
    return known.a;
}

// The id shared by all values of one type of profile.
static struct id hash_family(struct writer *w, const struct kind *kind, uint32_t column)
{
    w->content.n = 0;
    put_row_str(&w->content, labels_get(w->put->labels, w->put->n_labels, STR("__name__")));
    put_row_str(&w->content, kind->types[column].type);
    put_row_str(&w->content, kind->types[column].unit);
    put_row_str(&w->content, kind->period_type);
    put_row_str(&w->content, kind->period_unit);
    // Squared weights are in periods: they can be added up only if the period is the same.
    if (column == kind_types(kind))
        put_u64(&w->content, (uint64_t)kind->period);
    return hash_use(w->scope, USE_FAMILY, out_result(&w->content));
}

// The id that identifies a repeated put; none if the put has no id.
static struct id hash_put_id(struct writer *w, struct str labels)
{
    if (!w->put->id.n)
        return (struct id){0};
    w->content.n = 0;
    put_u64(&w->content, w->put->is_untimed ? 0 : (uint64_t)w->put->time);
    put_row_str(&w->content, w->put->id);
    out_str(&w->content, labels);
    struct id id = hash_use(w->scope, USE_PUT, out_result(&w->content));
    id.b = w->put->is_untimed ? id.b | UNTIMED_BIT : id.b & ~UNTIMED_BIT;
    return id;
}

static struct id write_series_row(struct writer *w, const struct kind *kind,
                                  const struct id *families)
{
    const struct store_put *put = w->put;
    struct pack labels = {.arena = w->arena}, body = {.arena = w->arena};
    size_t length;
    labels_pack(&labels, put->labels, put->n_labels);
    kind_pack(&body, kind);
    struct str packed = {(const char *)labels.p, labels.n}, kinds = {(const char *)body.p, body.n};
    w->content.n = 0;
    put_u64(&w->content, w->derived);
    put_row_str(&w->content, kinds);
    if (w->derived) { // with the name of the profile, which is part of the first family
        put_row_id(&w->content, families[0]);
        w->base = hash_use(w->scope, USE_BASE, out_result(&w->content));
    }
    out_str(&w->content, packed);
    w->series = hash_use(w->scope, USE_SERIES, out_result(&w->content));
    if (is_written(w, w->series))
        return hash_put_id(w, packed);
    struct out *out = begin_row(w, T_SERIES, w->series, &length);
    put_row_id(out, w->series);
    put_row_str(out, kinds);
    put_varint(out, put->n_labels);
    for (size_t i = 0; i < put->n_labels; i++)
        put_row_str(out, put->labels[i].name);
    put_varint(out, put->n_labels);
    for (size_t i = 0; i < put->n_labels; i++)
        put_row_str(out, put->labels[i].value);
    put_varint(out, kind->k);
    for (uint32_t i = 0; i < kind->k; i++)
        put_row_id(out, families[i]);
    put_row_id(out, w->base);
    put_u64(out, w->derived);
    end_row(out, length);
    return hash_put_id(w, packed);
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

// Finds columns equal to the first one times the period (CPU time next to a sample count); their
// samples are stored once, with the first column. Only this factor qualifies, because it is part of
// the kind; a factor that varies between profiles would make each a series of its own. Columns
// whose sum could overflow do not qualify, because the product of the wrapped sum would differ.
// Squared weights equal the first column if every event weighs one period.
static bool equals_first(const struct model_profile *p, uint32_t column)
{
    for (size_t i = 0; i < p->n_samples; i++)
        if (kind_value(p, i, column) != model_values(p, i)[0])
            return false;
    return true;
}

static uint64_t find_derived(const struct model_profile *p)
{
    uint64_t derived = 0;
    for (uint32_t c = 1; c < p->n_types && p->period > 1; c++) {
        size_t i = 0;
        int64_t total = 0;
        for (; i < p->n_samples; i++) {
            const int64_t *values = model_values(p, i);
            int64_t product;
            if (__builtin_mul_overflow(values[0], p->period, &product) || product != values[c] ||
                product == INT64_MIN ||
                __builtin_add_overflow(total, product < 0 ? -product : product, &total))
                break;
        }
        if (i == p->n_samples)
            derived |= UINT64_C(1) << c;
    }
    if (kind_columns(p) > p->n_types && equals_first(p, p->n_types))
        derived |= UINT64_C(1) << p->n_types;
    return derived ? derived | 1 : 0;
}

// Column offsets in a row of samples.
enum { STACK_AT = 38, SPAN_AT = STACK_AT + 16, VALUE_AT = SPAN_AT + 24 };

// Builds a row with the columns that all samples of a profile's type share.
static struct str begin_sample(struct writer *w, struct id family)
{
    struct out *out = &w->content;
    out->n = 0;
    put_u16(out, w->to->day);
    put_row_id(out, family);
    put_u32(out, (uint32_t)(w->put->time / HOUR_NANOS));
    put_row_id(out, w->series);
    put_u64(out, 0);
    put_u64(out, (uint64_t)w->put->time);
    put_u64(out, 0);
    put_row_id(out, (struct id){0});
    put_u64(out, 0);
    put_u64(out, w->batch);
    put_row_str(out, w->put->tenant);
    return out_result(out);
}

// Returns the number of rows of the column. They are not written if others is set: another column's
// rows represent them.
static uint32_t write_samples(struct writer *w, const struct row *rows, size_t n, uint32_t column,
                              struct id family, bool others, int64_t *total)
{
    struct out *out = &w->to->rows[T_SAMPLES];
    struct str row = begin_sample(w, family);
    char *bytes = w->content.p;
    uint32_t written = 0;
    *total = 0;
    for (size_t i = 0, end; i < n; i = end) {
        int64_t value = 0;
        for (end = i; end < n && row_order(&rows[i], &rows[end]) == 0; end++)
            value = pack_add(value, kind_value(w->p, rows[end].sample, column));
        *total = pack_add(*total, value);
        if (!value)
            continue;
        written++;
        if (others)
            continue;
        memcpy(bytes + STACK_AT, &rows[i].stack, sizeof rows[i].stack);
        memcpy(bytes + SPAN_AT, &rows[i].span, sizeof rows[i].span);
        memcpy(bytes + SPAN_AT + 8, &rows[i].trace, sizeof rows[i].trace);
        memcpy(bytes + VALUE_AT, &value, sizeof value);
        out_str(out, row);
    }
    w->to->n[T_SAMPLES] += others ? 0 : written;
    return written;
}

static void write_profile_row(struct writer *w, struct id family, struct id id, int64_t total,
                              uint32_t n, bool others, bool first)
{
    struct out *out = &w->to->rows[T_PROFILES];
    put_u16(out, w->to->day);
    put_row_id(out, family);
    put_u32(out, (uint32_t)(w->put->time / HOUR_NANOS));
    put_row_id(out, w->series);
    put_u64(out, (uint64_t)w->put->time);
    put_row_id(out, id);
    put_u64(out, (uint64_t)total);
    put_u64(out, (uint64_t)w->put->duration);
    put_u32(out, n);
    put_u8(out, !others);
    put_u8(out, first);
    put_u64(out, w->batch);
    put_row_str(out, w->put->tenant);
    w->to->n[T_PROFILES]++;
}

static struct id hash_scope(struct writer *w)
{
    w->content.n = 0;
    put_row_str(&w->content, w->put->tenant);
    put_row_str(&w->content, w->service);
    return hash_use((struct id){0}, USE_SCOPE, out_result(&w->content));
}

// Prepares the ids of a profile: keeps those of the previous put if it has the same tables, service
// and day, so that its rows are in the segment.
static void prepare_row_ids(struct row_ids *ids, const struct model_profile *p, struct id scope,
                            uint16_t day, struct arena *arena)
{
    const void *tables[] = {p->strings, p->functions, p->mappings, p->locations, p->lines};
    const size_t counts[] = {p->strings->n, p->n_functions, p->n_mappings, p->n_locations};
    _Static_assert(sizeof tables == sizeof ids->tables && sizeof counts == sizeof ids->counts, "");
    if (ids->strings && id_eq(ids->scope, scope) && ids->day == day &&
        memcmp(ids->tables, tables, sizeof tables) == 0 &&
        memcmp(ids->counts, counts, sizeof counts) == 0)
        return;
    ids->scope = scope;
    ids->day = day;
    memcpy(ids->tables, tables, sizeof tables);
    memcpy(ids->counts, counts, sizeof counts);
    ids->strings = arena_array(arena, p->strings->n, sizeof *ids->strings);
    ids->functions = arena_array(arena, p->n_functions, sizeof *ids->functions);
    ids->mappings = arena_array(arena, p->n_mappings, sizeof *ids->mappings);
    ids->locations = arena_array(arena, p->n_locations, sizeof *ids->locations);
}

void clickhouse_rows(struct clickhouse *c, const struct store_put *put, uint64_t batch,
                     struct row_ids *ids, struct arena *arena, struct put_rows *to)
{
    const struct model_profile *p = put->profile;
    struct writer w = {&c->written, &c->ids, put, p, arena, to, .batch = batch, .ids = ids};
    *to = (struct put_rows){.day = (uint16_t)(put->time / DAY_NANOS)};
    for (int i = 0; i < N_TABLES; i++)
        out_init_arena(&to->rows[i], arena);
    out_init_arena(&w.content, arena);
    w.service = labels_get(put->labels, put->n_labels, STR("service_name"));
    w.scope = hash_scope(&w);
    prepare_row_ids(ids, p, w.scope, to->day, arena);
    w.stack_key = clickhouse_stack_key(c);
    w.stacks_key = id_cache_mix(&c->ids, w.scope, w.stack_key);
    struct kind kind;
    kind_of_profile(p, &kind);
    struct id *families = arena_array(arena, kind.k, sizeof *families);
    for (uint32_t i = 0; i < kind.k; i++)
        families[i] = hash_family(&w, &kind, i);
    w.derived = find_derived(p);
    struct id id = write_series_row(&w, &kind, families);
    struct symbols_samples samples;
    symbols_samples(p, arena, &samples);
    struct row *rows = arena_raw(arena, samples.n, sizeof *rows);
    for (size_t i = 0; i < samples.n; i++) {
        uint32_t sample = samples.samples[i];
        rows[i] =
            (struct row){write_stack_row(&w, sample), samples.spans ? samples.spans[i] : 0,
                         samples.traces ? samples.traces[sample] : (struct store_trace){0}, sample};
    }
    qsort(rows, samples.n, sizeof *rows, row_order);
    for (uint32_t i = 0; i < kind.k; i++) {
        int64_t total;
        bool shared = w.derived >> i & 1, others = shared && i > 0;
        uint32_t n_rows =
            write_samples(&w, rows, samples.n, i, shared ? w.base : families[i], others, &total);
        write_profile_row(&w, families[i], id, total, n_rows, others, i == 0);
    }
}
