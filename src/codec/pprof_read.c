// Reads the message in two passes. The first pass reads everything except samples. The second pass
// can then convert location ids to indices immediately, so each frame is touched only once.
#include "codec/id_index.h"
#include "codec/pprof.h"

#include <sys/mman.h>

#include "codec/proto.h"
#include "model/events.h"
#include "model/builder.h"

enum { RELEASE_STEP = 8 << 20, RECENT_SETS = 4096, GUESS_MOST = 2048 };

struct reader {
    struct arena *arena;
    struct model_builder b;
    struct model_profile *p;
    struct err *e;
    uint8_t *data;
    size_t size;

    // Maps string indices of the file to interned ids.
    struct str *raw_strings;
    size_t n_raw, cap_raw;
    uint32_t *string_ids;

    size_t n_samples, sample_bytes; // counted by the first pass
    size_t cap_types, cap_mappings, cap_functions, cap_locations, cap_lines, cap_comments;

    uint32_t *frames; // end of the frames read so far
    bool dangling;    // a frame refers to a location that does not exist
    uint64_t squares; // of the sample; 0: each event weighs one period
    struct model_label *labels;
    size_t n_labels, cap_labels;
    uint32_t *recent; // label set by hash; a cache
};

static enum pprof_result not_pprof(struct reader *r, const uint8_t *at, const char *what)
{
    err_set(r->e, "not a pprof profile: %s at byte %zu", what, (size_t)(at - r->data));
    return PPROF_NOT;
}

static enum pprof_result pprof_bad(struct reader *r, const char *what)
{
    err_set(r->e, "malformed profile: %s", what);
    return PPROF_BAD;
}

// Keeps the raw string index until the table is known. Out-of-range values become MODEL_NONE, which
// resolve_string rejects.
static uint32_t raw_index(uint64_t v)
{
    return v < MODEL_NONE ? (uint32_t)v : MODEL_NONE;
}

// Reads the varint fields of a submessage into slots[field]. Skips fields beyond n_slots.
static inline bool read_scalars(struct proto_span s, uint64_t *slots, uint64_t n_slots)
{
    struct proto_field f;
    while (s.p < s.end) {
        // Fast path: a varint with a field number below 16.
        uint8_t key = *s.p;
        if (!(key & 0x87) && key && key < n_slots * 8) {
            s.p++;
            if (!proto_varint(&s, &slots[key >> 3]))
                return false;
            continue;
        }
        if (!proto_next(&s, &f))
            return false;
        if (f.number == 0 || f.number >= n_slots)
            continue;
        if (f.wire != WIRE_VARINT)
            return false;
        slots[f.number] = f.value;
    }
    return true;
}

static bool pprof_read_value_type(struct proto_span s, struct model_value_type *type)
{
    uint64_t v[3] = {0};
    if (!read_scalars(s, v, 3))
        return false;
    *type = (struct model_value_type){raw_index(v[1]), raw_index(v[2])};
    return true;
}

static bool pprof_read_mapping(struct reader *r, struct proto_span s)
{
    uint64_t v[11] = {0};
    if (!read_scalars(s, v, 11))
        return false;
    struct model_profile *p = r->p;
    p->mappings =
        arena_push(r->arena, p->mappings, p->n_mappings, &r->cap_mappings, sizeof *p->mappings);
    p->mappings[p->n_mappings++] = (struct model_mapping){
        .id = v[1],
        .start = v[2],
        .limit = v[3],
        .offset = v[4],
        .file = raw_index(v[5]),
        .build_id = raw_index(v[6]),
        .has_functions = v[7] != 0,
        .has_filenames = v[8] != 0,
        .has_line_numbers = v[9] != 0,
        .has_inline_frames = v[10] != 0,
    };
    return true;
}

static bool pprof_read_function(struct reader *r, struct proto_span s)
{
    uint64_t v[6] = {0};
    if (!read_scalars(s, v, 6))
        return false;
    struct model_profile *p = r->p;
    p->functions =
        arena_push(r->arena, p->functions, p->n_functions, &r->cap_functions, sizeof *p->functions);
    p->functions[p->n_functions++] = (struct model_function){
        .id = v[1],
        .name = raw_index(v[2]),
        .system_name = raw_index(v[3]),
        .filename = raw_index(v[4]),
        .start_line = (int64_t)v[5],
    };
    return true;
}

