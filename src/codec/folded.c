#include <errno.h>
#include <stdlib.h>

#include "model/builder.h"
#include "codec/codec.h"
#include "codec/detect.h"
#include "codec/frame.h"
#include "codec/scan.h"

// Folded stacks: each line is `root;...;leaf value`.

// Accepts decimal numbers, optionally with a fraction and an exponent. Rejects hexadecimal, inf and
// nan.
static bool parse_value(struct str s, int64_t *value)
{
    if (str_to_i64(s, value))
        return true;
    for (size_t i = 0; i < s.n; i++)
        if (!scan_is_digit(s.p[i]) && !memchr("+-.eE", s.p[i], 5))
            return false;
    double number;
    return str_to_double(s, &number) && scan_round(number, value);
}

// Splits the line at its last blank. Returns false if the value or the stack is missing.
static bool split_line(struct str line, struct str *stack, int64_t *value)
{
    line = str_trim(line);
    size_t at = line.n;
    while (at > 0 && line.p[at - 1] != ' ' && line.p[at - 1] != '\t')
        at--;
    *stack = str_trim(str_from_to(line, 0, at));
    return stack->n && parse_value(str_from_to(line, at, line.n), value);
}

static bool is_skipped(struct str line)
{
    struct str trimmed = str_trim(line);
    return trimmed.n == 0 || trimmed.p[0] == '#';
}

static struct model_profile *folded_read_lines(struct arena *arena, struct scan_lines *lines,
                                               struct err *e)
{
    struct model_builder b;
    model_build(&b, arena);
    model_build_type(&b, STR("samples"), STR("count"));
    uint32_t *frames = NULL;
    size_t cap = 0;
    while (scan_next(lines)) {
        struct str stack;
        int64_t value;
        if (is_skipped(lines->line))
            continue;
        if (!split_line(lines->line, &stack, &value)) {
            err_set(e, "folded stacks: line %zu: expected `frame;frame value`, found `%s`",
                    lines->number, scan_quote(lines->line).text);
            return NULL;
        }
        size_t n = 0;
        // Scans from the end because samples store the leaf first. Blanks around a name are not
        // part of it; empty names are skipped.
        for (size_t end = stack.n;;) {
            const char *separator = memrchr(stack.p, ';', end);
            size_t from = separator ? (size_t)(separator - stack.p) + 1 : 0;
            struct str name = str_trim(str_from_to(stack, from, end));
            if (name.n) {
                frames = arena_push(arena, frames, n, &cap, sizeof *frames);
                frames[n++] = model_build_named_location(&b, name);
            }
            if (!separator)
                break;
            end = from - 1;
        }
        model_build_sample(&b, frames, n, &value);
    }
    return b.p;
}

struct model_profile *codec_read_folded(struct arena *arena, const uint8_t *data, size_t n,
                                        struct err *e)
{
    struct arena_trap trap;
    if (ARENA_TRY(arena, trap)) {
        arena_caught(arena, e);
        return NULL;
    }
    struct scan_lines lines = {.rest = n ? (struct str){(const char *)data, n} : STR("")};
    struct model_profile *p = folded_read_lines(arena, &lines, e);
    arena_try_end(arena);
    return p;
}

bool codec_looks_like_folded(struct str head)
{
    enum { LINES = 16 };
    struct scan_lines lines = {.rest = head.n ? head : STR("")};
    int seen = 0;
    bool has_stack = false, are_words = true;
    while (seen < LINES && scan_next(&lines)) {
        // Ignore a last line that may have been cut off, unless it is the only line.
        if (lines.rest.n == 0 && seen > 0 && head.p[head.n - 1] != '\n')
            break;
        struct str line = lines.line, stack;
        if (is_skipped(line))
            continue;
        int64_t value;
        if (!split_line(line, &stack, &value))
            return false;
        for (size_t i = 0; i < stack.n; i++) {
            unsigned char c = (unsigned char)stack.p[i];
            if ((c < 0x20 && c != '\t') || c == 0x7f)
                return false;
            has_stack = has_stack || c == ';';
            are_words = are_words && c != ' ' && c != '\t';
        }
        seen++;
    }
    // Prose can end its lines with numbers too. But it contains no `;`, and its lines have more
    // than one word.
    return seen > 0 && (has_stack || are_words);
}

// A distinct stack: frame names from the root to the leaf.
struct stack {
    uint32_t *names;
    uint32_t n;
    int64_t value;
};

struct writer {
    struct arena *arena;
    const struct model_profile *p;
    struct frame_table frames;
    struct stack *stacks;
    size_t n_stacks, cap_stacks;
    struct hash_table index;
    uint32_t *names; // names of the current stack
    size_t cap_names;
};

