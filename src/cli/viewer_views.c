// Tables, call graphs and listings for the pages.
#include <math.h>

#include "base/hash.h"
#include "cli/diff.h"
#include "cli/view.h"
#include "cli/viewer.h"
#include "codec/json.h"
#include "report/graph.h"

static void write_json_number(struct out *out, const char *key, int64_t value)
{
    out_printf(out, ",\"%s\":%lld", key, (long long)value);
}

static void write_report_type(struct out *out, const struct report *r)
{
    out_text(out, ",\"type\":");
    json_write_string(out, r->o.type_name);
    out_text(out, ",\"unit\":");
    json_write_string(out, r->o.unit);
    write_json_number(out, "total", r->total);
}

// --- top ---

struct column {
    struct report r;
    struct report_rows rows;
};

static void write_json_values(struct out *out, const char *key, const int64_t *values, size_t n,
                              uint32_t stride)
{
    out_printf(out, ",\"%s\":[", key);
    for (size_t i = 0; i < n; i++) {
        out_text(out, i ? "," : "");
        out_i64(out, values[i * stride]);
    }
    out_char(out, ']');
}

static void write_columns(struct viewer_query *q, struct column *columns, uint32_t n_columns)
{
    const struct report_rows *first = &columns[0].rows;
    struct hash_table index;
    hash_init(&index, q->arena, first->n);
    for (size_t i = 0; i < first->n; i++)
        hash_add(&index, q->arena, hash_bytes(first->rows[i].name.p, first->rows[i].name.n, 0),
                 (uint32_t)i);
    int64_t *flat = arena_array(q->arena, first->n * n_columns + 1, sizeof *flat);
    int64_t *cum = arena_array(q->arena, first->n * n_columns + 1, sizeof *cum);
    for (uint32_t c = 0; c < n_columns; c++) {
        for (size_t i = 0; i < columns[c].rows.n; i++) {
            const struct report_row *row = &columns[c].rows.rows[i];
            struct hash_probe at = hash_find(&index, hash_bytes(row->name.p, row->name.n, 0));
            while (hash_hit(&index, &at) && !str_eq(first->rows[at.item].name, row->name))
                hash_next(&index, &at);
            size_t to = c == 0 ? i : at.item;
            if (c > 0 && !hash_hit(&index, &at))
                continue;
            flat[to * n_columns + c] = row->flat;
            cum[to * n_columns + c] = row->cum;
        }
    }
    out_text(q->out, ",\"names\":[");
    for (size_t i = 0; i < first->n; i++) {
        out_text(q->out, i ? "," : "");
        json_write_string(q->out, first->rows[i].name);
    }
    out_text(q->out, "],\"inlined\":[");
    for (size_t i = 0; i < first->n; i++)
        out_printf(q->out, i ? ",%d" : "%d",
                   first->rows[i].inline_label[0] ? 1 + (first->rows[i].inline_label[1] == 'p')
                                                  : 0);
    out_text(q->out, "],\"columns\":[");
    for (uint32_t c = 0; c < n_columns; c++) {
        const struct report *r = &columns[c].r;
        out_text(q->out, c ? ",{\"type\":" : "{\"type\":");
        json_write_string(q->out, r->o.type_name);
        out_text(q->out, ",\"unit\":");
        json_write_string(q->out, r->o.unit);
        write_json_number(q->out, "total", r->total);
        write_json_values(q->out, "flat", flat + c, first->n, n_columns);
        write_json_values(q->out, "cum", cum + c, first->n, n_columns);
        out_char(q->out, '}');
    }
    out_char(q->out, ']');
}

static int top_of_one(struct viewer_query *q, struct err *e)
{
    const struct model_profile *p = q->viewer->p;
    int chosen = model_type_index(p, str_from(q->config.sample_index), e);
    if (chosen < 0)
        return -1;
    uint32_t n = viewer_flag(q, "all") ? p->n_types : 1;
    struct column *columns = arena_array(q->arena, n, sizeof *columns);
    for (uint32_t i = 0; i < n; i++) {
        struct config c = q->config;
        uint32_t type = i == 0 ? (uint32_t)chosen : i <= (uint32_t)chosen ? i - 1 : i;
        c.sample_index = arena_printf(q->arena, "%u", type);
        if (view_prepare(&columns[i].r, p, view_command_find("top"), NULL, &c, q->arena,
                         i ? NULL : viewer_note, e) ||
            report_text_rows(&columns[i].r, &columns[i].rows, e))
            return -1;
    }
    out_char(q->out, '{');
    viewer_write_notes(q->out);
    write_columns(q, columns, n);
    out_char(q->out, '}');
    return 0;
}

static void write_changes(struct out *out, const struct diff *d, const char *key, bool cum)
{
    out_printf(out, ",\"%s\":[", key);
    for (size_t i = 0; i < d->functions.n; i++) {
        const struct stats_function *row = &d->functions.rows[i];
        struct diff_change c = diff_change(d, cum ? &row->total : &row->self);
        out_printf(out, "%s[%.0f,%.0f,%.0f,%d]", i ? "," : "", c.before, c.after, c.half_width,
                   c.mark != STATS_NOISE);
    }
    out_char(out, ']');
}

