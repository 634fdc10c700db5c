// Nodes, values and edges. Nodes get dense numbers, so a frame costs a table lookup; a stamp per
// node and edge shows whether the current sample was already counted.
#include "report/tagger.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "model/units.h"

int64_t graph_value(int64_t value, int64_t divisor)
{
    return divisor ? units_div(value, divisor) : value;
}

// --- nodes ---

static bool same_info(const struct node_info *a, const struct node_info *b)
{
    return a->name == b->name && a->address == b->address && a->line == b->line &&
           a->file == b->file && a->object == b->object && a->column == b->column &&
           a->start_line == b->start_line;
}

static uint64_t hash_info(const struct node_info *i)
{
    uint64_t h = hash_mix(((uint64_t)i->name << 32) | i->file, i->address);
    h = hash_mix(h ^ i->object, (uint64_t)i->line);
    return hash_mix(h ^ (uint64_t)i->start_line, (uint64_t)i->column);
}

static uint32_t find_or_add_node(struct graph *g, const struct node_info *info)
{
    uint64_t hash = hash_info(info);
    for (struct hash_probe at = hash_find(&g->node_index, hash); hash_hit(&g->node_index, &at);
         hash_next(&g->node_index, &at))
        if (same_info(&g->nodes[at.item].info, info))
            return at.item;
    struct node_info function = *info;
    function.address = 0;
    function.line = function.column = 0;
    g->nodes = arena_push(g->arena, g->nodes, g->n_nodes, &g->cap_nodes, sizeof *g->nodes);
    g->nodes[g->n_nodes] = (struct node){.info = *info, .function = hash_info(&function)};
    hash_add(&g->node_index, g->arena, hash, (uint32_t)g->n_nodes);
    return (uint32_t)g->n_nodes++;
}

// The cleaned file name of each function; each path is processed once.
static uint32_t *clean_files(struct graph *g, bool trim)
{
    const struct model_profile *p = g->p;
    const struct report_options *o = &g->r->o;
    uint32_t *files = arena_array(g->arena, p->n_functions + 1, sizeof *files);
    size_t n_strings = p->strings->n;
    uint32_t *done = arena_array(g->arena, n_strings, sizeof *done); // id + 1
    for (uint32_t i = 0; i < p->n_functions; i++) {
        uint32_t id = p->functions[i].filename;
        if (id == 0)
            continue;
        if (!done[id]) {
            struct str path = model_str(p, id);
            if (trim)
                path = path_trim(path, o->trim_path, o->source_path);
            if (path.n)
                path = path_clean(g->arena, path);
            done[id] = model_intern(p->strings, path) + 1;
        }
        files[i] = done[id] - 1;
    }
    return files;
}

// Whether functions of different binaries stay separate.
static bool keeps_objects(enum report_format format)
{
    return format == REPORT_CALLGRIND || format == REPORT_LIST || format == REPORT_DISASM;
}

static struct node_info line_info(const struct graph *g, const struct model_location *l,
                                  const struct model_line *line, const uint32_t *files)
{
    const struct model_profile *p = g->p;
    uint32_t object = l->mapping == MODEL_NONE ? 0 : p->mappings[l->mapping].file;
    if (!line)
        return (struct node_info){.address = l->address, .object = object};
    const struct model_function *f = &p->functions[line->function];
    struct node_info info = {
        .address = l->address,
        .line = line->line,
        .column = line->column,
        .name = f->name,
        .file = files[line->function],
    };
    if (f->name == 0 || keeps_objects(g->r->o.format)) {
        info.object = object;
        info.start_line = f->start_line;
    }
    return info;
}

