// Selects and sorts the nodes and edges that a graph report shows.
#include "report/graph.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "model/units.h"

// --- edges by node ---

static void index_by(struct graph *g, bool by_dst, uint32_t **first, uint32_t **list)
{
    *first = arena_array(g->arena, g->n_nodes + 2, sizeof **first);
    *list = arena_array(g->arena, g->n_edges + 1, sizeof **list);
    for (size_t i = 0; i < g->n_edges; i++)
        if (!g->edges[i].dead)
            (*first)[(by_dst ? g->edges[i].dst : g->edges[i].src) + 2]++;
    for (size_t i = 2; i < g->n_nodes + 2; i++)
        (*first)[i] += (*first)[i - 1];
    for (size_t i = 0; i < g->n_edges; i++)
        if (!g->edges[i].dead)
            (*list)[(*first)[(by_dst ? g->edges[i].dst : g->edges[i].src) + 1]++] = (uint32_t)i;
}

void graph_index_edges(struct graph *g)
{
    index_by(g, true, &g->in_first, &g->in);
    index_by(g, false, &g->out_first, &g->out);
}

static void index_tags(struct graph *g)
{
    g->tag_first = arena_array(g->arena, g->n_nodes + 2, sizeof *g->tag_first);
    g->tag_list = arena_array(g->arena, g->n_tags + 1, sizeof *g->tag_list);
    for (size_t i = 0; i < g->n_tags; i++)
        g->tag_first[g->tags[i].node + 2]++;
    for (size_t i = 2; i < g->n_nodes + 2; i++)
        g->tag_first[i] += g->tag_first[i - 1];
    for (size_t i = 0; i < g->n_tags; i++)
        g->tag_list[g->tag_first[g->tags[i].node + 1]++] = (uint32_t)i;
}

static void name_node(struct graph *g, uint32_t node)
{
    struct node *n = &g->nodes[node];
    if (!n->name.p)
        n->name = node_printable_name(g, &n->info);
}

// Must not allocate: a failed allocation would jump out of the sort.
static int compare_edge_weights(const void *a, const void *b, void *graph)
{
    const struct graph *g = graph;
    const struct edge *x = &g->edges[*(const uint32_t *)a], *y = &g->edges[*(const uint32_t *)b];
    int64_t wx = units_abs(x->weight), wy = units_abs(y->weight);
    if (wx != wy)
        return wx > wy ? -1 : 1;
    int c = str_cmp(g->nodes[x->src].name, g->nodes[y->src].name);
    if (!c)
        c = str_cmp(g->nodes[x->dst].name, g->nodes[y->dst].name);
    return c ? c : x->place < y->place ? -1 : x->place > y->place;
}

void graph_sort_edges(struct graph *g, uint32_t *edges, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct edge *e = &g->edges[edges[i]];
        e->place = (uint32_t)i;
        name_node(g, e->src);
        name_node(g, e->dst);
    }
    qsort_r(edges, n, sizeof *edges, compare_edge_weights, g);
}

static uint32_t *sorted_edges(struct graph *g, const uint32_t *first, const uint32_t *list,
                              uint32_t node, size_t *n)
{
    uint32_t *edges = arena_array(g->arena, first[node + 1] - first[node] + 1, sizeof *edges);
    *n = 0;
    for (uint32_t i = first[node]; i < first[node + 1]; i++)
        if (!g->edges[list[i]].dead)
            edges[(*n)++] = list[i];
    graph_sort_edges(g, edges, *n);
    return edges;
}

uint32_t *graph_sorted_in(struct graph *g, uint32_t node, size_t *n)
{
    return sorted_edges(g, g->in_first, g->in, node, n);
}

uint32_t *graph_sorted_out(struct graph *g, uint32_t node, size_t *n)
{
    return sorted_edges(g, g->out_first, g->out, node, n);
}

// --- order of nodes ---

// Go's math.Log2, which is exact for powers of two.
static double log2_like_go(double x)
{
    int exponent;
    double fraction = frexp(x, &exponent);
    if (fraction == 0.5)
        return exponent - 1;
    return log(fraction) * (1 / 0.693147180559945309417232121458176568) + exponent;
}

static double tag_entropy(const struct graph *g, const uint32_t *first, const uint32_t *list,
                          uint32_t node, int64_t self)
{
    int64_t total = self;
    double score = 0;
    for (uint32_t i = first[node]; i < first[node + 1]; i++)
        if (g->edges[list[i]].weight > 0)
            total = units_add(total, g->edges[list[i]].weight);
    if (total == 0)
        return 0;
    for (uint32_t i = first[node]; i < first[node + 1]; i++) {
        double share = (double)units_abs(g->edges[list[i]].weight) / (double)total;
        score += -share * log2_like_go(share);
    }
    if (self > 0) {
        double share = (double)self / (double)total;
        score += -share * log2_like_go(share);
    }
    return score;
}