static bool pprof_read_location(struct reader *r, struct proto_span s, uint64_t *mapping_id,
                                uint64_t **line_functions, size_t *cap_line_functions)
{
    struct model_profile *p = r->p;
    struct model_location location = {.mapping = MODEL_NONE, .first_line = p->n_lines};
    struct proto_field f;
    *mapping_id = 0;
    while (s.p < s.end) {
        if (!proto_next(&s, &f))
            return false;
        if (f.number == 0 || f.number > 5)
            continue;
        if (f.wire != (f.number == 4 ? WIRE_BYTES : WIRE_VARINT))
            return false;
        if (f.number == 1)
            location.id = f.value;
        else if (f.number == 2)
            *mapping_id = f.value;
        else if (f.number == 3)
            location.address = f.value;
        else if (f.number == 5)
            location.is_folded = f.value != 0;
        else {
            uint64_t v[4] = {0};
            if (!read_scalars(f.span, v, 4))
                return false;
            *line_functions = arena_push(r->arena, *line_functions, p->n_lines, cap_line_functions,
                                         sizeof **line_functions);
            (*line_functions)[p->n_lines] = v[1];
            p->lines = arena_push(r->arena, p->lines, p->n_lines, &r->cap_lines, sizeof *p->lines);
            p->lines[p->n_lines++] =
                (struct model_line){.line = (int64_t)v[2], .column = (int64_t)v[3]};
            location.n_lines++;
        }
    }
    p->locations =
        arena_push(r->arena, p->locations, p->n_locations, &r->cap_locations, sizeof *p->locations);
    p->locations[p->n_locations++] = location;
    return true;
}

static bool pprof_read_comments(struct reader *r, const struct proto_field *f)
{
    struct model_profile *p = r->p;
    struct proto_span s = f->span;
    uint64_t v = f->value;
    if (f->wire != WIRE_BYTES && f->wire != WIRE_VARINT)
        return false;
    while (f->wire == WIRE_VARINT || s.p < s.end) {
        if (f->wire == WIRE_BYTES && !proto_varint(&s, &v))
            return false;
        p->comments =
            arena_push(r->arena, p->comments, p->n_comments, &r->cap_comments, sizeof *p->comments);
        p->comments[p->n_comments++] = raw_index(v);
        if (f->wire == WIRE_VARINT)
            break;
    }
    return true;
}

// Ids that the first pass keeps until it can resolve them.
struct pending {
    uint64_t *location_mappings; // mapping id of each location
    uint64_t *line_functions;    // function id of each line
    size_t cap_location_mappings, cap_line_functions;
};

// Required wire type of each field of Profile; -1: any.
static const int8_t field_wire[16] = {-1, 2, 2, 2, 2, 2, 2, 0, 0, 0, 0, 2, 0, -1, 0, 0};

