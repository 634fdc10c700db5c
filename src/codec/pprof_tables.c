// The first pass over a pprof message: everything except samples.
#include "codec/pprof_tables.h"

#include <sys/mman.h>

enum { GUESS_MOST = 2048, DROP_STEP = 8 << 20 };

static enum pprof_result not_pprof(struct pprof_reader *r, const uint8_t *at, const char *what)
{
    err_set(r->e, "not a pprof profile: %s at byte %zu", what, (size_t)(at - r->data));
    return PPROF_NOT;
}

enum pprof_result pprof_bad(struct pprof_reader *r, const char *what)
{
    err_set(r->e, "malformed profile: %s", what);
    return PPROF_BAD;
}

enum pprof_result pprof_bad_sample(struct pprof_reader *r, size_t sample, size_t byte)
{
    err_set(r->e, "malformed profile: sample %zu at byte %zu cannot be decoded", sample, byte);
    return PPROF_BAD;
}

enum pprof_result pprof_bad_values(struct pprof_reader *r, size_t sample, uint32_t n_values)
{
    err_set(r->e,
            r->p->n_types ? "malformed profile: mismatch: sample %zu has %u values vs. %u types"
                          : "malformed profile: missing sample type information",
            sample, n_values, r->p->n_types);
    return PPROF_BAD;
}

enum pprof_result pprof_bad_location(struct pprof_reader *r)
{
    return pprof_bad(r, "a sample refers to a location that is not in the profile");
}

static bool pprof_read_value_type(struct proto_span s, struct model_value_type *type)
{
    uint64_t v[3] = {0};
    if (!pprof_read_scalars(s, v, 3))
        return false;
    *type = (struct model_value_type){pprof_raw_index(v[1]), pprof_raw_index(v[2])};
    return true;
}

static bool pprof_read_mapping(struct pprof_reader *r, struct proto_span s)
{
    uint64_t v[11] = {0};
    if (!pprof_read_scalars(s, v, 11))
        return false;
    struct model_profile *p = r->p;
    p->mappings =
        arena_push(r->arena, p->mappings, p->n_mappings, &r->cap_mappings, sizeof *p->mappings);
    p->mappings[p->n_mappings++] = (struct model_mapping){
        .id = v[1],
        .start = v[2],
        .limit = v[3],
        .offset = v[4],
        .file = pprof_raw_index(v[5]),
        .build_id = pprof_raw_index(v[6]),
        .has_functions = v[7] != 0,
        .has_filenames = v[8] != 0,
        .has_line_numbers = v[9] != 0,
        .has_inline_frames = v[10] != 0,
    };
    return true;
}

static bool pprof_read_function(struct pprof_reader *r, struct proto_span s)
{
    uint64_t v[6] = {0};
    if (!pprof_read_scalars(s, v, 6))
        return false;
    struct model_profile *p = r->p;
    p->functions =
        arena_push(r->arena, p->functions, p->n_functions, &r->cap_functions, sizeof *p->functions);
    p->functions[p->n_functions++] = (struct model_function){
        .id = v[1],
        .name = pprof_raw_index(v[2]),
        .system_name = pprof_raw_index(v[3]),
        .filename = pprof_raw_index(v[4]),
        .start_line = (int64_t)v[5],
    };
    return true;
}

static bool pprof_read_location(struct pprof_reader *r, struct proto_span s, uint64_t *mapping_id,
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
            if (!pprof_read_scalars(f.span, v, 4))
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

static bool pprof_read_comments(struct pprof_reader *r, const struct proto_field *f)
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
        p->comments[p->n_comments++] = pprof_raw_index(v);
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

// Starts a range at the sample at this offset, if the last one is large enough.
static void note_range(struct pprof_reader *r, size_t at)
{
    if (r->n_ranges && at - r->ranges[r->n_ranges - 1].at < r->range_bytes)
        return;
    r->ranges = arena_push(r->arena, r->ranges, r->n_ranges, &r->cap_ranges, sizeof *r->ranges);
    r->ranges[r->n_ranges++] = (struct pprof_range){at, r->n_samples};
}

static enum pprof_result pprof_read_tables(struct pprof_reader *r, struct pending *pending)
{
    struct model_profile *p = r->p;
    struct proto_span s = {r->data, r->data + r->size};
    uint8_t *kept = r->data; // the first page that was not dropped
    while (s.p < s.end) {
        struct proto_field f;
        const uint8_t *at = s.p;
        if (r->drops_pages && at - kept >= DROP_STEP) {
            madvise(kept, DROP_STEP, MADV_DONTNEED);
            kept += DROP_STEP;
        }
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
            if (r->range_bytes)
                note_range(r, (size_t)(at - r->data));
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
            p->drop_frames = pprof_raw_index(f.value);
            break;
        case 8:
            p->keep_frames = pprof_raw_index(f.value);
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
            p->default_type = pprof_raw_index(f.value);
            break;
        case 15:
            p->doc_url = pprof_raw_index(f.value);
            break;
        }
        if (!good)
            return not_pprof(r, at, "malformed submessage");
    }
    return PPROF_OK;
}