// How informative a node is: nodes that only pass on from one caller to one callee score low.
static int64_t entropy_score(const struct graph *g, uint32_t node)
{
    const struct node *n = &g->nodes[node];
    double score = 0;
    score += g->in_first[node] == g->in_first[node + 1]
                 ? 1
                 : tag_entropy(g, g->in_first, g->in, node, 0);
    score += g->out_first[node] == g->out_first[node + 1]
                 ? 1
                 : tag_entropy(g, g->out_first, g->out, node, n->flat);
    return units_add(units_truncate(score * (double)n->cum), n->flat);
}

struct order {
    struct graph *g;
    int64_t *score; // by node; NULL: sort by flat
};

static int order_descending(int64_t a, int64_t b)
{
    a = units_abs(a);
    b = units_abs(b);
    return a == b ? 0 : a > b ? -1 : 1;
}

static int compare_nodes(const void *left, const void *right, void *context)
{
    const struct order *order = context;
    uint32_t l = *(const uint32_t *)left, r = *(const uint32_t *)right;
    const struct node *a = &order->g->nodes[l], *b = &order->g->nodes[r];
    int c = order->score ? order_descending(order->score[l], order->score[r])
                         : order_descending(a->flat, b->flat);
    if (!c)
        c = str_cmp(a->name, b->name);
    // Like pprof, continue only for nodes that differ just in their callers, in a tree.
    if (!c && order->g->is_tree)
        c = order->score ? order_descending(a->flat, b->flat) : order_descending(a->cum, b->cum);
    return c ? c : l < r ? -1 : l > r;
}

static void sort_nodes(struct graph *g)
{
    const struct report_options *o = &g->r->o;
    struct order order = {.g = g};
    bool by_entropy = o->format == REPORT_DOT;
    for (size_t i = 0; i < g->n_selected; i++)
        name_node(g, g->selected[i]);
    if (by_entropy)
        graph_index_edges(g);
    if (by_entropy || o->cum_sort) {
        order.score = arena_array(g->arena, g->n_nodes + 1, sizeof *order.score);
        for (size_t i = 0; i < g->n_selected; i++) {
            uint32_t node = g->selected[i];
            order.score[node] = by_entropy ? entropy_score(g, node) : g->nodes[node].cum;
        }
    }
    qsort_r(g->selected, g->n_selected, sizeof *g->selected, compare_nodes, &order);
}

// --- trimming ---

static size_t drop_light_edges(struct graph *g, int64_t cutoff)
{
    bool *shown = arena_array(g->arena, g->n_nodes + 1, sizeof *shown);
    for (size_t i = 0; i < g->n_selected; i++)
        shown[g->selected[i]] = true;
    size_t dropped = 0;
    for (size_t i = 0; i < g->n_edges; i++) {
        struct edge *e = &g->edges[i];
        if (!e->dead && shown[e->dst] && units_abs(e->weight) < cutoff) {
            e->dead = true;
            dropped++;
        }
    }
    return dropped;
}

static void drop_light_tags(struct graph *g, int64_t cutoff)
{
    for (size_t i = 0; i < g->n_tags; i++) {
        struct tag *t = &g->tags[i];
        t->dead |= units_abs(t->flat) < cutoff && units_abs(t->cum) < cutoff;
    }
}

enum { MOST_TAGS_SHOWN = 4 };

// In graphs, tags count as nodes.
static size_t nodes_that_fit(struct graph *g, size_t most)
{
    if (g->r->o.format == REPORT_DOT) {
        uint32_t *n_tags = arena_array(g->arena, g->n_nodes + 1, sizeof *n_tags);
        for (size_t i = 0; i < g->n_tags; i++)
            if (!g->tags[i].dead && g->tags[i].flat)
                n_tags[g->tags[i].node]++;
        size_t count = 0;
        for (size_t i = 0; i < g->n_selected; i++) {
            uint32_t n = n_tags[g->selected[i]];
            count += (n < MOST_TAGS_SHOWN ? n : MOST_TAGS_SHOWN) + 1;
            if (count >= most) {
                most = i + 1;
                break;
            }
        }
    }
    return most < g->n_selected ? most : g->n_selected;
}