static enum pprof_result pprof_read_tables(struct reader *r, struct pending *pending)
{
    struct model_profile *p = r->p;
    struct proto_span s = {r->data, r->data + r->size};
    while (s.p < s.end) {
        struct proto_field f;
        const uint8_t *at = s.p;
        if (!proto_next(&s, &f))
            return not_pprof(r, at, "no protobuf field");
        arena_spend(r->arena, 1 + (f.number == 4 ? (size_t)(s.p - at) / 16 : 0));
        if (f.number == 0 || f.number > 15) {
            p->is_weighed |= f.number == PPROF_SQUARES && f.value == 1;
            continue;
        }
        if (f.number == 9 && p->time_nanos != 0) {
            err_set(r->e, "concatenated profiles detected: split the file at byte %zu or earlier",
                    (size_t)(at - r->data));
            return PPROF_BAD;
        }
        if (field_wire[f.number] >= 0 && f.wire != field_wire[f.number])
            return not_pprof(r, at, "unexpected wire type");
        bool good = true;
        switch (f.number) {
        case 1:
            p->types = arena_push(r->arena, p->types, p->n_types, &r->cap_types, sizeof *p->types);
            good = pprof_read_value_type(f.span, &p->types[p->n_types++]);
            break;
        case 2:
            r->n_samples++;
            r->sample_bytes += (size_t)(f.span.end - f.span.p);
            break;
        case 3:
            good = pprof_read_mapping(r, f.span);
            break;
        case 4:
            pending->location_mappings =
                arena_push(r->arena, pending->location_mappings, p->n_locations,
                           &pending->cap_location_mappings, sizeof *pending->location_mappings);
            good = pprof_read_location(r, f.span, &pending->location_mappings[p->n_locations],
                                       &pending->line_functions, &pending->cap_line_functions);
            break;
        case 5:
            good = pprof_read_function(r, f.span);
            break;
        case 6:
            if (r->n_raw == 0 && f.span.p != f.span.end)
                return not_pprof(r, at, "string_table[0] must be ''");
            r->raw_strings =
                arena_push(r->arena, r->raw_strings, r->n_raw, &r->cap_raw, sizeof *r->raw_strings);
            r->raw_strings[r->n_raw++] =
                (struct str){(const char *)f.span.p, (size_t)(f.span.end - f.span.p)};
            break;
        case 7:
            p->drop_frames = raw_index(f.value);
            break;
        case 8:
            p->keep_frames = raw_index(f.value);
            break;
        case 9:
            p->time_nanos = (int64_t)f.value;
            break;
        case 10:
            p->duration_nanos = (int64_t)f.value;
            break;
        case 11:
            good = pprof_read_value_type(f.span, &p->period_type);
            break;
        case 12:
            p->period = (int64_t)f.value;
            break;
        case 13:
            good = pprof_read_comments(r, &f);
            break;
        case 14:
            p->default_type = raw_index(f.value);
            break;
        case 15:
            p->doc_url = raw_index(f.value);
            break;
        }
        if (!good)
            return not_pprof(r, at, "malformed submessage");
    }
    return PPROF_OK;
}

// Allocates tables of the typical size for such a message, so that they rarely have to grow.
static void pprof_reserve_tables(struct reader *r, struct pending *pending)
{
    struct model_profile *p = r->p;
    size_t n = r->size / 64 < GUESS_MOST ? r->size / 64 + 8 : GUESS_MOST;
    r->cap_locations = r->cap_functions = r->cap_raw = pending->cap_location_mappings = n;
    r->cap_lines = pending->cap_line_functions = n * 2;
    p->locations = arena_raw(r->arena, n, sizeof *p->locations);
    p->lines = arena_raw(r->arena, n * 2, sizeof *p->lines);
    p->functions = arena_raw(r->arena, n, sizeof *p->functions);
    r->raw_strings = arena_raw(r->arena, n, sizeof *r->raw_strings);
    pending->location_mappings = arena_raw(r->arena, n, sizeof *pending->location_mappings);
    pending->line_functions = arena_raw(r->arena, n * 2, sizeof *pending->line_functions);
}

static void intern_strings(struct reader *r)
{
    size_t total = 0;
    for (size_t i = 0; i < r->n_raw; i++)
        total += r->raw_strings[i].n;
    char *text = arena_raw(r->arena, total ? total : 1, 1);
    model_strings_expect(r->p->strings, r->n_raw);
    r->string_ids = arena_raw(r->arena, r->n_raw ? r->n_raw : 1, sizeof *r->string_ids);
    for (size_t i = 0; i < r->n_raw; i++) {
        struct str s = r->raw_strings[i];
        arena_spend(r->arena, 1 + s.n / 1024);
        if (s.n)
            memcpy(text, s.p, s.n);
        r->string_ids[i] = model_intern_borrowed(r->p->strings, (struct str){text, s.n});
        text += s.n;
    }
}

static bool resolve_string(const struct reader *r, uint32_t *index)
{
    // A profile without a string table fails here, because even an unset field has index 0.
    if (*index >= r->n_raw)
        return false;
    *index = r->string_ids[*index];
    return true;
}