static void make_nodes(struct graph *g, bool trim)
{
    const struct model_profile *p = g->p;
    uint32_t *files = clean_files(g, trim);
    g->first_node = arena_array(g->arena, (size_t)p->n_locations + 1, sizeof *g->first_node);
    size_t total = 0;
    for (uint32_t i = 0; i < p->n_locations; i++) {
        g->first_node[i] = (uint32_t)total;
        total += p->locations[i].n_lines ? p->locations[i].n_lines : 1;
        g->has_inlines |= p->locations[i].n_lines > 1;
    }
    g->first_node[p->n_locations] = (uint32_t)total;
    g->location_nodes = arena_array(g->arena, total + 1, sizeof *g->location_nodes);
    hash_init(&g->node_index, g->arena, p->n_locations);
    for (uint32_t i = 0; i < p->n_locations; i++) {
        const struct model_location *l = &p->locations[i];
        uint32_t *to = g->location_nodes + g->first_node[i];
        struct node_info info =
            line_info(g, l, l->n_lines ? p->lines + l->first_line : NULL, files);
        to[0] = find_or_add_node(g, &info);
        for (uint32_t k = 1; k < l->n_lines; k++) {
            g->nodes[to[k - 1]].may_be_inlined = true;
            info = line_info(g, l, p->lines + l->first_line + k, files);
            to[k] = find_or_add_node(g, &info);
        }
    }
}

static struct graph *graph_alloc(struct report *r)
{
    struct graph *g = arena_alloc(r->arena, sizeof *g);
    g->r = r;
    g->arena = r->arena;
    g->p = r->p;
    return g;
}

struct graph *graph_new_nodes(struct report *r)
{
    struct graph *g = graph_alloc(r);
    make_nodes(g, false);
    return g;
}

// --- values ---

struct sum {
    int64_t cum, flat;
    size_t seen; // the last counted sample, plus one
    int64_t cum_div, flat_div;
};

// A range of samples, counted by its own thread.
struct part {
    const struct graph *g;
    const uint32_t *only; // the node of each location that has exactly one (most have)
    size_t from, to;
    struct sum *sums; // by node
};

static inline void count_node(struct sum *sum, size_t sample, struct weight w)
{
    if (sum->seen == sample + 1)
        return;
    sum->seen = sample + 1;
    sum->cum = units_add(sum->cum, w.value);
    sum->cum_div = units_add(sum->cum_div, w.divisor);
}

static void *count_part(void *context)
{
    const struct part *part = context;
    const struct graph *g = part->g;
    const struct model_profile *p = g->p;
    for (size_t s = part->from; s < part->to; s++) {
        struct weight w = sample_weight(g, s);
        uint32_t len = p->stack_len[s];
        if ((w.value == 0 && w.divisor == 0) || len == 0)
            continue;
        const uint32_t *frames = model_stack(p, s);
        for (uint32_t i = 0; i < len; i++) {
            uint32_t node = part->only[frames[i]];
            if (node != MODEL_NONE) {
                count_node(&part->sums[node], s, w);
                continue;
            }
            for (uint32_t k = g->first_node[frames[i]]; k < g->first_node[frames[i] + 1]; k++)
                count_node(&part->sums[g->location_nodes[k]], s, w);
        }
        struct sum *leaf = &part->sums[g->location_nodes[g->first_node[frames[0]]]];
        leaf->flat = units_add(leaf->flat, w.value);
        leaf->flat_div = units_add(leaf->flat_div, w.divisor);
    }
    return NULL;
}

enum { MOST_PARTS = 4, WORTH_A_THREAD = 100000 };

static void count_graph_samples(struct graph *g)
{
    const struct model_profile *p = g->p;
    uint32_t *only = arena_array(g->arena, p->n_locations + 1, sizeof *only);
    for (uint32_t i = 0; i < p->n_locations; i++)
        only[i] = g->first_node[i + 1] - g->first_node[i] == 1 ? g->location_nodes[g->first_node[i]]
                                                               : MODEL_NONE;
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    size_t n = p->n_samples / WORTH_A_THREAD;
    n = n > MOST_PARTS ? MOST_PARTS : n;
    n = processors > 0 && n > (size_t)processors ? (size_t)processors : n;
    n = n ? n : 1;
    struct part parts[MOST_PARTS];
    pthread_t threads[MOST_PARTS];
    bool started[MOST_PARTS] = {false};
    for (size_t i = 0; i < n; i++)
        parts[i] = (struct part){
            .g = g,
            .only = only,
            .from = p->n_samples / n * i,
            .to = i + 1 == n ? p->n_samples : p->n_samples / n * (i + 1),
            .sums = arena_array(g->arena, g->n_nodes + 1, sizeof(struct sum)),
        };
    for (size_t i = 1; i < n; i++)
        started[i] = pthread_create(&threads[i], NULL, count_part, &parts[i]) == 0;
    for (size_t i = 0; i < n; i++) {
        if (started[i])
            pthread_join(threads[i], NULL);
        else
            count_part(&parts[i]);
        for (size_t k = 0; k < g->n_nodes; k++) {
            struct node *node = &g->nodes[k];
            const struct sum *sum = &parts[i].sums[k];
            node->cum = units_add(node->cum, sum->cum);
            node->flat = units_add(node->flat, sum->flat);
            node->cum_div = units_add(node->cum_div, sum->cum_div);
            node->flat_div = units_add(node->flat_div, sum->flat_div);
        }
    }
}