// Whether src still reaches dst without this edge.
static bool edge_is_redundant(struct graph *g, uint32_t edge, uint32_t *queue, uint32_t *visited,
                              uint32_t round)
{
    uint32_t src = g->edges[edge].src, head = 0, tail = 0;
    queue[tail++] = g->edges[edge].dst;
    visited[g->edges[edge].dst] = round;
    while (head < tail) {
        uint32_t node = queue[head++];
        arena_spend(g->arena, 1 + g->in_first[node + 1] - g->in_first[node]);
        for (uint32_t i = g->in_first[node]; i < g->in_first[node + 1]; i++) {
            const struct edge *e = &g->edges[g->in[i]];
            if (e->dead || g->in[i] == edge || visited[e->src] == round)
                continue;
            if (e->src == src)
                return true;
            visited[e->src] = round;
            queue[tail++] = e->src;
        }
    }
    return false;
}

static void drop_redundant_edges(struct graph *g)
{
    uint32_t *queue = arena_array(g->arena, g->n_nodes + 1, sizeof *queue);
    uint32_t *visited = arena_array(g->arena, g->n_nodes + 1, sizeof *visited);
    uint32_t round = 0;
    for (size_t i = g->n_selected; i-- > 0;) {
        size_t n;
        uint32_t *in = graph_sorted_in(g, g->selected[i], &n);
        // Keep residual edges heavier than a real edge, to avoid confusion.
        while (n-- > 0 && g->edges[in[n]].residual)
            if (edge_is_redundant(g, in[n], queue, visited, ++round))
                g->edges[in[n]].dead = true;
    }
}

// Keeps only the wanted nodes; in a tree, reconnects the rest.
static void keep_nodes(struct graph *g, const bool *wanted, bool tree)
{
    bool *kept = arena_array(g->arena, g->n_nodes + 1, sizeof *kept);
    if (tree) {
        memset(kept, true, g->n_nodes);
        for (size_t i = 0; i < g->n_selected; i++)
            kept[g->selected[i]] = wanted[i];
        graph_trim_tree(g, kept);
        return;
    }
    size_t n = 0;
    for (size_t i = 0; i < g->n_selected; i++) {
        if (!wanted[i])
            continue;
        kept[g->selected[i]] = true;
        g->selected[n++] = g->selected[i];
    }
    g->n_selected = n;
    g->is_kept = kept;
}

static const bool *match_symbol(struct graph *g)
{
    g->matches = arena_array(g->arena, g->n_nodes + 1, sizeof *g->matches);
    for (size_t i = 0; i < g->n_selected; i++) {
        uint32_t node = g->selected[i];
        g->matches[node] = model_regex_match(g->r->o.symbol, g->nodes[node].name);
    }
    return g->matches;
}

struct graph *graph_new_trimmed(struct report *r)
{
    const struct report_options *o = &r->o;
    bool visual = o->format == REPORT_DOT;
    bool tree = o->call_tree && (visual || o->format == REPORT_CALLGRIND);
    struct graph *g = arena_alloc(r->arena, sizeof *g);
    *g = (struct graph){.r = r, .arena = r->arena, .p = r->p, .is_tree = tree};
    if (tree)
        graph_build_tree(g);
    else
        graph_count_values(g);

    int64_t total = 0;
    for (size_t i = 0; i < g->n_selected; i++)
        total = units_add(total, g->nodes[g->selected[i]].flat);
    int64_t node_cutoff = units_abs(units_truncate((double)total * o->node_fraction));
    int64_t edge_cutoff = units_abs(units_truncate((double)total * o->edge_fraction));

    if (node_cutoff > 0) {
        bool *wanted = arena_array(g->arena, g->n_selected + 1, sizeof *wanted);
        size_t n_wanted = 0;
        for (size_t i = 0; i < g->n_selected; i++) {
            wanted[i] = units_abs(g->nodes[g->selected[i]].cum) >= node_cutoff;
            n_wanted += wanted[i];
        }
        if (n_wanted != g->n_selected) {
            g->n_dropped_nodes = g->n_selected - n_wanted;
            keep_nodes(g, wanted, tree);
        }
    }
    g->n_original = g->n_selected;