static bool resolve_strings(const struct reader *r)
{
    struct model_profile *p = r->p;
    bool good = resolve_string(r, &p->drop_frames) && resolve_string(r, &p->keep_frames) &&
                resolve_string(r, &p->default_type) && resolve_string(r, &p->doc_url) &&
                resolve_string(r, &p->period_type.type) && resolve_string(r, &p->period_type.unit);
    for (uint32_t i = 0; good && i < p->n_types; i++)
        good = resolve_string(r, &p->types[i].type) && resolve_string(r, &p->types[i].unit);
    for (uint32_t i = 0; good && i < p->n_mappings; i++)
        good =
            resolve_string(r, &p->mappings[i].file) && resolve_string(r, &p->mappings[i].build_id);
    for (uint32_t i = 0; good && i < p->n_functions; i++)
        good = resolve_string(r, &p->functions[i].name) &&
               resolve_string(r, &p->functions[i].system_name) &&
               resolve_string(r, &p->functions[i].filename);
    for (uint32_t i = 0; good && i < p->n_comments; i++)
        good = resolve_string(r, &p->comments[i]);
    return good;
}

#define COLLECT_IDS(arena, items, n)                                      \
    ({                                                                    \
        uint64_t *ids_ = arena_raw((arena), (n) ? (n) : 1, sizeof *ids_); \
        for (uint32_t i_ = 0; i_ < (n); i_++)                             \
            ids_[i_] = (items)[i_].id;                                    \
        ids_;                                                             \
    })

static enum pprof_result resolve_ids(struct reader *r, const struct pending *pending)
{
    struct model_profile *p = r->p;
    struct id_index mappings =
        id_index_new(r->arena, COLLECT_IDS(r->arena, p->mappings, p->n_mappings), p->n_mappings);
    struct id_index functions =
        id_index_new(r->arena, COLLECT_IDS(r->arena, p->functions, p->n_functions), p->n_functions);
    for (uint32_t i = 0; i < p->n_locations; i++)
        if (pending->location_mappings[i])
            p->locations[i].mapping = id_index_find(&mappings, pending->location_mappings[i]);
    for (uint32_t i = 0; i < p->n_lines; i++) {
        arena_spend(r->arena, 1);
        uint64_t id = pending->line_functions[i];
        p->lines[i].function = id ? id_index_find(&functions, id) : MODEL_NONE;
        if (p->lines[i].function == MODEL_NONE) {
            err_set(r->e,
                    "malformed profile: a location has a line with function id %llu, which is "
                    "not in the profile",
                    (unsigned long long)id);
            return PPROF_BAD;
        }
    }
    return PPROF_OK;
}

// Most profiles have ids of two bytes each or one byte each. Decodes runs of those, four or eight
// at a time, into *to. Returns where it stopped.
static const uint8_t *read_short_ids(const uint8_t *p, const uint8_t *end, uint32_t **to)
{
    const uint64_t high_bits = 0x8080808080808080u, every_second = 0x0080008000800080u;
    uint32_t *at = *to;
    while (end - p >= 8) {
        uint64_t w;
        memcpy(&w, p, 8);
        if ((w & high_bits) == every_second) {
            uint64_t ids = (w & 0x007f007f007f007fu) | (w >> 1 & 0x3f803f803f803f80u);
            for (int i = 0; i < 4; i++)
                *at++ = (uint32_t)(ids >> 16 * i & 0xffff);
        } else if ((w & high_bits) == 0) {
            for (int i = 0; i < 8; i++)
                *at++ = p[i];
        } else {
            break;
        }
        p += 8;
    }
    *to = at;
    return p;
}

// Subtracts one from each id. Returns whether all results are below n. Collects sign bits instead
// of comparing, which every vector unit supports.
static bool counted_to_indices(uint32_t *frames, size_t n_frames, uint32_t n)
{
    uint32_t below = UINT32_MAX, any = 0;
    for (size_t i = 0; i < n_frames; i++) {
        uint32_t index = frames[i] - 1;
        frames[i] = index;
        below &= index - n;
        any |= index;
    }
    return n_frames == 0 || (below >> 31 && !(any >> 31));
}

static bool pprof_read_frames(struct reader *r, const struct id_index *locations,
                              struct proto_span s)
{
    uint32_t *first = r->frames, *to = first;
    const uint8_t *p = s.p;
    while (p < s.end) {
        p = read_short_ids(p, s.end, &to);
        if (p == s.end)
            break;
        struct proto_span rest = {p, s.end};
        uint64_t id;
        if (!proto_varint(&rest, &id))
            return false;
        p = rest.p;
        // Larger ids are looked up now; bit 31 marks them as resolved.
        if (id > INT32_MAX) {
            uint32_t index = id_index_find(locations, id);
            r->dangling |= index >= UINT32_C(1) << 31;
            *to++ = index | UINT32_C(1) << 31;
        } else {
            *to++ = (uint32_t)id;
        }
    }
    r->frames = to;
    bool dangling = false;
    if (locations->counted) {
        dangling = !counted_to_indices(first, (size_t)(to - first), r->p->n_locations);
    } else {
        for (uint32_t *frame = first; frame < to; frame++) {
            uint32_t index =
                *frame >> 31 ? *frame & ~(UINT32_C(1) << 31) : id_index_find(locations, *frame);
            dangling |= index == MODEL_NONE;
            *frame = index;
        }
    }
    r->dangling |= dangling;
    return true;
}