static size_t collect_frame_names(struct writer *w, size_t sample)
{
    const struct model_profile *p = w->p;
    size_t n = 0;
    for (uint32_t i = p->stack_len[sample]; i-- > 0;) {
        uint32_t location = model_stack(p, sample)[i];
        for (uint32_t k = w->frames.first[location]; k < w->frames.first[location + 1]; k++) {
            w->names = arena_push(w->arena, w->names, n, &w->cap_names, sizeof *w->names);
            w->names[n++] = w->frames.ids[k];
        }
    }
    if (n >= MODEL_NONE)
        arena_fail(w->arena, "a stack of more than 2^32 frames");
    return n;
}

static void folded_add_value(struct writer *w, size_t n, int64_t value)
{
    uint64_t hash = hash_bytes(w->names, n * sizeof *w->names, 0);
    for (struct hash_probe at = hash_find(&w->index, hash); hash_hit(&w->index, &at);
         hash_next(&w->index, &at)) {
        struct stack *s = &w->stacks[at.item];
        if (s->n == n && (n == 0 || memcmp(s->names, w->names, n * sizeof *w->names) == 0)) {
            s->value = scan_add(s->value, value);
            return;
        }
    }
    if (w->n_stacks >= MODEL_NONE)
        arena_fail(w->arena, "more than 2^32 distinct stacks");
    w->stacks = arena_push(w->arena, w->stacks, w->n_stacks, &w->cap_stacks, sizeof *w->stacks);
    uint32_t *names = arena_array(w->arena, n, sizeof *names);
    if (n)
        memcpy(names, w->names, n * sizeof *names);
    w->stacks[w->n_stacks] = (struct stack){names, (uint32_t)n, value};
    hash_add(&w->index, w->arena, hash, (uint32_t)w->n_stacks++);
}

// Orders stacks like their joined texts, without joining them. Names contain no `;`, so the first
// different names decide. The shorter name is followed by `;` or by the end of the text.
static int folded_compare_stacks(const void *va, const void *vb, void *context)
{
    const struct stack *a = va, *b = vb;
    const struct model_strings *names = context;
    uint32_t i = 0, n = a->n < b->n ? a->n : b->n;
    while (i < n && a->names[i] == b->names[i])
        i++;
    if (i == n)
        return (a->n > b->n) - (a->n < b->n);
    struct str x = names->items[a->names[i]], y = names->items[b->names[i]];
    size_t common = x.n < y.n ? x.n : y.n;
    int c = common ? memcmp(x.p, y.p, common) : 0;
    if (c)
        return c;
    // The names differ, so one is a prefix of the other and shorter.
    if (x.n < y.n)
        return i + 1 == a->n || ';' < (unsigned char)y.p[common] ? -1 : 1;
    return i + 1 == b->n || ';' < (unsigned char)x.p[common] ? 1 : -1;
}

static void folded_write_stacks(struct writer *w, uint32_t type, struct out *out)
{
    const struct model_profile *p = w->p;
    hash_init(&w->index, w->arena, 256);
    frame_table_init(&w->frames, w->arena, p);
    for (size_t i = 0; i < p->n_samples; i++)
        if (model_values(p, i)[type])
            folded_add_value(w, collect_frame_names(w, i), model_values(p, i)[type]);
    const struct model_strings *names = w->frames.names;
    if (w->n_stacks)
        qsort_r(w->stacks, w->n_stacks, sizeof *w->stacks, folded_compare_stacks, (void *)names);
    for (size_t i = 0; i < w->n_stacks; i++) {
        const struct stack *s = &w->stacks[i];
        if (s->value == 0)
            continue;
        for (uint32_t k = 0; k < s->n; k++) {
            if (k)
                out_char(out, ';');
            out_str(out, names->items[s->names[k]]);
        }
        // A line without a stack would be invalid.
        if (s->n == 0)
            out_text(out, "[empty]");
        out_char(out, ' ');
        out_i64(out, s->value);
        out_char(out, '\n');
    }
}

void codec_write_folded(const struct model_profile *p, uint32_t type, struct out *out)
{
    struct arena *arena = arena_new(0);
    struct arena_trap trap;
    if (!arena || ARENA_TRY(arena, trap)) {
        out->error = out->error ? out->error : ENOMEM;
        arena_free(arena);
        return;
    }
    struct writer w = {.arena = arena, .p = p};
    folded_write_stacks(&w, type, out);
    arena_try_end(arena);
    arena_free(arena);
}