    // Count edges after the nodes are final; graphs however select nodes by their edges.
    bool connected = tree;
    bool chooses = o->node_count > 0;
    if (visual && !connected) {
        graph_connect(g);
        graph_tag(g, chooses);
        connected = true;
    }
    sort_nodes(g);
    if (chooses) {
        if (connected) {
            drop_light_tags(g, node_cutoff);
            drop_light_edges(g, edge_cutoff);
        }
        size_t most = nodes_that_fit(g, (size_t)o->node_count);
        if (most != g->n_selected) {
            bool *wanted = arena_array(g->arena, g->n_selected + 1, sizeof *wanted);
            memset(wanted, true, most);
            keep_nodes(g, wanted, tree);
            if (!tree)
                connected = false;
            if (visual && !tree) {
                graph_connect(g);
                connected = true;
            }
            sort_nodes(g);
        }
        if (visual && !tree)
            graph_tag(g, false);
    }
    if (!connected && (o->format == REPORT_TEXT || o->format == REPORT_TOPPROTO))
        graph_connect_inlined(g);
    else if (!connected && o->symbol)
        graph_connect_around(g, match_symbol(g));
    else if (!connected)
        graph_connect(g);
    drop_light_tags(g, node_cutoff);
    g->n_dropped_edges = drop_light_edges(g, edge_cutoff);
    graph_index_edges(g);
    if (visual) {
        drop_redundant_edges(g);
        index_tags(g);
    }
    return g;
}

// --- header and unit ---

void graph_select_unit(struct graph *g)
{
    struct report *r = g->r;
    if (!str_eq(r->o.output_unit, STR("minimum")) || g->n_selected == 0)
        return;
    int64_t least = 0, most = r->total;
    for (size_t i = 0; i < g->n_selected; i++) {
        const struct node *n = &g->nodes[g->selected[i]];
        int64_t v = units_abs(node_flat(n));
        if (v == 0)
            v = units_abs(node_cum(n));
        if (v > 0 && (least == 0 || v < least))
            least = v;
    }
    if (least == 0)
        least = most;
    if (r->o.ratio > 0 && r->o.ratio != 1) {
        least = units_truncate((double)least * r->o.ratio);
        most = units_truncate((double)most * r->o.ratio);
    }
    struct str unit, most_unit, minimum = STR("minimum");
    units_scale(least, r->o.unit, minimum, &unit);
    units_scale(most, r->o.unit, minimum, &most_unit);
    if (!str_eq(unit, most_unit) && units_mul(least, 100) < most && r->o.format != REPORT_CALLGRIND)
        units_scale(units_mul(least, 100), r->o.unit, minimum, &unit);
    r->o.output_unit = unit.n ? unit : r->o.unit;
}

// "Dropped 3 nodes (cum <= 0.05s)"
static void dropped_line(struct out *out, const struct report *r, size_t n, const char *what,
                         const char *measure, double fraction)
{
    char limit[256];
    report_format_value(r, units_abs(units_truncate((double)r->total * fraction)), limit,
                        sizeof limit);
    out_printf(out, "\nDropped %zu %s%s (%s <= %s)", n, what, n > 1 ? "s" : "", measure, limit);
}

struct str graph_labels(struct graph *g, bool full_headers)
{
    const struct report *r = g->r;
    struct out out;
    out_init_arena(&out, g->arena);
    if (full_headers || !r->o.compact_labels) {
        struct str labels = report_profile_labels(r);
        out_str(&out, labels);
        if (labels.n)
            out_char(&out, '\n');
    }
    if (r->o.n_filters) {
        out_text(&out, "Active filters:\n");
        for (size_t i = 0; i < r->o.n_filters; i++) {
            struct str f = r->o.filters[i];
            out_text(&out, "   ");
            out_write(&out, f.p, f.n > 80 ? 80 : f.n);
            out_text(&out, f.n > 80 ? "…\n" : "\n");
        }
    }
    int64_t shown = 0;
    for (size_t i = 0; i < g->n_selected; i++)
        shown = units_add(shown, node_flat(&g->nodes[g->selected[i]]));
    char value[256], total[256], percent[32];
    report_format_value(r, shown, value, sizeof value);
    report_format_value(r, r->total, total, sizeof total);
    size_t n = units_percentage(percent, sizeof percent, shown, r->total);
    struct str share = str_trim((struct str){percent, n});
    out_printf(&out, "Showing nodes accounting for %s, %.*s of %s total", value, (int)share.n,
               share.p, total);
    if (r->total != 0) {
        if (g->n_dropped_nodes)
            dropped_line(&out, r, g->n_dropped_nodes, "node", "cum", r->o.node_fraction);
        if (g->n_dropped_edges && full_headers)
            dropped_line(&out, r, g->n_dropped_edges, "edge", "freq", r->o.edge_fraction);
        if (g->n_selected > 0 && g->n_selected < g->n_original)
            out_printf(&out, "\nShowing top %zu nodes out of %zu", g->n_selected, g->n_original);
    }
    if (full_headers)
        out_text(&out, "\n\nSee https://git.io/JfYMW for how to read the graph");
    return out_result(&out);
}
