// top with all sample types side by side.
#include "cli/present.h"

#include <stdlib.h>

#include "base/hash.h"
#include "model/units.h"

struct column {
    struct report report;
    struct report_rows rows;
};

struct table {
    struct column *columns;
    uint32_t n_columns, sorted_by;
    struct str *names;
    int64_t *flat, *cum; // n_columns per name
    size_t n;
    struct hash_table index;
};

// The row of a name; nodes that print the same share one.
static size_t find_or_add_type_row(struct table *t, struct str name, bool may_add,
                                   struct arena *arena)
{
    uint64_t hash = hash_bytes(name.p, name.n, 0);
    for (struct hash_probe at = hash_find(&t->index, hash); hash_hit(&t->index, &at);
         hash_next(&t->index, &at))
        if (str_eq(t->names[at.item], name))
            return at.item;
    if (!may_add)
        return SIZE_MAX;
    t->names[t->n] = name;
    hash_add(&t->index, arena, hash, (uint32_t)t->n);
    return t->n++;
}

static int prepare_columns(struct table *t, const struct model_profile *p,
                           const struct config *config, struct arena *arena,
                           const struct terminal *terminal, struct err *e)
{
    int type = model_type_index(p, str_from(config->sample_index), e);
    if (type < 0)
        return -1;
    t->n_columns = p->n_types;
    t->sorted_by = (uint32_t)type;
    t->columns = arena_array(arena, p->n_types, sizeof *t->columns);
    for (uint32_t i = 0; i < p->n_types; i++) {
        struct column *column = &t->columns[i];
        struct config c = *config;
        c.sample_index = arena_printf(arena, "%u", i);
        c.compact_labels = true;
        if (i != t->sorted_by)
            c.trim = false;
        // The filters are reported once.
        if (view_prepare(&column->report, p, view_command_find("top"), NULL, &c, arena, NULL, e))
            return -1;
        if (i == t->sorted_by && config->node_count < 0 && config->trim)
            column->report.o.node_count =
                present_rows_that_fit(terminal, column->report.o.n_filters);
        if (report_text_rows(&column->report, &column->rows, e))
            return -1;
    }
    return 0;
}

static void fill_type_table(struct table *t, struct arena *arena)
{
    const struct report_rows *main = &t->columns[t->sorted_by].rows;
    t->names = arena_array(arena, main->n + 1, sizeof *t->names);
    t->flat = arena_array(arena, (main->n + 1) * t->n_columns, sizeof *t->flat);
    t->cum = arena_array(arena, (main->n + 1) * t->n_columns, sizeof *t->cum);
    hash_init(&t->index, arena, main->n);
    for (size_t i = 0; i < main->n; i++)
        find_or_add_type_row(t, main->rows[i].name, true, arena);
    for (uint32_t c = 0; c < t->n_columns; c++) {
        const struct report_rows *rows = &t->columns[c].rows;
        for (size_t i = 0; i < rows->n; i++) {
            size_t row = find_or_add_type_row(t, rows->rows[i].name, false, arena);
            if (row == SIZE_MAX)
                continue;
            int64_t *flat = &t->flat[row * t->n_columns + c],
                    *cum = &t->cum[row * t->n_columns + c];
            *flat = units_add(*flat, rows->rows[i].flat);
            *cum = units_add(*cum, rows->rows[i].cum);
        }
    }
}

static size_t max_width(size_t a, size_t b)
{
    return a > b ? a : b;
}

static void put_heads(const struct table *t, const struct terminal *terminal, struct out *out,
                      bool flat, bool cum, size_t *widths)
{
    size_t pair = (flat && cum) ? 22 : 11;
    for (uint32_t c = 0; c < t->n_columns; c++) {
        struct str name = t->columns[c].report.o.type_name;
        widths[c] = max_width(pair, terminal_width(name) + 2);
        terminal_put_right(terminal, out, name, STYLE_BOLD, widths[c]);
    }
    out_char(out, '\n');
    for (uint32_t c = 0; c < t->n_columns; c++) {
        if (flat)
            out_right(out, STR("flat"), widths[c] - (cum ? 11 : 0));
        if (cum)
            out_right(out, STR("cum"), flat ? 11 : widths[c]);
    }
    out_char(out, '\n');
}

static void put_type_cell(const struct column *column, const struct terminal *terminal,
                          struct out *out, int64_t value, size_t width)
{
    char text[256];
    size_t n = report_format_value(&column->report, value, text, sizeof text);
    terminal_put_right(terminal, out, (struct str){text, n},
                       present_heat(value, column->report.total), width);
}

static void put_type_table(const struct table *t, const struct terminal *terminal,
                           struct arena *arena, struct out *out)
{
    const struct report *sorted = &t->columns[t->sorted_by].report;
    // Flat and cum if there is room, otherwise the one that sorts.
    bool both = terminal->columns == 0 || terminal->columns >= 22 * t->n_columns + 30;
    bool flat = both || !sorted->o.cum_sort, cum = both || sorted->o.cum_sort;
    size_t *widths = arena_array(arena, t->n_columns, sizeof *widths), used = 2;
    put_heads(t, terminal, out, flat, cum, widths);
    for (uint32_t c = 0; c < t->n_columns; c++)
        used += widths[c];
    size_t room = 0;
    if (terminal->columns)
        room = terminal->columns > used + 12 ? terminal->columns - used : 12;
    for (size_t i = 0; i < t->n; i++) {
        for (uint32_t c = 0; c < t->n_columns; c++) {
            if (flat)
                put_type_cell(&t->columns[c], terminal, out, t->flat[i * t->n_columns + c],
                              widths[c] - (cum ? 11 : 0));
            if (cum)
                put_type_cell(&t->columns[c], terminal, out, t->cum[i * t->n_columns + c],
                              flat ? 11 : widths[c]);
        }
        out_text(out, "  ");
        terminal_put(terminal, out, t->names[i], STYLE_NONE, room);
        out_char(out, '\n');
    }
}

int present_all_types(const struct model_profile *p, const struct config *config,
                      struct arena *arena, const struct terminal *terminal, struct out *out,
                      struct err *e)
{
    struct table t = {0};
    if (prepare_columns(&t, p, config, arena, terminal, e))
        return -1;
    struct arena_trap trap;
    if (ARENA_TRY(arena, trap))
        return arena_caught(arena, e);
    fill_type_table(&t, arena);
    const struct column *sorted = &t.columns[t.sorted_by];
    if (terminal->pretty)
        present_title(&sorted->report, terminal, out);
    struct str header = sorted->rows.header, line;
    while (str_next_line(&header, &line)) {
        terminal_put(terminal, out, line, STYLE_DIM, terminal->columns);
        out_char(out, '\n');
    }
    put_type_table(&t, terminal, arena, out);
    arena_try_end(arena);
    return 0;
}
