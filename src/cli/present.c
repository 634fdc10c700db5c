#include "cli/present.h"

#include <stdio.h>
#include <time.h>

#include "model/units.h"
#include "report/graph.h"

// Writes one part of a title, unless it does not fit.
static void put_title_part(const struct terminal *t, struct out *out, struct str text, size_t *used)
{
    size_t separator = *used ? 3 : 0, room = t->columns ? t->columns - *used : SIZE_MAX;
    if (text.n == 0 || (*used && terminal_width(text) + separator > room))
        return;
    if (separator)
        terminal_put(t, out, STR(" · "), STYLE_DIM, 0);
    *used += separator + terminal_put(t, out, text, *used ? STYLE_DIM : STYLE_BOLD, t->columns);
}

void present_title(const struct report *r, const struct terminal *t, struct out *out)
{
    const struct model_profile *p = r->p;
    size_t used = 0;
    char text[256];
    put_title_part(t, out, r->o.title, &used);
    put_title_part(t, out, r->o.type_name, &used);
    units_label(text, sizeof text, r->total, r->o.unit, STR("auto"));
    put_title_part(t, out, str_from(arena_printf(r->arena, "total %s", text)), &used);
    if (p->duration_nanos) {
        units_label(text, sizeof text, p->duration_nanos, STR("nanoseconds"), STR("auto"));
        put_title_part(t, out, str_from(arena_printf(r->arena, "over %s", text)), &used);
    }
    if (p->time_nanos > 0) {
        time_t seconds = p->time_nanos / 1000000000;
        struct tm tm;
        localtime_r(&seconds, &tm);
        strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &tm);
        put_title_part(t, out, str_from(text), &used);
    }
    out_char(out, '\n');
}

// Whether the window is so narrow that only one measure fits.
static bool is_narrow(const struct terminal *t)
{
    return t->columns && t->columns < 64;
}

enum style present_heat(int64_t value, int64_t total)
{
    double share = total ? (double)units_abs(value) / (double)units_abs(total) : 0;
    return share >= 0.1 ? STYLE_HOT : share >= 0.03 ? STYLE_WARM : share < 0.003 ? STYLE_DIM : 0;
}

void present_share(const struct terminal *t, struct out *out, int64_t value, int64_t total)
{
    char text[32];
    size_t n = units_percentage(text, sizeof text, value, total);
    terminal_put_right(t, out, (struct str){text, n}, present_heat(value, total), 7);
}

// Writes the header without profile labels, line by line. Returns the number of lines.
static size_t put_report_header(const struct terminal *t, struct out *out, struct str header)
{
    struct str line;
    size_t n = 0;
    for (; str_next_line(&header, &line); n++) {
        terminal_put(t, out, line, STYLE_DIM, t->columns);
        out_char(out, '\n');
    }
    return n;
}

int present_rows_that_fit(const struct terminal *t, size_t n_filters)
{
    // Title, "Showing", "Dropped", "Showing top", filters, column heads, hint, prompt.
    size_t others = 7 + (n_filters ? n_filters + 1 : 0);
    return t->rows == 0 ? 0 : t->rows > others + 5 ? (int)(t->rows - others) : 5;
}

enum { BAR = 16 };

// A bar with the share of the total: flat is solid, the rest of cum is light.
static void put_bar(const struct terminal *t, struct out *out, int64_t flat, int64_t cum,
                    int64_t total)
{
    double scale = total ? (double)BAR / (double)units_abs(total) : 0;
    int solid = (int)((double)units_abs(flat) * scale + 0.5);
    int light = (int)((double)units_abs(cum) * scale + 0.5);
    solid = solid > BAR ? BAR : solid;
    light = light > BAR ? BAR : light;
    terminal_style(t, out, STYLE_WARM);
    for (int i = 0; i < BAR; i++) {
        if (i == solid) {
            terminal_style(t, out, STYLE_NONE);
            terminal_style(t, out, STYLE_DIM);
        }
        out_text(out, i < solid ? "█" : i < light ? "░" : " ");
    }
    terminal_style(t, out, STYLE_NONE);
}