// Allocates tables of the typical size for such a message, so that they rarely have to grow.
static void pprof_reserve_tables(struct pprof_reader *r, struct pending *pending)
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

static void intern_strings(struct pprof_reader *r)
{
    size_t total = 0;
    for (size_t i = 0; i < r->n_raw; i++)
        total += r->raw_strings[i].n;
    char *text = arena_raw(r->arena, total ? total : 1, 1);
    model_strings_expect(r->p->strings, r->n_raw);
    uint32_t *ids = arena_raw(r->arena, r->n_raw ? r->n_raw : 1, sizeof *ids);
    for (size_t i = 0; i < r->n_raw; i++) {
        struct str s = r->raw_strings[i];
        arena_spend(r->arena, 1 + s.n / 1024);
        if (s.n)
            memcpy(text, s.p, s.n);
        ids[i] = model_intern_borrowed(r->p->strings, (struct str){text, s.n});
        text += s.n;
    }
    r->tables.string_ids = ids;
    r->tables.n_strings = r->n_raw;
}

static bool resolve_strings(const struct pprof_reader *r)
{
    const struct pprof_tables *t = &r->tables;
    struct model_profile *p = r->p;
    bool good = pprof_resolve_string(t, &p->drop_frames) &&
                pprof_resolve_string(t, &p->keep_frames) &&
                pprof_resolve_string(t, &p->default_type) && pprof_resolve_string(t, &p->doc_url) &&
                pprof_resolve_string(t, &p->period_type.type) &&
                pprof_resolve_string(t, &p->period_type.unit);
    for (uint32_t i = 0; good && i < p->n_types; i++)
        good = pprof_resolve_string(t, &p->types[i].type) &&
               pprof_resolve_string(t, &p->types[i].unit);
    for (uint32_t i = 0; good && i < p->n_mappings; i++)
        good = pprof_resolve_string(t, &p->mappings[i].file) &&
               pprof_resolve_string(t, &p->mappings[i].build_id);
    for (uint32_t i = 0; good && i < p->n_functions; i++)
        good = pprof_resolve_string(t, &p->functions[i].name) &&
               pprof_resolve_string(t, &p->functions[i].system_name) &&
               pprof_resolve_string(t, &p->functions[i].filename);
    for (uint32_t i = 0; good && i < p->n_comments; i++)
        good = pprof_resolve_string(t, &p->comments[i]);
    return good;
}

#define COLLECT_IDS(arena, items, n)                                      \
    ({                                                                    \
        uint64_t *ids_ = arena_raw((arena), (n) ? (n) : 1, sizeof *ids_); \
        for (uint32_t i_ = 0; i_ < (n); i_++)                             \
            ids_[i_] = (items)[i_].id;                                    \
        ids_;                                                             \
    })

static enum pprof_result resolve_ids(struct pprof_reader *r, const struct pending *pending)
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

enum pprof_result pprof_read_all_tables(struct pprof_reader *r)
{
    struct arena *arena = r->arena;
    model_build(&r->b, arena);
    r->p = r->b.p;
    r->tables.p = r->p;
    struct pending pending = {0};
    pprof_reserve_tables(r, &pending);
    enum pprof_result result = pprof_read_tables(r, &pending);
    if (result != PPROF_OK)
        return result;
    intern_strings(r);
    if (!resolve_strings(r)) {
        err_set(r->e, "malformed profile: a string index is outside the string table of %zu",
                r->n_raw);
        return PPROF_NOT;
    }
    result = resolve_ids(r, &pending);
    if (result == PPROF_OK)
        r->tables.locations = id_index_new(
            arena, COLLECT_IDS(arena, r->p->locations, r->p->n_locations), r->p->n_locations);
    return result;
}