static bool is_selected(const struct graph *g, const struct node *n)
{
    if (n->cum == 0 && n->flat == 0)
        return false;
    return !(g->r->o.drop_negative && (n->flat < 0 || (n->flat == 0 && n->cum < 0)));
}

void graph_select_nodes(struct graph *g)
{
    g->selected = arena_array(g->arena, g->n_nodes + 1, sizeof *g->selected);
    g->n_selected = 0;
    for (size_t i = 0; i < g->n_nodes; i++)
        if (is_selected(g, &g->nodes[i]))
            g->selected[g->n_selected++] = (uint32_t)i;
}

void graph_make_nodes(struct graph *g)
{
    make_nodes(g, true);
}

void graph_count_values(struct graph *g)
{
    make_nodes(g, true);
    count_graph_samples(g);
    graph_select_nodes(g);
}

struct graph *graph_new_values(struct report *r)
{
    struct graph *g = graph_alloc(r);
    graph_count_values(g);
    return g;
}

// --- edges ---

struct connector {
    struct graph *g;
    struct hash_table index;
    // The last edge into each node: stacks are often similar.
    struct {
        uint32_t parent, edge;
    } * last;
};

static uint32_t find_or_add_edge(struct connector *c, uint32_t src, uint32_t dst)
{
    struct graph *g = c->g;
    if (c->last[dst].parent == src)
        return c->last[dst].edge;
    uint64_t hash = hash_mix(src, dst);
    uint32_t edge = MODEL_NONE;
    for (struct hash_probe at = hash_find(&c->index, hash); hash_hit(&c->index, &at);
         hash_next(&c->index, &at)) {
        if (g->edges[at.item].src == src && g->edges[at.item].dst == dst) {
            edge = at.item;
            break;
        }
    }
    if (edge == MODEL_NONE) {
        g->edges = arena_push(g->arena, g->edges, g->n_edges, &g->cap_edges, sizeof *g->edges);
        edge = (uint32_t)g->n_edges++;
        g->edges[edge] = (struct edge){.src = src, .dst = dst, .is_inline = true};
        hash_add(&c->index, g->arena, hash, edge);
    }
    c->last[dst].parent = src;
    c->last[dst].edge = edge;
    return edge;
}

// Counts a sample once per edge; the outermost occurrence decides its flags.
static inline void add_to_edge(struct connector *c, uint32_t src, uint32_t dst, size_t sample,
                               struct weight w, bool residual, bool is_inline)
{
    uint32_t index = find_or_add_edge(c, src, dst);
    struct edge *e = &c->g->edges[index];
    if (e->seen == sample + 1)
        return;
    e->seen = sample + 1;
    e->weight = units_add(e->weight, w.value);
    e->weight_div = units_add(e->weight_div, w.divisor);
    e->residual |= residual;
    e->is_inline &= is_inline;
}

static void connect_sample(struct connector *c, size_t s)
{
    struct graph *g = c->g;
    const struct model_profile *p = g->p;
    struct weight w = sample_weight(g, s);
    if (w.value == 0 && w.divisor == 0)
        return;
    const uint32_t *frames = model_stack(p, s);
    uint32_t parent = MODEL_NONE;
    bool residual = false;
    for (uint32_t i = p->stack_len[s]; i-- > 0;) {
        uint32_t first = g->first_node[frames[i]], last = g->first_node[frames[i] + 1] - 1;
        for (uint32_t k = last + 1; k-- > first;) {
            uint32_t node = g->location_nodes[k];
            if (g->is_kept && !g->is_kept[node]) {
                residual = true;
                continue;
            }
            if (parent != MODEL_NONE && parent != node)
                add_to_edge(c, parent, node, s, w, residual, k != last);
            parent = node;
            residual = false;
        }
    }
}

