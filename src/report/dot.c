// The call graph in Graphviz's language.
#include "report/formats.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "model/units.h"

enum { MOST_NODELETS = 4 };

struct dot {
    struct graph *g;
    struct report *r;
    struct out *out;
    uint32_t *numbers; // node -> its number in the graph
    bool *has_nodelets;
};

static void put_dot_escaped(struct out *out, struct str s)
{
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] == '\n') {
            out_text(out, "\\l");
            continue;
        }
        if (s.p[i] == '\\' || s.p[i] == '"')
            out_char(out, '\\');
        out_char(out, s.p[i]);
    }
}

static void put_legend(struct dot *d)
{
    struct str labels = graph_labels(d->g, true), title = labels;
    const char *newline = memchr(labels.p, '\n', labels.n);
    if (newline)
        title.n = (size_t)(newline - labels.p);
    out_text(d->out, "subgraph cluster_L { \"");
    put_dot_escaped(d->out, title);
    out_text(d->out, "\" [shape=box fontsize=16 label=\"");
    put_dot_escaped(d->out, labels);
    out_text(d->out, "\\l\"");
    if (d->r->o.title.n) {
        out_text(d->out, " tooltip=\"");
        out_str(d->out, d->r->o.title);
        out_char(d->out, '"');
    }
    out_text(d->out, "] }\n");
}

// A color between green (-1), gray (0) and red (1).
static void put_colour(struct out *out, double score, bool background)
{
    double saturation = background ? 0.1 : 1.0, value = background ? 0.93 : 0.7;
    // Go's Max and Min return NaN for NaN; C's do not.
    if (!isnan(score))
        score = fmax(-1.0, fmin(1.0, score));
    if (fabs(score) < 0.2)
        saturation *= fabs(score) / 0.2;
    if (score > 0)
        score = pow(score, 1.0 - 0.7);
    if (score < 0)
        score = -pow(-score, 1.0 - 0.7);
    double r, g, b = value * (1 - saturation);
    if (score < 0) {
        g = value;
        r = value * (1 + saturation * score);
    } else {
        r = value;
        g = value * (1 - saturation * score);
    }
    out_printf(out, "#%02x%02x%02x", (uint8_t)units_truncate(r * 255.0),
               (uint8_t)units_truncate(g * 255.0), (uint8_t)units_truncate(b * 255.0));
}

// What is within noise is gray.
static double dot_score(const struct dot *d, const struct node *n, int64_t value, int64_t total)
{
    const struct report_options *o = &d->r->o;
    bool gray = o->is_noise && o->is_noise(o->noise_context, n->name);
    return gray ? 0 : (double)value / (double)units_abs(total);
}

// Writes a name for its box, broken into lines.
static void put_box_name(struct dot *d, const struct node_info *info)
{
    struct out *out = d->out;
    const struct model_profile *p = d->g->p;
    struct str name = name_shorten(d->r->arena, model_str(p, info->name));
    struct str file = model_str(p, info->file);
    bool any = false;
    if (info->address) {
        out_printf(out, "%016llx", (unsigned long long)info->address);
        any = true;
    }
    if (name.n) {
        if (any)
            out_text(out, "\\n");
        any = true;
        for (size_t i = 0; i < name.n; i++) {
            struct str rest = str_from_to(name, i, name.n);
            if (str_starts(rest, STR("::"))) {
                out_text(out, "\\n");
                i++;
            } else if (str_starts(rest, STR("[...]"))) {
                out_text(out, "[…]");
                i += 4;
            } else if (name.p[i] == '.') {
                out_text(out, "\\n");
            } else {
                put_dot_escaped(out, str_from_to(name, i, i + 1));
            }
        }
    }
    struct str place = STR("");
    if (info->line || file.n)
        place = file.n ? path_base(file) : STR("");
    else if (name.n == 0)
        place = info->object ? path_base(model_str(p, info->object)) : STR("<unknown>");
    if (info->line || place.n) {
        bool brackets = !info->line && !file.n && info->object;
        if (any)
            out_text(out, "\\n");
        out_text(out, brackets ? "[" : "");
        out_str(out, place);
        out_text(out, brackets ? "]" : "");
        if (info->line)
            out_printf(out, ":%lld", (long long)info->line);
        if (info->line && info->column)
            out_printf(out, ":%lld", (long long)info->column);
    }
    out_text(out, "\\n");
}