static int top_of_two(struct viewer_query *q, struct err *e)
{
    struct diff d = {.normalized = q->config.normalize};
    const struct model_profile *both[2] = {q->viewer->sides[0], q->viewer->sides[1]};
    struct diff_sides sides = {.profiles = both, .n = {1, 1}, .cap = 2};
    if (diff_count(&d, &sides, &q->config, q->arena, viewer_note, e))
        return -1;
    out_char(q->out, '{');
    viewer_write_notes(q->out);
    out_text(q->out, ",\"names\":[");
    for (size_t i = 0; i < d.functions.n; i++) {
        out_text(q->out, i ? "," : "");
        json_write_string(q->out, d.functions.rows[i].name);
    }
    out_text(q->out, "],\"type\":");
    json_write_string(q->out, d.type);
    out_text(q->out, ",\"unit\":");
    json_write_string(q->out, d.unit);
    struct diff_change total = diff_total(&d);
    out_printf(q->out, ",\"totals\":[%.0f,%.0f]", total.before, total.after);
    write_changes(q->out, &d, "flat", false);
    write_changes(q->out, &d, "cum", true);
    out_char(q->out, '}');
    return 0;
}

int viewer_top(struct viewer_query *q, struct err *e)
{
    // The page can show any number of rows; pprof's limit of 500 would hide most.
    if (q->config.node_count < 0) {
        q->config.node_count = 0;
        q->config.node_fraction = 0;
    }
    return q->viewer->sides[0] ? top_of_two(q, e) : top_of_one(q, e);
}

// --- graph ---

static void measure_boxes(const struct graph *g, const struct str *names, struct viewer_box *boxes)
{
    double most = 1;
    for (size_t i = 0; i < g->n_selected; i++) {
        double flat = fabs((double)node_flat(&g->nodes[g->selected[i]]));
        most = flat > most ? flat : most;
    }
    for (size_t i = 0; i < g->n_selected; i++) {
        double flat = fabs((double)node_flat(&g->nodes[g->selected[i]]));
        double font = 11 + 9 * sqrt(flat / most);
        size_t columns = str_columns(names[i]);
        columns = columns < 18 ? 18 : columns > 36 ? 36 : columns;
        boxes[i] = (struct viewer_box){.width = ceil((double)columns * font * 0.63 + 18),
                                       .height = ceil(font * 3.3 + 8)};
    }
}

static void write_lines(struct out *out, struct graph *g, const struct viewer_line *lines,
                        const uint32_t *edge_of, size_t n, bool placed)
{
    out_text(out, ",\"edges\":[");
    for (size_t i = 0; i < n; i++) {
        const struct edge *edge = &g->edges[edge_of[i]];
        out_printf(out, "%s[%u,%u,%lld,%d,[", i ? "," : "", lines[i].from, lines[i].to,
                   (long long)graph_value(edge->weight, edge->weight_div),
                   (edge->is_inline ? 1 : 0) | (edge->residual ? 2 : 0));
        for (size_t k = 0; placed && k < lines[i].n_points; k++)
            out_printf(out, k ? ",%.1f" : "%.1f", lines[i].points[k]);
        out_text(out, "]]");
    }
    out_char(out, ']');
}

static void write_graph(struct viewer_query *q, struct report *r)
{
    struct graph *g = graph_new_trimmed(r);
    graph_select_unit(g);
    size_t n = g->n_selected, n_lines = 0;
    uint32_t *place = arena_array(q->arena, g->n_nodes + 1, sizeof *place);
    memset(place, 0xff, (g->n_nodes + 1) * sizeof *place);
    struct str *names = arena_array(q->arena, n + 1, sizeof *names);
    for (size_t i = 0; i < n; i++) {
        struct node *node = &g->nodes[g->selected[i]];
        place[g->selected[i]] = (uint32_t)i;
        if (!node->name.p)
            node->name = node_printable_name(g, &node->info);
        names[i] = name_shorten(q->arena, node->name);
    }
    struct viewer_box *boxes = arena_array(q->arena, n + 1, sizeof *boxes);
    measure_boxes(g, names, boxes);
    struct viewer_line *lines = arena_array(q->arena, g->n_edges + 1, sizeof *lines);
    uint32_t *edge_of = arena_array(q->arena, g->n_edges + 1, sizeof *edge_of);
    for (size_t i = 0; i < g->n_edges; i++) {
        const struct edge *edge = &g->edges[i];
        if (edge->dead || place[edge->src] == UINT32_MAX || place[edge->dst] == UINT32_MAX)
            continue;
        double weight = fabs((double)graph_value(edge->weight, edge->weight_div));
        edge_of[n_lines] = (uint32_t)i;
        lines[n_lines++] = (struct viewer_line){.from = place[edge->src],
                                                .to = place[edge->dst],
                                                .weight = r->total ? weight / (double)r->total : 0};
    }
    bool own = viewer_flag(q, "own");
    bool placed = !own && n && viewer_dot(boxes, n, lines, n_lines, q->arena);
    out_char(q->out, '{');
    viewer_write_notes(q->out);
    write_report_type(q->out, r);
    out_printf(q->out, ",\"placed\":%d,\"dropped\":[%zu,%zu],\"nodes\":[", placed,
               g->n_dropped_nodes, g->n_dropped_edges);
    for (size_t i = 0; i < n; i++) {
        const struct node *node = &g->nodes[g->selected[i]];
        out_text(q->out, i ? ",[" : "[");
        json_write_string(q->out, node->name);
        out_char(q->out, ',');
        json_write_string(q->out, names[i]);
        out_printf(q->out, ",%lld,%lld,%.0f,%.0f,%.1f,%.1f]", (long long)node_flat(node),
                   (long long)node_cum(node), boxes[i].width, boxes[i].height, boxes[i].x,
                   boxes[i].y);
    }
    out_char(q->out, ']');
    write_lines(q->out, g, lines, edge_of, n_lines, placed);
    out_char(q->out, '}');
}

