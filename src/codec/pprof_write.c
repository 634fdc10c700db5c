// Writes the protobuf exactly as google/pprof encodes it: fields in order, repeated
// numbers packed from three on, strings numbered by first use.
#include <math.h>

#include "codec/codec.h"
#include "codec/pprof.h"
#include "codec/proto.h"
#include "model/events.h"

struct writer {
    const struct model_profile *p;
    struct out *out;
    struct arena *arena;
    uint32_t *numbers; // interned id -> index in the table written, plus one
    uint32_t *order;   // the other way round
    uint32_t n_strings;
    struct out scratch; // the submessage under construction
    struct varint *ids; // of the locations
    uint8_t *packed;    // the frames under construction
    size_t cap_packed;
};

// A number as it is written: almost all are shorter than eight bytes and copied as a word.
struct varint {
    uint8_t bytes[10];
    uint8_t n;
};

static void use(struct writer *w, uint32_t string)
{
    if (w->numbers[string])
        return;
    w->order[w->n_strings] = string;
    w->numbers[string] = ++w->n_strings;
}

static uint64_t number(const struct writer *w, uint32_t string)
{
    return w->numbers[string] - 1;
}

static void use_label_set(struct writer *w, const struct model_label_set *set)
{
    for (uint32_t i = 0; i < set->n; i++) {
        const struct model_label *label = &w->p->labels[set->first + i];
        use(w, label->key);
        use(w, label->is_number ? label->unit : label->str);
    }
}

static void number_strings(struct writer *w)
{
    const struct model_profile *p = w->p;
    use(w, 0);
    for (uint32_t i = 0; i < p->n_types; i++) {
        use(w, p->types[i].type);
        use(w, p->types[i].unit);
    }
    if (p->label_set) {
        bool *seen = arena_array(w->arena, p->n_label_sets, sizeof *seen);
        for (size_t i = 0; i < p->n_samples; i++) {
            uint32_t set = p->label_set[i];
            arena_spend(w->arena, 1 + (seen[set] ? 0 : p->label_sets[set].n));
            if (!seen[set])
                use_label_set(w, &p->label_sets[set]);
            seen[set] = true;
        }
    }
    for (uint32_t i = 0; i < p->n_mappings; i++) {
        use(w, p->mappings[i].file);
        use(w, p->mappings[i].build_id);
    }
    for (uint32_t i = 0; i < p->n_functions; i++) {
        arena_spend(w->arena, 1);
        use(w, p->functions[i].name);
        use(w, p->functions[i].system_name);
        use(w, p->functions[i].filename);
    }
    use(w, p->drop_frames);
    use(w, p->keep_frames);
    use(w, p->period_type.type);
    use(w, p->period_type.unit);
    for (uint32_t i = 0; i < p->n_comments; i++)
        use(w, p->comments[i]);
    use(w, p->default_type);
    use(w, p->doc_url);
}

static void put(struct out *out, uint32_t field, uint64_t value)
{
    proto_put_varint(out, field << 3 | WIRE_VARINT);
    proto_put_varint(out, value);
}

static void put_opt(struct out *out, uint32_t field, uint64_t value)
{
    if (value)
        put(out, field, value);
}

static void put_header(struct out *out, uint32_t field, size_t length)
{
    proto_put_varint(out, field << 3 | WIRE_BYTES);
    proto_put_varint(out, length);
}

// Moves the scratch buffer into the output as field's submessage.
static void put_scratch(struct writer *w, uint32_t field)
{
    put_header(w->out, field, w->scratch.n);
    out_write(w->out, w->scratch.p, w->scratch.n);
    w->scratch.n = 0;
}

static void put_value_type(struct writer *w, uint32_t field, struct model_value_type type)
{
    put_opt(&w->scratch, 1, number(w, type.type));
    put_opt(&w->scratch, 2, number(w, type.unit));
    put_scratch(w, field);
}

