#include <errno.h>
#include <stdlib.h>

#include "codec/codec.h"
#include "codec/frame.h"

// CSV by RFC 4180: fields are quoted if necessary, quotes are doubled, lines end with CRLF.
static bool needs_quotes(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] == ',' || s.p[i] == '"' || s.p[i] == '\r' || s.p[i] == '\n')
            return true;
    // Many readers strip blanks at the ends of unquoted fields.
    return s.n && (s.p[0] == ' ' || s.p[s.n - 1] == ' ');
}

static void write_quoted_part(struct out *out, struct str s)
{
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] == '"')
            out_char(out, '"');
        out_char(out, s.p[i]);
    }
}

static void csv_write_field(struct out *out, struct str s)
{
    if (!needs_quotes(s)) {
        out_str(out, s);
        return;
    }
    out_char(out, '"');
    write_quoted_part(out, s);
    out_char(out, '"');
}

// One column per label key; a key with both string and numeric labels has two columns.
struct column {
    uint32_t key;
    bool is_number;
};

struct columns {
    const struct model_profile *p;
    struct column *items;
    uint32_t n;
};

static int compare_columns(const void *va, const void *vb, void *context)
{
    const struct column *a = va, *b = vb;
    const struct model_profile *p = context;
    if (a->is_number != b->is_number)
        return a->is_number ? 1 : -1;
    return str_cmp(model_str(p, a->key), model_str(p, b->key));
}

static void collect_columns(struct columns *c, struct arena *arena)
{
    const struct model_profile *p = c->p;
    uint8_t *seen = arena_array(arena, p->strings->n, sizeof *seen);
    size_t cap = 0;
    if (!p->label_set)
        return;
    for (size_t i = 0; i < p->n_samples; i++) {
        uint32_t n;
        const struct model_label *labels = model_labels(p, i, &n);
        for (uint32_t k = 0; k < n; k++) {
            uint8_t bit = labels[k].is_number ? 2 : 1;
            if (seen[labels[k].key] & bit)
                continue;
            seen[labels[k].key] |= bit;
            c->items = arena_push(arena, c->items, c->n, &cap, sizeof *c->items);
            c->items[c->n++] = (struct column){labels[k].key, labels[k].is_number};
        }
    }
    if (c->n)
        qsort_r(c->items, c->n, sizeof *c->items, compare_columns, (void *)p);
}

static void csv_write_heading(const struct columns *c, struct out *out)
{
    const struct model_profile *p = c->p;
    for (uint32_t i = 0; i < p->n_types; i++) {
        struct str type = model_str(p, p->types[i].type), unit = model_str(p, p->types[i].unit);
        bool is_quoted = needs_quotes(type) || needs_quotes(unit);
        if (is_quoted)
            out_char(out, '"');
        write_quoted_part(out, type);
        out_char(out, '/');
        write_quoted_part(out, unit);
        out_text(out, is_quoted ? "\"," : ",");
    }
    for (uint32_t i = 0; i < c->n; i++) {
        csv_write_field(out, model_str(p, c->items[i].key));
        out_char(out, ',');
    }
    out_text(out, "stack\r\n");
}

// Several values of one key are joined by `;`. The columns and the labels of a sample have the same
// order, so one pass finds all of them.
static void csv_write_labels(const struct columns *c, size_t sample, struct out *out)
{
    const struct model_profile *p = c->p;
    uint32_t n, at = 0;
    const struct model_label *labels = model_labels(p, sample, &n);
    for (uint32_t i = 0; i < c->n; i++) {
        uint32_t from = at;
        bool is_quoted = false;
        while (at < n && labels[at].key == c->items[i].key &&
               labels[at].is_number == c->items[i].is_number) {
            is_quoted =
                is_quoted || (!labels[at].is_number && needs_quotes(model_str(p, labels[at].str)));
            at++;
        }
        if (is_quoted)
            out_char(out, '"');
        for (uint32_t k = from; k < at; k++) {
            if (k > from)
                out_char(out, ';');
            if (labels[k].is_number)
                out_i64(out, labels[k].number);
            else
                write_quoted_part(out, model_str(p, labels[k].str));
        }
        out_text(out, is_quoted ? "\"," : ",");
    }
}

static void csv_write_stack(const struct model_profile *p, const struct frame_table *frames,
                            const bool *is_quoted_location, size_t sample, struct out *out)
{
    const uint32_t *stack = model_stack(p, sample);
    bool is_quoted = false;
    for (uint32_t i = 0; i < p->stack_len[sample] && !is_quoted; i++)
        is_quoted = is_quoted_location[stack[i]];
    if (is_quoted)
        out_char(out, '"');
    for (uint32_t i = p->stack_len[sample], first = 1; i-- > 0;) {
        for (uint32_t k = frames->first[stack[i]]; k < frames->first[stack[i] + 1]; k++) {
            if (!first)
                out_char(out, ';');
            first = 0;
            write_quoted_part(out, frames->names->items[frames->ids[k]]);
        }
    }
    out_text(out, is_quoted ? "\"\r\n" : "\r\n");
}

static void csv_write_rows(const struct model_profile *p, struct arena *arena, struct out *out)
{
    struct columns columns = {.p = p};
    collect_columns(&columns, arena);
    struct frame_table frames;
    frame_table_init(&frames, arena, p);
    bool *is_quoted = arena_array(arena, p->n_locations, sizeof *is_quoted);
    for (uint32_t i = 0; i < p->n_locations; i++)
        for (uint32_t k = frames.first[i]; k < frames.first[i + 1]; k++)
            is_quoted[i] = is_quoted[i] || needs_quotes(frames.names->items[frames.ids[k]]);
    csv_write_heading(&columns, out);
    for (size_t i = 0; i < p->n_samples; i++) {
        for (uint32_t k = 0; k < p->n_types; k++) {
            out_i64(out, model_values(p, i)[k]);
            out_char(out, ',');
        }
        csv_write_labels(&columns, i, out);
        csv_write_stack(p, &frames, is_quoted, i, out);
    }
}

void codec_write_csv(const struct model_profile *p, struct out *out)
{
    struct arena *arena = arena_new(0);
    struct arena_trap trap;
    if (!arena || ARENA_TRY(arena, trap)) {
        out->error = out->error ? out->error : ENOMEM;
        arena_free(arena);
        return;
    }
    csv_write_rows(p, arena, out);
    arena_try_end(arena);
    arena_free(arena);
}