static void put_padded_value(const struct report *r, const struct terminal *t, struct out *out,
                             int64_t value, size_t width)
{
    char text[256];
    size_t n = report_format_value(r, value, text, sizeof text);
    terminal_put_right(t, out, (struct str){text, n}, STYLE_NONE, width);
}

static void put_row_name(const struct terminal *t, struct out *out, struct str name,
                         const char *label, enum style style, size_t used)
{
    size_t extra = *label ? strlen(label) + 1 : 0, room = 0;
    if (t->columns)
        room = t->columns > used + extra + 8 ? t->columns - used - extra : 8;
    terminal_put(t, out, name, style, room);
    if (extra) {
        out_char(out, ' ');
        terminal_put(t, out, str_from(label), STYLE_DIM, 0);
    }
    out_char(out, '\n');
}

static void put_measure(const struct report *r, const struct terminal *t, struct out *out,
                        int64_t value, size_t width)
{
    put_padded_value(r, t, out, value, width);
    present_share(t, out, value, r->total);
}

static size_t put_top_heads(const struct terminal *t, struct out *out, bool flat, bool cum,
                            bool sums)
{
    char heads[128] = "";
    size_t n = 0;
    if (flat)
        n += (size_t)snprintf(heads, sizeof heads, "%10s %6s", "flat", "flat%");
    if (sums)
        n += (size_t)snprintf(heads + n, sizeof heads - n, " %6s", "sum%");
    if (cum)
        n += (size_t)snprintf(heads + n, sizeof heads - n, flat ? " %10s %6s" : "%10s %6s", "cum",
                              "cum%");
    terminal_put(t, out, (struct str){heads, n}, STYLE_BOLD, 0);
    out_char(out, '\n');
    return n + 2;
}

static void put_top(const struct report *r, const struct report_rows *rows,
                    const struct terminal *t, struct out *out)
{
    // A narrow window omits first the bar, then the running sum, then one measure.
    bool bar = t->columns == 0 || t->columns >= 110, sums = t->columns == 0 || t->columns >= 90;
    bool flat = !is_narrow(t) || !r->o.cum_sort, cum = !is_narrow(t) || r->o.cum_sort;
    size_t used = put_top_heads(t, out, flat, cum, sums) + (bar ? BAR + 2 : 0);
    int64_t sum = 0;
    for (size_t i = 0; i < rows->n; i++) {
        const struct report_row *row = &rows->rows[i];
        sum = units_add(sum, row->flat);
        if (flat)
            put_measure(r, t, out, row->flat, 10);
        if (sums) {
            char text[32];
            size_t len = units_percentage(text, sizeof text, sum, r->total);
            terminal_put_right(t, out, (struct str){text, len}, STYLE_DIM, 7);
        }
        if (cum)
            put_measure(r, t, out, row->cum, flat ? 11 : 10);
        out_text(out, "  ");
        if (bar) {
            put_bar(t, out, row->flat, row->cum, r->total);
            out_text(out, "  ");
        }
        enum style heat = present_heat(row->flat, r->total);
        enum style style = heat == STYLE_HOT ? STYLE_BOLD : heat == STYLE_DIM ? heat : STYLE_NONE;
        put_row_name(t, out, row->name, row->inline_label, style, used);
    }
}

int present_top(struct report *r, const struct config *config, const struct terminal *t,
                struct out *out, struct err *e)
{
    bool fitted = config->node_count < 0 && config->trim && t->rows;
    if (fitted)
        r->o.node_count = present_rows_that_fit(t, r->o.n_filters);
    r->o.compact_labels = true;
    struct report_rows rows;
    if (report_text_rows(r, &rows, e))
        return -1;
    present_title(r, t, out);
    put_report_header(t, out, rows.header);
    put_top(r, &rows, t, out);
    if (fitted && rows.n == (size_t)r->o.node_count) {
        terminal_put(
            t, out,
            STR("flat: itself · cum: with callees · -n 0: all rows · kiln peek NAME: callers"),
            STYLE_DIM, t->columns);
        out_char(out, '\n');
    }
    return 0;
}