// Finds only edges into the nodes of interest, and if outgoing also out of them. Other frames cost
// only a lookup.
static void connect_some(struct connector *c, const bool *interest, bool outgoing)
{
    struct graph *g = c->g;
    const struct model_profile *p = g->p;
    // For each location: whether it has such a node, and its innermost and outermost kept node.
    uint8_t *interesting = arena_array(g->arena, p->n_locations + 1, 1);
    uint32_t *innermost = arena_array(g->arena, p->n_locations + 1, sizeof *innermost);
    uint32_t *outermost = arena_array(g->arena, p->n_locations + 1, sizeof *outermost);
    for (uint32_t i = 0; i < p->n_locations; i++) {
        innermost[i] = outermost[i] = MODEL_NONE;
        for (uint32_t k = g->first_node[i + 1]; k-- > g->first_node[i];) {
            uint32_t node = g->location_nodes[k];
            if (g->is_kept && !g->is_kept[node])
                continue;
            interesting[i] |= interest[node];
            innermost[i] = node;
            if (outermost[i] == MODEL_NONE)
                outermost[i] = node;
        }
    }
    for (size_t s = 0; s < p->n_samples; s++) {
        struct weight w = sample_weight(g, s);
        if (w.value == 0 && w.divisor == 0)
            continue;
        const uint32_t *frames = model_stack(p, s);
        uint32_t n = p->stack_len[s];
        for (uint32_t i = n; i-- > 0;) {
            arena_spend(g->arena, 1);
            if (!interesting[frames[i]])
                continue;
            uint32_t parent = MODEL_NONE;
            for (uint32_t up = i + 1; up < n && parent == MODEL_NONE; up++) {
                arena_spend(g->arena, 1);
                parent = innermost[frames[up]];
            }
            uint32_t first = g->first_node[frames[i]], last = g->first_node[frames[i] + 1] - 1;
            for (uint32_t k = last + 1; k-- > first;) {
                uint32_t node = g->location_nodes[k];
                if (g->is_kept && !g->is_kept[node])
                    continue;
                if (parent != MODEL_NONE && parent != node &&
                    (interest[node] || (outgoing && interest[parent])))
                    add_to_edge(c, parent, node, s, w, false, k != last);
                parent = node;
            }
            uint32_t child = MODEL_NONE;
            if (outgoing && interest[parent])
                for (uint32_t down = i; down-- > 0 && child == MODEL_NONE;) {
                    arena_spend(g->arena, 1);
                    child = outermost[frames[down]];
                }
            if (child != MODEL_NONE && child != parent)
                add_to_edge(c, parent, child, s, w, false, false);
        }
    }
}

static void connector_init(struct connector *c, struct graph *g)
{
    *c = (struct connector){.g = g};
    g->edges = NULL;
    g->n_edges = g->cap_edges = 0;
    hash_init(&c->index, g->arena, 1024);
    c->last = arena_array(g->arena, g->n_nodes + 1, sizeof *c->last);
    memset(c->last, 0xff, g->n_nodes * sizeof *c->last);
}

void graph_connect(struct graph *g)
{
    struct connector c;
    connector_init(&c, g);
    for (size_t s = 0; s < g->p->n_samples; s++) {
        arena_spend(g->arena, 1 + g->p->stack_len[s]);
        connect_sample(&c, s);
    }
}

void graph_connect_inlined(struct graph *g)
{
    if (!g->has_inlines)
        return;
    struct connector c;
    connector_init(&c, g);
    bool *interest = arena_array(g->arena, g->n_nodes + 1, sizeof *interest);
    for (size_t i = 0; i < g->n_nodes; i++)
        interest[i] = g->nodes[i].may_be_inlined;
    connect_some(&c, interest, false);
}

void graph_connect_around(struct graph *g, const bool *interest)
{
    struct connector c;
    connector_init(&c, g);
    connect_some(&c, interest, true);
}