static void put_labels(struct writer *w, size_t sample)
{
    uint32_t n;
    const struct model_label *labels = model_labels(w->p, sample, &n);
    for (uint32_t i = 0; i < n; i++) {
        const struct model_label *l = &labels[i];
        uint64_t v[5] = {0, number(w, l->key), l->is_number ? 0 : number(w, l->str),
                         l->is_number ? (uint64_t)l->number : 0,
                         l->is_number ? number(w, l->unit) : 0};
        size_t size = 0;
        for (uint32_t f = 1; f < 5; f++)
            size += v[f] ? 1 + proto_varint_size(v[f]) : 0;
        put_header(&w->scratch, 3, size);
        for (uint32_t f = 1; f < 5; f++)
            put_opt(&w->scratch, f, v[f]);
    }
}

static struct varint encode_varint(uint64_t v)
{
    struct varint x = {.n = 0};
    for (; v >= 0x80; v >>= 7)
        x.bytes[x.n++] = (uint8_t)(v | 0x80);
    x.bytes[x.n++] = (uint8_t)v;
    return x;
}

static void put_frames(struct writer *w, size_t sample)
{
    const struct model_profile *p = w->p;
    const uint32_t *frames = model_stack(p, sample);
    uint32_t n = p->stack_len[sample];
    if (n <= 2) {
        for (uint32_t i = 0; i < n; i++)
            put(&w->scratch, 1, p->locations[frames[i]].id);
        return;
    }
    while (w->cap_packed < (size_t)n * sizeof(struct varint))
        w->packed = arena_push(w->arena, w->packed, w->cap_packed, &w->cap_packed, 1);
    uint8_t *to = w->packed;
    for (uint32_t i = 0; i < n; i++) {
        const struct varint *id = &w->ids[frames[i]];
        memcpy(to, id->bytes, sizeof(uint64_t));
        if (id->n > sizeof(uint64_t))
            memcpy(to, id->bytes, sizeof id->bytes);
        to += id->n;
    }
    put_header(&w->scratch, 1, (size_t)(to - w->packed));
    out_write(&w->scratch, w->packed, (size_t)(to - w->packed));
}

static void put_values(struct writer *w, size_t sample)
{
    const int64_t *values = model_values(w->p, sample);
    uint32_t n = w->p->n_types;
    if (n <= 2) {
        for (uint32_t i = 0; i < n; i++)
            put(&w->scratch, 2, (uint64_t)values[i]);
        return;
    }
    size_t size = 0;
    for (uint32_t i = 0; i < n; i++)
        size += proto_varint_size((uint64_t)values[i]);
    put_header(&w->scratch, 2, size);
    for (uint32_t i = 0; i < n; i++)
        proto_put_varint(&w->scratch, (uint64_t)values[i]);
}

// Only where events weigh more than one period.
static void put_squares(struct writer *w, size_t sample)
{
    if (!w->p->squares)
        return;
    double squares = round(w->p->squares[sample]);
    if (squares != round(model_periods(w->p, sample)))
        put(&w->scratch, PPROF_SQUARES, (uint64_t)fmin(fmax(squares, 1), 0x1p62));
}

static void put_mapping(struct writer *w, const struct model_mapping *m)
{
    struct out *s = &w->scratch;
    put_opt(s, 1, m->id);
    put_opt(s, 2, m->start);
    put_opt(s, 3, m->limit);
    put_opt(s, 4, m->offset);
    put_opt(s, 5, number(w, m->file));
    put_opt(s, 6, number(w, m->build_id));
    put_opt(s, 7, m->has_functions);
    put_opt(s, 8, m->has_filenames);
    put_opt(s, 9, m->has_line_numbers);
    put_opt(s, 10, m->has_inline_frames);
    put_scratch(w, 3);
}

static void put_location(struct writer *w, const struct model_location *l)
{
    const struct model_profile *p = w->p;
    struct out *s = &w->scratch;
    put_opt(s, 1, l->id);
    put_opt(s, 2, l->mapping == MODEL_NONE ? 0 : p->mappings[l->mapping].id);
    put_opt(s, 3, l->address);
    for (uint32_t i = 0; i < l->n_lines; i++) {
        const struct model_line *line = &p->lines[l->first_line + i];
        uint64_t v[4] = {0, p->functions[line->function].id, (uint64_t)line->line,
                         (uint64_t)line->column};
        size_t size = 0;
        for (uint32_t f = 1; f < 4; f++)
            size += v[f] ? 1 + proto_varint_size(v[f]) : 0;
        put_header(s, 4, size);
        for (uint32_t f = 1; f < 4; f++)
            put_opt(s, f, v[f]);
    }
    put_opt(s, 5, l->is_folded);
    put_scratch(w, 4);
}

