// Encodes the protobuf exactly like google/pprof: fields in order, repeated numbers packed from
// three on, strings numbered by first use.
#include <math.h>

#include "codec/codec.h"
#include "codec/pprof.h"
#include "codec/proto.h"
#include "model/events.h"

struct writer {
    const struct model_profile *p;
    struct out *out;
    struct arena *arena;
    uint32_t *numbers; // interned id -> index in the output's string table + 1
    uint32_t *order;   // the inverse: index -> interned id
    uint32_t n_strings;
    struct out scratch; // the submessage under construction
    struct varint *ids; // encoded ids of the locations
    uint8_t *packed;    // the frames under construction
    size_t cap_packed;
};

// An encoded varint. Nearly all are at most eight bytes long and are copied as one word.
struct varint {
    uint8_t bytes[10];
    uint8_t n;
};

static void use_string(struct writer *w, uint32_t string)
{
    if (w->numbers[string])
        return;
    w->order[w->n_strings] = string;
    w->numbers[string] = ++w->n_strings;
}

static uint64_t string_number(const struct writer *w, uint32_t string)
{
    return w->numbers[string] - 1;
}

static void use_label_set(struct writer *w, const struct model_label_set *set)
{
    for (uint32_t i = 0; i < set->n; i++) {
        const struct model_label *label = &w->p->labels[set->first + i];
        use_string(w, label->key);
        use_string(w, label->is_number ? label->unit : label->str);
    }
}

static void number_strings(struct writer *w)
{
    const struct model_profile *p = w->p;
    use_string(w, 0);
    for (uint32_t i = 0; i < p->n_types; i++) {
        use_string(w, p->types[i].type);
        use_string(w, p->types[i].unit);
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
        use_string(w, p->mappings[i].file);
        use_string(w, p->mappings[i].build_id);
    }
    for (uint32_t i = 0; i < p->n_functions; i++) {
        arena_spend(w->arena, 1);
        use_string(w, p->functions[i].name);
        use_string(w, p->functions[i].system_name);
        use_string(w, p->functions[i].filename);
    }
    use_string(w, p->drop_frames);
    use_string(w, p->keep_frames);
    use_string(w, p->period_type.type);
    use_string(w, p->period_type.unit);
    for (uint32_t i = 0; i < p->n_comments; i++)
        use_string(w, p->comments[i]);
    use_string(w, p->default_type);
    use_string(w, p->doc_url);
}

static void pprof_put(struct out *out, uint32_t field, uint64_t value)
{
    proto_put_varint(out, field << 3 | WIRE_VARINT);
    proto_put_varint(out, value);
}

static void pprof_put_nonzero(struct out *out, uint32_t field, uint64_t value)
{
    if (value)
        pprof_put(out, field, value);
}

static void pprof_put_header(struct out *out, uint32_t field, size_t length)
{
    proto_put_varint(out, field << 3 | WIRE_BYTES);
    proto_put_varint(out, length);
}

// Moves the scratch buffer into the output as a submessage.
static void put_scratch(struct writer *w, uint32_t field)
{
    pprof_put_header(w->out, field, w->scratch.n);
    out_write(w->out, w->scratch.p, w->scratch.n);
    w->scratch.n = 0;
}

static void put_value_type(struct writer *w, uint32_t field, struct model_value_type type)
{
    pprof_put_nonzero(&w->scratch, 1, string_number(w, type.type));
    pprof_put_nonzero(&w->scratch, 2, string_number(w, type.unit));
    put_scratch(w, field);
}