// --- tree ---

static void put_tree_edges(struct graph *g, const struct terminal *t, struct out *out,
                           uint32_t node, bool callers)
{
    size_t n;
    uint32_t *edges = callers ? graph_sorted_in(g, node, &n) : graph_sorted_out(g, node, &n);
    int64_t cum = node_cum(&g->nodes[node]);
    for (size_t i = 0; i < n; i++) {
        const struct edge *edge = &g->edges[edges[i]];
        struct node *other = &g->nodes[callers ? edge->src : edge->dst];
        if (!other->name.p)
            other->name = node_printable_name(g, &other->info);
        put_padded_value(g->r, t, out, edge->weight, is_narrow(t) ? 10 : 28);
        present_share(t, out, edge->weight, cum);
        bool end = callers ? i == 0 : i + 1 == n;
        const char *corner = !end ? "   ├ " : callers ? "   ┌ " : "   └ ";
        terminal_put(t, out, str_from(corner), STYLE_DIM, 0);
        put_row_name(t, out, other->name, edge->is_inline ? "(inline)" : "", STYLE_NONE,
                     is_narrow(t) ? 22 : 40);
    }
}

static void put_tree(struct report *r, const struct terminal *t, struct out *out)
{
    r->o.compact_labels = true;
    struct graph *g = graph_new_trimmed(r);
    graph_select_unit(g);
    size_t shown = 0;
    for (size_t i = 0; i < g->n_selected; i++)
        shown += !g->matches || g->matches[g->selected[i]];
    if (g->matches && shown == 0) {
        struct str pattern = model_regex_pattern(r->o.symbol);
        arena_fail(r->arena, "no function matches \"%.*s\"", (int)pattern.n, pattern.p);
    }
    present_title(r, t, out);
    if (!g->matches)
        put_report_header(t, out, graph_labels(g, false));
    struct str heads = STR("      flat  flat%        cum   cum%  callers above, callees below");
    if (is_narrow(t))
        heads = str_from_to(heads, 18, heads.n);
    terminal_put(t, out, heads, STYLE_BOLD, t->columns);
    out_char(out, '\n');
    for (size_t i = 0; i < g->n_selected; i++) {
        uint32_t node = g->selected[i];
        const struct node *at = &g->nodes[node];
        if (g->matches && !g->matches[node])
            continue;
        out_char(out, '\n');
        put_tree_edges(g, t, out, node, true);
        if (!is_narrow(t))
            put_measure(r, t, out, node_flat(at), 10);
        put_measure(r, t, out, node_cum(at), is_narrow(t) ? 10 : 11);
        out_text(out, "  ");
        put_row_name(t, out, at->name, "", STYLE_BOLD, is_narrow(t) ? 19 : 37);
        put_tree_edges(g, t, out, node, false);
    }
}

int present_tree(struct report *r, const struct terminal *t, struct out *out, struct err *e)
{
    struct arena_trap trap;
    if (ARENA_TRY(r->arena, trap))
        return arena_caught(r->arena, e);
    put_tree(r, t, out);
    arena_try_end(r->arena);
    return 0;
}

// --- other reports ---

int present_lines(struct report *r, const struct terminal *t, struct out *out, struct err *e)
{
    struct out text;
    out_init_memory(&text, SIZE_MAX);
    int result = report_write(r, &text, e) || out_finish(&text, e) ? -1 : 0;
    struct str rest = {text.p, text.n}, line;
    while (result == 0 && str_next_line(&rest, &line)) {
        bool dim =
            str_starts(line, STR("-----------+")) || str_starts(line, STR("-------")) ||
            str_starts(line, STR("         .          . ")); // a line of code without samples
        bool bold = str_starts(line, STR("ROUTINE ======"));
        terminal_put(t, out, line, dim ? STYLE_DIM : bold ? STYLE_BOLD : STYLE_NONE, t->columns);
        out_char(out, '\n');
    }
    out_fini(&text);
    return result;
}
