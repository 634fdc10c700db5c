// A profile as text, in the manner of `pprof -raw`, for tests that compare all of it.
#pragma once

#include <stdlib.h>

#include "base/out.h"
#include "codec/codec.h"

static inline void raw_location(struct out *out, const struct model_profile *p, uint32_t index)
{
    const struct model_location *l = &p->locations[index];
    out_printf(out, "%llu: 0x%llx", (unsigned long long)l->id, (unsigned long long)l->address);
    if (l->mapping != MODEL_NONE)
        out_printf(out, " M=%llu", (unsigned long long)p->mappings[l->mapping].id);
    for (uint32_t i = 0; i < l->n_lines; i++) {
        const struct model_line *line = &p->lines[l->first_line + i];
        const struct model_function *f = &p->functions[line->function];
        out_text(out, i ? " < " : " ");
        out_str(out, model_str(p, f->name));
        out_char(out, ' ');
        out_str(out, model_str(p, f->filename));
        out_printf(out, ":%lld:%lld", (long long)line->line, (long long)line->column);
    }
    out_char(out, '\n');
}

static inline void raw_sample(struct out *out, const struct model_profile *p, size_t sample)
{
    for (uint32_t i = 0; i < p->n_types; i++)
        out_printf(out, "%s%lld", i ? " " : "", (long long)model_values(p, sample)[i]);
    out_char(out, ':');
    for (uint32_t i = 0; i < p->stack_len[sample]; i++)
        out_printf(out, " %llu", (unsigned long long)p->locations[model_stack(p, sample)[i]].id);
    uint32_t n;
    const struct model_label *labels = model_labels(p, sample, &n);
    for (uint32_t i = 0; i < n; i++) {
        out_text(out, i ? ", " : " | ");
        out_str(out, model_str(p, labels[i].key));
        out_char(out, '=');
        if (labels[i].is_number)
            out_i64(out, labels[i].number);
        else
            out_str(out, model_str(p, labels[i].str));
    }
    out_char(out, '\n');
}

// The caller frees it.
static inline char *raw(const struct model_profile *p)
{
    struct out out;
    out_init_memory(&out, 64 << 20);
    out_str(&out, model_str(p, p->period_type.type));
    out_char(&out, '/');
    out_str(&out, model_str(p, p->period_type.unit));
    out_printf(&out, " %lld, %lld ns\n", (long long)p->period, (long long)p->duration_nanos);
    for (uint32_t i = 0; i < p->n_types; i++) {
        out_text(&out, i ? " " : "");
        out_str(&out, model_str(p, p->types[i].type));
        out_char(&out, '/');
        out_str(&out, model_str(p, p->types[i].unit));
    }
    out_char(&out, '\n');
    for (size_t i = 0; i < p->n_samples; i++)
        raw_sample(&out, p, i);
    out_text(&out, "Locations\n");
    for (uint32_t i = 0; i < p->n_locations; i++)
        raw_location(&out, p, i);
    out_text(&out, "Mappings\n");
    for (uint32_t i = 0; i < p->n_mappings; i++) {
        const struct model_mapping *m = &p->mappings[i];
        out_printf(&out, "%llu: 0x%llx/0x%llx/0x%llx ", (unsigned long long)m->id,
                   (unsigned long long)m->start, (unsigned long long)m->limit,
                   (unsigned long long)m->offset);
        out_str(&out, model_str(p, m->file));
        out_char(&out, ' ');
        out_str(&out, model_str(p, m->build_id));
        out_char(&out, '\n');
    }
    out_char(&out, '\0');
    return out.p;
}

typedef struct model_profile *raw_reader(struct arena *, const uint8_t *, size_t, struct err *);

// Reads data, which is copied so that a sanitizer sees every byte read past its end, and
// compares. Profiles keep no pointer into their input: it is freed before that.
static inline void raw_compare(raw_reader *read, const void *data, size_t n, const char *expected)
{
    struct arena *arena = arena_new(0);
    struct err e = {.message = ""};
    uint8_t *copy = malloc(n ? n : 1);
    assert_non_null(copy);
    memcpy(copy, data, n);
    struct model_profile *p = read(arena, copy, n, &e);
    free(copy);
    if (!p)
        fail_msg("not read: %s", e.message);
    assert_int_equal(model_check(p, &e), 0);
    char *text = raw(p);
    assert_string_equal(text, expected);
    free(text);
    arena_free(arena);
}

// Data must be refused with a sentence that has part in it.
static inline void raw_refused(raw_reader *read, const void *data, size_t n, const char *part)
{
    struct arena *arena = arena_new(0);
    struct err e = {.message = ""};
    uint8_t *copy = malloc(n ? n : 1);
    assert_non_null(copy);
    memcpy(copy, data, n);
    assert_null(read(arena, copy, n, &e));
    free(copy);
    if (!strstr(e.message, part))
        fail_msg("expected `%s` in `%s`", part, e.message);
    arena_free(arena);
}

// Every allocation limit up to enough memory: reading either fails with a sentence or works.
static inline void raw_with_little_memory(raw_reader *read, const void *data, size_t n)
{
    bool has_failed = false, has_worked = false;
    for (size_t limit = 4096; limit <= (size_t)4 << 20; limit += limit / 2) {
        struct arena *arena = arena_new(limit);
        struct err e = {.message = ""};
        bool worked = read(arena, data, n, &e) != NULL;
        assert_true(worked || e.message[0]);
        has_failed = has_failed || !worked;
        has_worked = has_worked || worked;
        arena_free(arena);
    }
    assert_true(has_failed && has_worked);
}

#define RAW_COMPARE(read, literal, expected) \
    raw_compare(read, literal, sizeof(literal) - 1, expected)
#define RAW_REFUSED(read, literal, part) raw_refused(read, literal, sizeof(literal) - 1, part)