static void pprof_put_labels(struct writer *w, size_t sample)
{
    uint32_t n;
    const struct model_label *labels = model_labels(w->p, sample, &n);
    for (uint32_t i = 0; i < n; i++) {
        const struct model_label *l = &labels[i];
        uint64_t v[5] = {0, string_number(w, l->key), l->is_number ? 0 : string_number(w, l->str),
                         l->is_number ? (uint64_t)l->number : 0,
                         l->is_number ? string_number(w, l->unit) : 0};
        size_t size = 0;
        for (uint32_t f = 1; f < 5; f++)
            size += v[f] ? 1 + proto_varint_size(v[f]) : 0;
        pprof_put_header(&w->scratch, 3, size);
        for (uint32_t f = 1; f < 5; f++)
            pprof_put_nonzero(&w->scratch, f, v[f]);
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

static void pprof_put_frames(struct writer *w, size_t sample)
{
    const struct model_profile *p = w->p;
    const uint32_t *frames = model_stack(p, sample);
    uint32_t n = p->stack_len[sample];
    if (n <= 2) {
        for (uint32_t i = 0; i < n; i++)
            pprof_put(&w->scratch, 1, p->locations[frames[i]].id);
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
    pprof_put_header(&w->scratch, 1, (size_t)(to - w->packed));
    out_write(&w->scratch, w->packed, (size_t)(to - w->packed));
}

static void pprof_put_values(struct writer *w, size_t sample)
{
    const int64_t *values = model_values(w->p, sample);
    uint32_t n = w->p->n_types;
    if (n <= 2) {
        for (uint32_t i = 0; i < n; i++)
            pprof_put(&w->scratch, 2, (uint64_t)values[i]);
        return;
    }
    size_t size = 0;
    for (uint32_t i = 0; i < n; i++)
        size += proto_varint_size((uint64_t)values[i]);
    pprof_put_header(&w->scratch, 2, size);
    for (uint32_t i = 0; i < n; i++)
        proto_put_varint(&w->scratch, (uint64_t)values[i]);
}

// Omitted if each event weighs one period.
static void put_squares(struct writer *w, size_t sample)
{
    if (!w->p->squares)
        return;
    double squares = round(w->p->squares[sample]);
    if (squares != round(model_periods(w->p, sample)))
        pprof_put(&w->scratch, PPROF_SQUARES, (uint64_t)fmin(fmax(squares, 1), 0x1p62));
}

static void pprof_put_mapping(struct writer *w, const struct model_mapping *m)
{
    struct out *s = &w->scratch;
    pprof_put_nonzero(s, 1, m->id);
    pprof_put_nonzero(s, 2, m->start);
    pprof_put_nonzero(s, 3, m->limit);
    pprof_put_nonzero(s, 4, m->offset);
    pprof_put_nonzero(s, 5, string_number(w, m->file));
    pprof_put_nonzero(s, 6, string_number(w, m->build_id));
    pprof_put_nonzero(s, 7, m->has_functions);
    pprof_put_nonzero(s, 8, m->has_filenames);
    pprof_put_nonzero(s, 9, m->has_line_numbers);
    pprof_put_nonzero(s, 10, m->has_inline_frames);
    put_scratch(w, 3);
}

static void pprof_put_location(struct writer *w, const struct model_location *l)
{
    const struct model_profile *p = w->p;
    struct out *s = &w->scratch;
    pprof_put_nonzero(s, 1, l->id);
    pprof_put_nonzero(s, 2, l->mapping == MODEL_NONE ? 0 : p->mappings[l->mapping].id);
    pprof_put_nonzero(s, 3, l->address);
    for (uint32_t i = 0; i < l->n_lines; i++) {
        const struct model_line *line = &p->lines[l->first_line + i];
        uint64_t v[4] = {0, p->functions[line->function].id, (uint64_t)line->line,
                         (uint64_t)line->column};
        size_t size = 0;
        for (uint32_t f = 1; f < 4; f++)
            size += v[f] ? 1 + proto_varint_size(v[f]) : 0;
        pprof_put_header(s, 4, size);
        for (uint32_t f = 1; f < 4; f++)
            pprof_put_nonzero(s, f, v[f]);
    }
    pprof_put_nonzero(s, 5, l->is_folded);
    put_scratch(w, 4);
}

static void pprof_put_function(struct writer *w, const struct model_function *f)
{
    struct out *s = &w->scratch;
    pprof_put_nonzero(s, 1, f->id);
    pprof_put_nonzero(s, 2, string_number(w, f->name));
    pprof_put_nonzero(s, 3, string_number(w, f->system_name));
    pprof_put_nonzero(s, 4, string_number(w, f->filename));
    pprof_put_nonzero(s, 5, (uint64_t)f->start_line);
    put_scratch(w, 5);
}

static void pprof_put_comments(struct writer *w)
{
    const struct model_profile *p = w->p;
    if (p->n_comments > 2) {
        for (uint32_t i = 0; i < p->n_comments; i++)
            proto_put_varint(&w->scratch, string_number(w, p->comments[i]));
        put_scratch(w, 13);
    } else {
        for (uint32_t i = 0; i < p->n_comments; i++)
            pprof_put(w->out, 13, string_number(w, p->comments[i]));
    }
}

static void pprof_put_profile(struct writer *w)
{
    const struct model_profile *p = w->p;
    for (uint32_t i = 0; i < p->n_types; i++)
        put_value_type(w, 1, p->types[i]);
    for (size_t i = 0; i < p->n_samples; i++) {
        arena_spend(w->arena, 1 + p->stack_len[i] + p->n_types / 8);
        pprof_put_frames(w, i);
        pprof_put_values(w, i);
        pprof_put_labels(w, i);
        put_squares(w, i);
        put_scratch(w, 2);
    }
    for (uint32_t i = 0; i < p->n_mappings; i++)
        pprof_put_mapping(w, &p->mappings[i]);
    for (uint32_t i = 0; i < p->n_locations; i++) {
        arena_spend(w->arena, 1 + p->locations[i].n_lines);
        pprof_put_location(w, &p->locations[i]);
    }
    for (uint32_t i = 0; i < p->n_functions; i++) {
        arena_spend(w->arena, 1);
        pprof_put_function(w, &p->functions[i]);
    }
    for (uint32_t i = 0; i < w->n_strings; i++) {
        struct str s = model_str(p, w->order[i]);
        arena_spend(w->arena, 1 + s.n / 1024);
        pprof_put_header(w->out, 6, s.n);
        out_str(w->out, s);
    }
    pprof_put_nonzero(w->out, 7, string_number(w, p->drop_frames));
    pprof_put_nonzero(w->out, 8, string_number(w, p->keep_frames));
    pprof_put_nonzero(w->out, 9, (uint64_t)p->time_nanos);
    pprof_put_nonzero(w->out, 10, (uint64_t)p->duration_nanos);
    if (string_number(w, p->period_type.type) || string_number(w, p->period_type.unit))
        put_value_type(w, 11, p->period_type);
    pprof_put_nonzero(w->out, 12, (uint64_t)p->period);
    pprof_put_comments(w);
    pprof_put(w->out, 14, string_number(w, p->default_type));
    pprof_put_nonzero(w->out, 15, string_number(w, p->doc_url));
    pprof_put_nonzero(w->out, PPROF_SQUARES, p->is_weighed);
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
    pprof_put_profile(&w);
    arena_try_end(arena);
    arena_free(arena);
    return 0;
}