static void put_share(struct dot *d, int64_t value)
{
    char text[32];
    size_t n = units_percentage(text, sizeof text, value, d->r->total);
    out_str(d->out, str_trim((struct str){text, n}));
}

static void put_node(struct dot *d, uint32_t node, double most_flat)
{
    struct out *out = d->out;
    const struct node *n = &d->g->nodes[node];
    int64_t flat = node_flat(n), cum = node_cum(n);
    char flat_text[256], cum_text[256];
    report_format_value(d->r, flat, flat_text, sizeof flat_text);
    report_format_value(d->r, cum, cum_text, sizeof cum_text);
    out_printf(out, "N%u [label=\"", d->numbers[node]);
    put_box_name(d, &n->info);
    if (flat) {
        out_printf(out, "%s (", flat_text);
        put_share(d, flat);
        out_char(out, ')');
    } else {
        out_char(out, '0');
    }
    if (cum != flat) {
        out_printf(out, "%sof %s (", flat ? "\\n" : " ", cum_text);
        put_share(d, cum);
        out_char(out, ')');
    }
    int font = 8;
    double size = (double)units_abs(flat);
    if (most_flat != 0 && flat != 0 && size <= most_flat)
        font += (int)ceil(16.0 * sqrt(size / most_flat));
    out_printf(out, "\" id=\"node%u\" fontsize=%d shape=box tooltip=\"", d->numbers[node], font);
    put_dot_escaped(out, n->name);
    out_printf(out, " (%s)\" color=\"", cum_text);
    double score = dot_score(d, n, cum, d->r->total);
    put_colour(out, score, false);
    out_text(out, "\" fillcolor=\"");
    put_colour(out, score, true);
    out_text(out, "\"]\n");
}

// --- nodelets: boxes for the tags of a node ---

struct nodelet {
    struct str name, unit;
    uint32_t labels;
    int64_t value, flat, flat_div, cum, cum_div;
};

static int64_t nodelet_flat(const struct nodelet *t)
{
    return graph_value(t->flat, t->flat_div);
}

static int64_t nodelet_cum(const struct nodelet *t)
{
    return graph_value(t->cum, t->cum_div);
}

static int compare_nodelets(const void *a, const void *b, void *flat_only)
{
    const struct nodelet *x = a, *y = b;
    int64_t vx = units_abs(x->cum), vy = units_abs(y->cum);
    if (!*(bool *)flat_only && vx != vy)
        return vx > vy ? -1 : 1;
    vx = units_abs(x->flat);
    vy = units_abs(y->flat);
    if (vx != vy)
        return vx > vy ? -1 : 1;
    return str_cmp(x->name, y->name);
}

static void sort_nodelets(struct nodelet *t, size_t n, bool flat_only)
{
    qsort_r(t, n, sizeof *t, compare_nodelets, &flat_only);
}

static double nodelet_distance(const struct nodelet *t, const struct nodelet *u)
{
    return fabs(units_scale(u->value, u->unit, t->unit, NULL) - (double)t->value);
}

// Joins a group of sizes into one nodelet: "1MB..2MB".
static struct nodelet join_group(struct dot *d, const struct nodelet *all, const size_t *group,
                                 size_t n_all, size_t which)
{
    const struct nodelet *least = &all[which], *most = least;
    struct nodelet sum = {0};
    size_t members = 0;
    for (size_t i = 0; i < n_all; i++) {
        const struct nodelet *t = &all[i];
        if (group[i] != which)
            continue;
        members++;
        if (units_truncate(units_scale(t->value, t->unit, least->unit, NULL)) < least->value)
            least = t;
        if (units_truncate(units_scale(t->value, t->unit, most->unit, NULL)) > most->value)
            most = t;
        sum.flat = units_add(sum.flat, t->flat);
        sum.flat_div = units_add(sum.flat_div, t->flat_div);
        sum.cum = units_add(sum.cum, t->cum);
        sum.cum_div = units_add(sum.cum_div, t->cum_div);
    }
    char from[256], to[256];
    units_label(from, sizeof from, least->value, least->unit, STR("auto"));
    units_label(to, sizeof to, most->value, most->unit, STR("auto"));
    struct nodelet joined = {.flat = nodelet_flat(&sum), .cum = nodelet_cum(&sum)};
    joined.name = str_from(members == 1 ? arena_printf(d->r->arena, "%s", from)
                                        : arena_printf(d->r->arena, "%s..%s", from, to));
    return joined;
}