// Runs write, which may run out of memory.
static int try_report(struct viewer_query *q, struct report *r,
                      void (*write)(struct viewer_query *q, struct report *r), struct err *e)
{
    struct arena_trap trap;
    if (ARENA_TRY(q->arena, trap))
        return arena_caught(q->arena, e);
    write(q, r);
    arena_try_end(q->arena);
    return 0;
}

int viewer_graph(struct viewer_query *q, struct err *e)
{
    struct report r;
    if (view_prepare(&r, q->viewer->p, view_command_find("dot"), NULL, &q->config, q->arena,
                     viewer_note, e))
        return -1;
    return try_report(q, &r, write_graph, e);
}

// --- peek ---

static void write_neighbours(struct out *out, struct graph *g, uint32_t node, bool callers)
{
    size_t n;
    uint32_t *edges = callers ? graph_sorted_in(g, node, &n) : graph_sorted_out(g, node, &n);
    out_char(out, '[');
    for (size_t i = 0; i < n; i++) {
        const struct edge *edge = &g->edges[edges[i]];
        struct node *other = &g->nodes[callers ? edge->src : edge->dst];
        if (!other->name.p)
            other->name = node_printable_name(g, &other->info);
        out_text(out, i ? ",[" : "[");
        json_write_string(out, other->name);
        out_printf(out, ",%lld,%d]", (long long)graph_value(edge->weight, edge->weight_div),
                   edge->is_inline);
    }
    out_char(out, ']');
}

static void write_peek(struct viewer_query *q, struct report *r)
{
    enum { MOST = 500 };
    struct graph *g = graph_new_trimmed(r);
    graph_select_unit(g);
    out_char(q->out, '{');
    viewer_write_notes(q->out);
    write_report_type(q->out, r);
    out_text(q->out, ",\"nodes\":[");
    size_t matched = 0;
    for (size_t i = 0; i < g->n_selected; i++) {
        uint32_t id = g->selected[i];
        const struct node *node = &g->nodes[id];
        if ((g->matches && !g->matches[id]) || matched++ >= MOST)
            continue;
        out_text(q->out, matched > 1 ? ",[" : "[");
        json_write_string(q->out, node->name);
        out_printf(q->out, ",%lld,%lld,", (long long)node_flat(node), (long long)node_cum(node));
        write_neighbours(q->out, g, id, true);
        out_char(q->out, ',');
        write_neighbours(q->out, g, id, false);
        out_char(q->out, ']');
    }
    out_printf(q->out, "],\"matched\":%zu}", matched);
}

int viewer_peek(struct viewer_query *q, struct err *e)
{
    struct report r;
    if (!*q->config.granularity)
        q->config.granularity = "lines";
    // Like pprof, the search also focuses.
    const char *regexp = *q->config.focus ? q->config.focus : ".";
    if (view_prepare(&r, q->viewer->p, view_command_find("peek"), regexp, &q->config, q->arena,
                     viewer_note, e))
        return -1;
    return try_report(q, &r, write_peek, e);
}

// --- source and machine code ---

static int write_listing(struct viewer_query *q, const char *command, const char *regexp,
                         struct err *e)
{
    struct report r;
    if (!*regexp)
        return err_set(e, "no function is selected; search for one, or choose one in another view");
    if (view_prepare(&r, q->viewer->p, view_command_find(command), regexp, &q->config, q->arena,
                     viewer_note, e))
        return -1;
    r.o.note = viewer_note;
    r.o.fragment = true;
    return report_write(&r, q->out, e);
}

int viewer_source(struct viewer_query *q, struct err *e)
{
    return write_listing(q, "weblist", q->config.focus, e);
}

int viewer_disasm(struct viewer_query *q, struct err *e)
{
    // pprof's disasm matches symbols, not function names, so the `^name$` that the pages send never
    // matches.
    const char *regexp = q->config.focus;
    size_t n = strlen(regexp);
    if (n > 2 && regexp[0] == '^' && regexp[n - 1] == '$')
        regexp = arena_copy(q->arena, regexp + 1, n - 2);
    return write_listing(q, "disasm", regexp, e);
}