static void put_function(struct writer *w, const struct model_function *f)
{
    struct out *s = &w->scratch;
    put_opt(s, 1, f->id);
    put_opt(s, 2, number(w, f->name));
    put_opt(s, 3, number(w, f->system_name));
    put_opt(s, 4, number(w, f->filename));
    put_opt(s, 5, (uint64_t)f->start_line);
    put_scratch(w, 5);
}

static void put_comments(struct writer *w)
{
    const struct model_profile *p = w->p;
    if (p->n_comments > 2) {
        for (uint32_t i = 0; i < p->n_comments; i++)
            proto_put_varint(&w->scratch, number(w, p->comments[i]));
        put_scratch(w, 13);
    } else {
        for (uint32_t i = 0; i < p->n_comments; i++)
            put(w->out, 13, number(w, p->comments[i]));
    }
}

static void put_profile(struct writer *w)
{
    const struct model_profile *p = w->p;
    for (uint32_t i = 0; i < p->n_types; i++)
        put_value_type(w, 1, p->types[i]);
    for (size_t i = 0; i < p->n_samples; i++) {
        arena_spend(w->arena, 1 + p->stack_len[i] + p->n_types / 8);
        put_frames(w, i);
        put_values(w, i);
        put_labels(w, i);
        put_squares(w, i);
        put_scratch(w, 2);
    }
    for (uint32_t i = 0; i < p->n_mappings; i++)
        put_mapping(w, &p->mappings[i]);
    for (uint32_t i = 0; i < p->n_locations; i++) {
        arena_spend(w->arena, 1 + p->locations[i].n_lines);
        put_location(w, &p->locations[i]);
    }
    for (uint32_t i = 0; i < p->n_functions; i++) {
        arena_spend(w->arena, 1);
        put_function(w, &p->functions[i]);
    }
    for (uint32_t i = 0; i < w->n_strings; i++) {
        struct str s = model_str(p, w->order[i]);
        arena_spend(w->arena, 1 + s.n / 1024);
        put_header(w->out, 6, s.n);
        out_str(w->out, s);
    }
    put_opt(w->out, 7, number(w, p->drop_frames));
    put_opt(w->out, 8, number(w, p->keep_frames));
    put_opt(w->out, 9, (uint64_t)p->time_nanos);
    put_opt(w->out, 10, (uint64_t)p->duration_nanos);
    if (number(w, p->period_type.type) || number(w, p->period_type.unit))
        put_value_type(w, 11, p->period_type);
    put_opt(w->out, 12, (uint64_t)p->period);
    put_comments(w);
    put(w->out, 14, number(w, p->default_type));
    put_opt(w->out, 15, number(w, p->doc_url));
    put_opt(w->out, PPROF_SQUARES, p->is_weighed);
}

int codec_write_pprof(const struct model_profile *p, struct out *out, struct err *e)
{
    struct arena *arena = arena_new_in(arena_budget(p->arena), 0);
    if (!arena)
        return err_set(e, "out of memory");
    struct writer w = {.p = p, .out = out, .arena = arena};
    out_init_arena(&w.scratch, arena);
    struct arena_trap trap;
    if (ARENA_TRY(arena, trap)) {
        arena_caught(arena, e);
        arena_free(arena);
        return -1;
    }
    w.numbers = arena_array(arena, p->strings->n, sizeof *w.numbers);
    w.order = arena_array(arena, p->strings->n, sizeof *w.order);
    w.ids = arena_array(arena, p->n_locations, sizeof *w.ids);
    for (uint32_t i = 0; i < p->n_locations; i++) {
        arena_spend(arena, 1);
        w.ids[i] = encode_varint(p->locations[i].id);
    }
    number_strings(&w);
    put_profile(&w);
    arena_try_end(arena);
    arena_free(arena);
    return 0;
}