// Reduces to at most four nodelets: the heaviest ones, each joined with the sizes closest to it.
static size_t collapse_nodelets(struct dot *d, struct nodelet *t, size_t n, bool flat_only)
{
    sort_nodelets(t, n, flat_only);
    if (n <= MOST_NODELETS)
        return n;
    size_t *group = arena_array(d->r->arena, n, sizeof *group);
    for (size_t i = 0; i < n; i++) {
        group[i] = i;
        if (i < MOST_NODELETS)
            continue;
        group[i] = 0;
        for (size_t k = 1; k < MOST_NODELETS; k++)
            if (nodelet_distance(&t[i], &t[k]) < nodelet_distance(&t[i], &t[group[i]]))
                group[i] = k;
    }
    struct nodelet joined[MOST_NODELETS];
    for (size_t k = 0; k < MOST_NODELETS; k++)
        joined[k] = join_group(d, t, group, n, k);
    memcpy(t, joined, sizeof joined);
    sort_nodelets(t, MOST_NODELETS, flat_only);
    return MOST_NODELETS;
}

static void put_nodelet(struct dot *d, const char *from, const char *id, struct str name,
                        int64_t weight, const char *attribute)
{
    char text[256];
    report_format_value(d->r, weight, text, sizeof text);
    out_printf(d->out, "%s [label = \"", id);
    out_str(d->out, name);
    out_printf(d->out, "\" id=\"%s\" fontsize=8 shape=box3d tooltip=\"%s\"]\n", id, text);
    out_printf(d->out, "%s -> %s [label=\" %s\" weight=100 tooltip=\"%s\" labeltooltip=\"%s\"%s]\n",
               from, id, text, text, text, attribute);
}

// Writes the numeric tags of one combination of labels. Returns whether any was written.
static bool put_numbers(struct dot *d, uint32_t node, uint32_t labels, bool flat_only,
                        const char *from)
{
    struct graph *g = d->g;
    uint32_t first = g->tag_first[node], end = g->tag_first[node + 1];
    struct nodelet *t = arena_array(d->r->arena, end - first + 1, sizeof *t);
    size_t n = 0;
    for (uint32_t i = first; i < end; i++) {
        const struct tag *tag = &g->tags[g->tag_list[i]];
        if (tag->dead || tag->name == 0 || tag->labels != labels)
            continue;
        t[n++] = (struct nodelet){
            .name = model_str(g->p, tag->name),
            .unit = model_str(g->p, tag->unit),
            .value = tag->value,
            .flat = tag->flat,
            .flat_div = tag->flat_div,
            .cum = tag->cum,
            .cum_div = tag->cum_div,
        };
    }
    bool any = false;
    n = collapse_nodelets(d, t, n, flat_only);
    for (size_t i = 0; i < n; i++) {
        bool plain = flat_only || nodelet_flat(&t[i]) == nodelet_cum(&t[i]);
        int64_t weight = plain ? nodelet_flat(&t[i]) : nodelet_cum(&t[i]);
        if (weight == 0)
            continue;
        char *id = arena_printf(d->r->arena, "N%s_%zu", from, i);
        put_nodelet(d, from, id, t[i].name, weight, plain ? "" : " style=\"dotted\"");
        any = true;
    }
    return any;
}

static bool put_nodelets(struct dot *d, uint32_t node)
{
    struct graph *g = d->g;
    uint32_t first = g->tag_first[node], end = g->tag_first[node + 1];
    if (first == end)
        return false;
    struct nodelet *t = arena_array(d->r->arena, end - first + 1, sizeof *t);
    size_t n = 0;
    for (uint32_t i = first; i < end; i++) {
        const struct tag *tag = &g->tags[g->tag_list[i]];
        if (tag->dead || tag->name != 0)
            continue;
        t[n++] = (struct nodelet){.name = model_str(g->p, tag->labels),
                                  .labels = tag->labels,
                                  .flat = tag->flat,
                                  .flat_div = tag->flat_div,
                                  .cum = tag->cum,
                                  .cum_div = tag->cum_div};
    }
    // A leaf shows cumulative values, an inner node only flat ones.
    bool flat_only = false;
    for (uint32_t i = g->out_first[node]; i < g->out_first[node + 1]; i++)
        flat_only |= !g->edges[g->out[i]].dead;
    sort_nodelets(t, n, flat_only);
    bool any = false;
    for (size_t i = 0; i < n && i < MOST_NODELETS; i++) {
        int64_t weight = flat_only ? nodelet_flat(&t[i]) : nodelet_cum(&t[i]);
        if (weight == 0)
            continue;
        char from[32], id[48];
        snprintf(from, sizeof from, "N%u", d->numbers[node]);
        snprintf(id, sizeof id, "%s_%zu", from, i);
        put_nodelet(d, from, id, t[i].name, weight, "");
        put_numbers(d, node, t[i].labels, flat_only, id);
        any = true;
    }
    char from[32];
    snprintf(from, sizeof from, "N%u", d->numbers[node]);
    return put_numbers(d, node, 0, flat_only, from) || any;
}

