// Profiles written as stacks, and back: "main;outer+inner@file.c#12 3". Frames stand root
// first, separated by ';'; '+' leads to a call that is inlined into the one before; a file
// and a line may follow a name. Include after cmocka.h.
#pragma once

#include "base/out.h"
#include "codec/codec.h"
#include "model/builder.h"

static inline struct model_builder *stacks_new(struct arena *arena)
{
    struct model_builder *b = arena_alloc(arena, sizeof *b);
    model_build(b, arena);
    model_build_type(b, STR("samples"), STR("count"));
    return b;
}

static inline struct model_line stacks_line(struct model_builder *b, struct str text)
{
    int64_t line = 0;
    size_t hash = str_find(text, STR("#"), 0);
    if (hash != SIZE_MAX) {
        assert_true(str_to_i64(str_from_to(text, hash + 1, text.n), &line));
        text.n = hash;
    }
    uint32_t file = 0;
    size_t at = str_find(text, STR("@"), 0);
    if (at != SIZE_MAX) {
        file = model_build_string(b, str_from_to(text, at + 1, text.n));
        text.n = at;
    }
    uint32_t name = model_build_string(b, text);
    return (struct model_line){.line = line,
                               .function = model_build_function(b, name, name, file, 0)};
}

// The location of "outer+inner".
static inline uint32_t stacks_frame(struct model_builder *b, struct str text, uint32_t mapping,
                                    uint64_t address)
{
    struct model_line lines[16];
    uint32_t n = 0;
    for (size_t end = text.n; end != SIZE_MAX;) {
        size_t plus = end;
        while (plus > 0 && text.p[plus - 1] != '+')
            plus--;
        assert_true(n < 16);
        lines[n++] = stacks_line(b, str_from_to(text, plus, end));
        end = plus ? plus - 1 : SIZE_MAX;
    }
    return model_build_location(b, mapping, address, lines, n);
}

// Labels for the sample are built before.
static inline void stacks_add(struct model_builder *b, const char *text, const int64_t *values)
{
    uint32_t root_first[64], leaf_first[64], n = 0;
    struct str rest = str_from(text);
    while (rest.n) {
        size_t end = str_find(rest, STR(";"), 0);
        struct str frame = str_from_to(rest, 0, end == SIZE_MAX ? rest.n : end);
        assert_true(n < 64);
        root_first[n++] = stacks_frame(b, frame, MODEL_NONE, 0);
        rest = end == SIZE_MAX ? STR("") : str_from_to(rest, end + 1, rest.n);
    }
    for (uint32_t i = 0; i < n; i++)
        leaf_first[i] = root_first[n - 1 - i];
    model_build_sample(b, leaf_first, n, values);
}

static inline void stacks_add1(struct model_builder *b, const char *text, int64_t value)
{
    stacks_add(b, text, &value);
}

static inline void stacks_put_frame(struct out *out, const struct model_profile *p, uint32_t index)
{
    const struct model_location *l = &p->locations[index];
    if (l->n_lines == 0)
        out_printf(out, "0x%llx", (unsigned long long)l->address);
    for (uint32_t i = l->n_lines; i-- > 0;) {
        const struct model_line *line = &p->lines[l->first_line + i];
        const struct model_function *f = &p->functions[line->function];
        out_str(out, model_str(p, f->name));
        if (f->filename) {
            out_char(out, '@');
            out_str(out, model_str(p, f->filename));
        }
        if (line->line)
            out_printf(out, "#%lld", (long long)line->line);
        if (i)
            out_char(out, '+');
    }
}

// One line a sample: its stack, its values, and in braces its labels.
static inline char *stacks_text(const struct model_profile *p, struct arena *arena)
{
    struct out out;
    out_init_memory(&out, 16 << 20);
    for (size_t s = 0; s < p->n_samples; s++) {
        for (uint32_t i = p->stack_len[s]; i-- > 0;) {
            stacks_put_frame(&out, p, model_stack(p, s)[i]);
            if (i)
                out_char(&out, ';');
        }
        for (uint32_t t = 0; t < p->n_types; t++)
            out_printf(&out, " %lld", (long long)model_values(p, s)[t]);
        uint32_t n;
        const struct model_label *labels = model_labels(p, s, &n);
        for (uint32_t i = 0; i < n; i++) {
            out_text(&out, i ? ", " : " {");
            out_str(&out, model_str(p, labels[i].key));
            out_char(&out, '=');
            if (labels[i].is_number)
                out_i64(&out, labels[i].number);
            out_str(&out, model_str(p, labels[i].is_number ? labels[i].unit : labels[i].str));
        }
        out_text(&out, n ? "}\n" : "\n");
    }
    char *text = arena_copy(arena, out.p, out.n);
    out_fini(&out);
    return text;
}

// The whole profile as pprof bytes: what must not change, or must be equal.
static inline struct str stacks_bytes(const struct model_profile *p, struct arena *arena)
{
    struct out out;
    struct err e = {.message = ""};
    out_init_memory(&out, 64 << 20);
    if (codec_write_pprof(p, &out, &e) || out_finish(&out, &e))
        fail_msg("not written: %s", e.message);
    struct str bytes = {arena_copy(arena, out.p, out.n), out.n};
    out_fini(&out);
    return bytes;
}