static bool pprof_read_label(struct reader *r, struct proto_span s)
{
    uint64_t v[5] = {0};
    if (!read_scalars(s, v, 5))
        return false;
    uint32_t key = raw_index(v[1]), str = raw_index(v[2]), unit = raw_index(v[4]);
    if (!resolve_string(r, &key))
        return false;
    struct model_label label = {.key = key};
    if (v[2]) {
        if (!resolve_string(r, &str))
            return false;
        label.str = str;
    } else if (v[3] || v[4]) {
        if (!resolve_string(r, &unit))
            return false;
        label.is_number = true;
        label.number = (int64_t)v[3];
        label.unit = unit;
    } else {
        return true;
    }
    r->labels = arena_push(r->arena, r->labels, r->n_labels, &r->cap_labels, sizeof *r->labels);
    r->labels[r->n_labels++] = label;
    return true;
}

static bool pprof_read_sample(struct reader *r, const struct id_index *locations,
                              struct proto_span s, size_t sample, uint32_t *n_values)
{
    struct model_profile *p = r->p;
    int64_t *values = p->values + sample * p->n_types;
    *n_values = 0;
    r->n_labels = 0;
    r->squares = 0;
    while (s.p < s.end) {
        struct proto_field f;
        if (!proto_next(&s, &f))
            return false;
        if (f.number == 1) {
            uint8_t encoded[10];
            if (f.wire == WIRE_VARINT) {
                size_t n = 0;
                for (; f.value >= 0x80; f.value >>= 7)
                    encoded[n++] = (uint8_t)(f.value | 0x80);
                encoded[n++] = (uint8_t)f.value;
                f.span = (struct proto_span){encoded, encoded + n};
            } else if (f.wire != WIRE_BYTES) {
                return false;
            }
            if (!pprof_read_frames(r, locations, f.span))
                return false;
        } else if (f.number == 2) {
            if (f.wire != WIRE_VARINT && f.wire != WIRE_BYTES)
                return false;
            do {
                if (f.wire == WIRE_BYTES) {
                    if (f.span.p == f.span.end)
                        break;
                    if (!proto_varint(&f.span, &f.value))
                        return false;
                }
                if (*n_values < p->n_types)
                    values[*n_values] = (int64_t)f.value;
                ++*n_values;
            } while (f.wire == WIRE_BYTES);
        } else if (f.number == 3) {
            if (f.wire != WIRE_BYTES || !pprof_read_label(r, f.span))
                return false;
        } else if (f.number == PPROF_SQUARES && f.wire == WIRE_VARINT) {
            r->squares = f.value;
        }
    }
    return true;
}

// Creates the column at the first sample with an event that weighs more than one period.
static void set_squares(struct reader *r, size_t sample)
{
    struct model_profile *p = r->p;
    if (!p->is_weighed || (!p->squares && !r->squares))
        return;
    if (!p->squares) {
        double *squares = arena_array(r->arena, r->n_samples, sizeof *squares);
        for (size_t i = 0; i < sample; i++)
            squares[i] = model_periods(p, i);
        p->squares = squares;
    }
    p->squares[sample] = r->squares ? (double)r->squares : model_periods(p, sample);
}

// Compares only with recently used sets. A full table would cost a cache miss per sample if labels
// have many values (request ids), and gains little otherwise.
static uint32_t recent_label_set(struct reader *r)
{
    model_sort_labels(r->p->strings, r->labels, r->n_labels);
    uint64_t hash = model_hash_labels(r->labels, r->n_labels);
    uint32_t *slot = &r->recent[hash >> 32 & (RECENT_SETS - 1)];
    const struct model_label_set *set = &r->p->label_sets[*slot];
    if (set->n == r->n_labels &&
        model_same_labels(r->p->labels + set->first, r->labels, r->n_labels))
        return *slot;
    return *slot = model_build_new_label_set(&r->b, r->labels, r->n_labels);
}

