// top, tree and peek: tables of nodes.
#include "report/formats.h"

#include "model/units.h"

void report_put_value(const struct report *r, struct out *out, int64_t value, size_t width)
{
    char text[256];
    size_t n = report_format_value(r, value, text, sizeof text);
    out_right(out, (struct str){text, n}, width);
}

void report_put_percentage(struct out *out, int64_t value, int64_t total)
{
    char text[32];
    out_write(out, text, units_percentage(text, sizeof text, value, total));
}

static const char *inline_label(const struct graph *g, uint32_t node)
{
    bool inlined = false, called = false;
    for (uint32_t i = g->in_first[node]; i < g->in_first[node + 1]; i++) {
        const struct edge *e = &g->edges[g->in[i]];
        inlined |= !e->dead && e->is_inline;
        called |= !e->dead && !e->is_inline;
    }
    return !inlined ? "" : called ? "(partial-inline)" : "(inline)";
}

static void text_rows(struct report *r, struct report_rows *rows)
{
    struct graph *g = graph_new_trimmed(r);
    graph_select_unit(g);
    rows->header = graph_labels(g, false);
    rows->n = g->n_selected;
    rows->rows = arena_array(r->arena, rows->n + 1, sizeof *rows->rows);
    for (size_t i = 0; i < rows->n; i++) {
        const struct node *n = &g->nodes[g->selected[i]];
        rows->rows[i] = (struct report_row){n->name, inline_label(g, g->selected[i]), node_flat(n),
                                            node_cum(n)};
    }
}

int report_text_rows(struct report *r, struct report_rows *rows, struct err *e)
{
    struct arena_trap trap;
    if (ARENA_TRY(r->arena, trap))
        return arena_caught(r->arena, e);
    text_rows(r, rows);
    arena_try_end(r->arena);
    return 0;
}

void report_text(struct report *r, struct out *out)
{
    struct report_rows rows;
    text_rows(r, &rows);
    out_str(out, rows.header);
    out_text(out, "\n      flat  flat%   sum%        cum   cum%\n");
    int64_t sum = 0;
    for (size_t i = 0; i < rows.n; i++) {
        const struct report_row *row = &rows.rows[i];
        sum = units_add(sum, row->flat);
        report_put_value(r, out, row->flat, 10);
        out_char(out, ' ');
        report_put_percentage(out, row->flat, r->total);
        out_char(out, ' ');
        report_put_percentage(out, sum, r->total);
        out_char(out, ' ');
        report_put_value(r, out, row->cum, 10);
        out_char(out, ' ');
        report_put_percentage(out, row->cum, r->total);
        out_text(out, "  ");
        out_str(out, row->name);
        if (*row->inline_label)
            out_char(out, ' ');
        out_text(out, row->inline_label);
        out_char(out, '\n');
    }
}

static void put_table_edges(struct graph *g, struct out *out, const uint32_t *edges, size_t n,
                            bool in, int64_t cum)
{
    for (size_t i = 0; i < n; i++) {
        const struct edge *e = &g->edges[edges[i]];
        struct node *other = &g->nodes[in ? e->src : e->dst];
        if (!other->name.p)
            other->name = node_printable_name(g, &other->info);
        report_put_value(g->r, out, e->weight, 50);
        out_char(out, ' ');
        report_put_percentage(out, e->weight, cum);
        out_text(out, " |   ");
        out_str(out, other->name);
        out_text(out, e->is_inline ? " (inline)\n" : "\n");
    }
}

void report_tree(struct report *r, struct out *out)
{
    static const char separator[] =
        "----------------------------------------------------------+-------------\n";
    struct graph *g = graph_new_trimmed(r);
    graph_select_unit(g);
    size_t matched = 0;
    for (size_t i = 0; g->matches && i < g->n_selected; i++)
        matched += g->matches[g->selected[i]];
    if (g->matches && matched == 0) {
        struct str pattern = model_regex_pattern(r->o.symbol);
        arena_fail(r->arena, "no matches found for regexp: %.*s", (int)pattern.n, pattern.p);
    }
    out_str(out, graph_labels(g, false));
    out_char(out, '\n');
    out_text(out, separator);
    out_text(out, "      flat  flat%   sum%        cum   cum%   calls calls% + context \t \t \n");
    int64_t sum = 0;
    for (size_t i = 0; i < g->n_selected; i++) {
        uint32_t node = g->selected[i];
        if (g->matches && !g->matches[node])
            continue;
        int64_t flat = node_flat(&g->nodes[node]), cum = node_cum(&g->nodes[node]);
        out_text(out, separator);
        size_t n;
        uint32_t *edges = graph_sorted_in(g, node, &n);
        put_table_edges(g, out, edges, n, true, cum);
        sum = units_add(sum, flat);
        report_put_value(r, out, flat, 10);
        out_char(out, ' ');
        report_put_percentage(out, flat, r->total);
        out_char(out, ' ');
        report_put_percentage(out, sum, r->total);
        out_char(out, ' ');
        report_put_value(r, out, cum, 10);
        out_char(out, ' ');
        report_put_percentage(out, cum, r->total);
        out_text(out, "                | ");
        out_str(out, g->nodes[node].name);
        out_char(out, '\n');
        edges = graph_sorted_out(g, node, &n);
        put_table_edges(g, out, edges, n, false, cum);
    }
    if (g->n_selected > 0)
        out_text(out, separator);
}