static int64_t at_most(int64_t value, int64_t limit)
{
    return value < limit ? value : limit;
}

static void put_edge(struct dot *d, const struct edge *e)
{
    struct out *out = d->out;
    int64_t weight = graph_value(e->weight, e->weight_div), total = d->r->total;
    char text[256];
    report_format_value(d->r, weight, text, sizeof text);
    out_printf(out, "N%u -> N%u [label=\" %s%s\"", d->numbers[e->src], d->numbers[e->dst], text,
               e->is_inline ? "\\n (inline)" : "");
    if (total) {
        int64_t heavy = 1 + at_most(units_abs(units_div(units_mul(weight, 100), total)), 100);
        int64_t width = 1 + at_most(units_abs(units_div(units_mul(weight, 5), total)), 5);
        if (heavy > 1)
            out_printf(out, " weight=%lld", (long long)heavy);
        if (width > 1)
            out_printf(out, " penwidth=%lld", (long long)width);
        out_text(out, " color=\"");
        put_colour(out, dot_score(d, &d->g->nodes[e->dst], weight, total), false);
        out_char(out, '"');
    }
    for (int i = 0; i < 2; i++) {
        struct node *src = &d->g->nodes[e->src], *dst = &d->g->nodes[e->dst];
        if (!dst->name.p)
            dst->name = node_printable_name(d->g, &dst->info);
        out_text(out, i ? " labeltooltip=\"" : " tooltip=\"");
        put_dot_escaped(out, src->name);
        out_text(out, e->residual ? " ... " : " -> ");
        put_dot_escaped(out, dst->name);
        out_printf(out, " (%s)\"", text);
    }
    out_text(out, e->residual ? " style=\"dotted\"" : "");
    out_text(out, d->has_nodelets[e->src] ? " minlen=2]\n" : "]\n");
}

void report_dot(struct report *r, struct out *out)
{
    struct graph *g = graph_new_trimmed(r);
    graph_select_unit(g);
    struct dot d = {.g = g, .r = r, .out = out};
    d.numbers = arena_array(r->arena, g->n_nodes + 1, sizeof *d.numbers);
    d.has_nodelets = arena_array(r->arena, g->n_nodes + 1, sizeof *d.has_nodelets);
    out_text(out, "digraph \"");
    out_str(out, r->o.title.n ? r->o.title : STR("unnamed"));
    out_text(out, "\" {\nnode [style=filled fillcolor=\"#f8f8f8\"]\n");
    put_legend(&d);
    double most_flat = 0;
    for (size_t i = 0; i < g->n_selected; i++) {
        double flat = (double)units_abs(node_flat(&g->nodes[g->selected[i]]));
        d.numbers[g->selected[i]] = (uint32_t)i + 1;
        if (i == 0 || flat > most_flat)
            most_flat = flat;
    }
    uint32_t *edges = arena_array(r->arena, g->n_edges + 1, sizeof *edges);
    size_t n_edges = 0;
    for (size_t i = 0; i < g->n_selected; i++) {
        uint32_t node = g->selected[i];
        put_node(&d, node, most_flat);
        d.has_nodelets[node] = put_nodelets(&d, node);
        for (uint32_t k = g->out_first[node]; k < g->out_first[node + 1]; k++)
            if (!g->edges[g->out[k]].dead)
                edges[n_edges++] = g->out[k];
    }
    graph_sort_edges(g, edges, n_edges);
    for (size_t i = 0; i < n_edges; i++)
        put_edge(&d, &g->edges[edges[i]]);
    out_text(out, "}\n");
}