static void set_labels(struct reader *r, size_t sample)
{
    struct model_profile *p = r->p;
    if (!r->n_labels)
        return;
    if (!p->label_set) {
        p->label_set = arena_array(r->arena, r->n_samples, sizeof *p->label_set);
        r->recent = arena_array(r->arena, RECENT_SETS, sizeof *r->recent);
    }
    p->label_set[sample] = recent_label_set(r);
}

static enum pprof_result pprof_read_samples(struct reader *r, bool disposable)
{
    struct model_profile *p = r->p;
    struct id_index locations =
        id_index_new(r->arena, COLLECT_IDS(r->arena, p->locations, p->n_locations), p->n_locations);
    p->values =
        arena_raw(r->arena, r->n_samples * (p->n_types ? p->n_types : 1), sizeof *p->values);
    p->stacks = arena_raw(r->arena, r->n_samples, sizeof *p->stacks);
    p->stack_len = arena_raw(r->arena, r->n_samples, sizeof *p->stack_len);
    // Each frame takes at least one byte. Untouched pages take no memory.
    r->frames = arena_raw(r->arena, r->sample_bytes, sizeof *r->frames);

    struct proto_span s = {r->data, r->data + r->size};
    const uint8_t *released = s.p;
    while (s.p < s.end) {
        struct proto_field f;
        if (!proto_next(&s, &f))
            return pprof_bad(r, "cut short");
        if (f.number != 2)
            continue;
        size_t sample = p->n_samples;
        uint32_t *stack = r->frames;
        arena_spend(r->arena, 1 + (size_t)(f.span.end - f.span.p) / 8);
        uint32_t n_values;
        if (!pprof_read_sample(r, &locations, f.span, sample, &n_values)) {
            err_set(r->e, "malformed profile: sample %zu at byte %zu cannot be decoded", sample,
                    (size_t)(f.span.p - r->data));
            return PPROF_BAD;
        }
        if (n_values != p->n_types) {
            err_set(r->e,
                    p->n_types
                        ? "malformed profile: mismatch: sample %zu has %u values vs. %u types"
                        : "malformed profile: missing sample type information",
                    sample, n_values, p->n_types);
            return PPROF_BAD;
        }
        if (r->frames - stack >= MODEL_NONE)
            return pprof_bad(r, "a stack of more than 2^32 frames");
        p->stacks[sample] = stack;
        p->stack_len[sample] = (uint32_t)(r->frames - stack);
        p->n_samples++;
        set_labels(r, sample);
        set_squares(r, sample);
        if (disposable && s.p - released >= RELEASE_STEP) {
            size_t n = (size_t)(s.p - released) & ~(size_t)(RELEASE_STEP - 1);
            madvise((void *)released, n, MADV_DONTNEED);
            released += n;
        }
    }
    return r->dangling ? pprof_bad(r, "a sample refers to a location that is not in the profile")
                       : PPROF_OK;
}

enum pprof_result pprof_read(struct arena *arena, uint8_t *data, size_t n, bool disposable,
                             struct model_profile **profile, struct err *e)
{
    struct reader r = {.arena = arena, .e = e, .data = data, .size = n};
    struct arena_trap trap;
    if (ARENA_TRY(arena, trap)) {
        arena_caught(arena, e);
        return PPROF_BAD;
    }
    model_build(&r.b, arena);
    r.p = r.b.p;
    struct pending pending = {0};
    pprof_reserve_tables(&r, &pending);
    enum pprof_result result = pprof_read_tables(&r, &pending);
    if (result == PPROF_OK) {
        intern_strings(&r);
        if (!resolve_strings(&r)) {
            err_set(e, "malformed profile: a string index is outside the string table of %zu",
                    r.n_raw);
            result = PPROF_NOT;
        }
    }
    if (result == PPROF_OK)
        result = resolve_ids(&r, &pending);
    if (result == PPROF_OK)
        result = pprof_read_samples(&r, disposable && r.p->n_types > 0);
    if (result == PPROF_OK && model_check(r.p, e))
        result = PPROF_BAD;
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
