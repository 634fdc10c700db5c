// Nodes, values and edges. Nodes get dense numbers, so a frame costs a table lookup; a stamp per
// node and edge shows whether the current sample was already counted.
#include "report/tagger.h"

#include <stdlib.h>

#include "model/stream.h"
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

// Kept small: all nodes should fit the cache.
struct node_sum {
    int64_t cum;
    size_t seen; // the last counted sample, plus one
};

// What one thread counted.
struct value_counts {
    struct node_sum *sums; // by node
    int64_t *cum_div;      // of means
    int64_t *flat, *flat_div;
};

// The nodes of a location that has at most two (most have one: then both are the same).
// Otherwise second is MODEL_NONE.
struct node_pair {
    uint32_t first, second;
};

struct value_counter {
    const struct graph *g;
    const struct node_pair *pairs;             // by location
    struct value_counts counts[PARALLEL_MOST]; // by worker
};

// Without branches: whether a location has an inlined call is hard to predict.
static inline void count_node(struct value_counts *c, uint32_t node, size_t sample, struct weight w)
{
    struct node_sum *sum = &c->sums[node];
    int64_t mask = -(int64_t)(sum->seen != sample + 1);
    sum->seen = sample + 1;
    sum->cum = units_add(sum->cum, w.value & mask);
    if (w.divisor)
        c->cum_div[node] = units_add(c->cum_div[node], w.divisor & mask);
}

static void count_location(const struct value_counter *counter, struct value_counts *c,
                           uint32_t location, size_t sample, struct weight w)
{
    const struct graph *g = counter->g;
    for (uint32_t k = g->first_node[location]; k < g->first_node[location + 1]; k++)
        count_node(c, g->location_nodes[k], sample, w);
}

static void count_window(void *context, struct parallel_worker *worker,
                         const struct model_profile *p, size_t first)
{
    struct value_counter *counter = context;
    const struct graph *g = counter->g;
    const struct node_pair *pairs = counter->pairs;
    struct value_counts *c = &counter->counts[worker->index];
    if (!c->sums) {
        c->sums = arena_array(worker->arena, g->n_nodes + 1, sizeof *c->sums);
        c->cum_div = arena_array(worker->arena, g->n_nodes + 1, sizeof *c->cum_div);
        c->flat = arena_array(worker->arena, g->n_nodes + 1, sizeof *c->flat);
        c->flat_div = arena_array(worker->arena, g->n_nodes + 1, sizeof *c->flat_div);
    }
    for (size_t s = 0; s < p->n_samples; s++) {
        struct weight w = sample_weight(g, p, s);
        uint32_t len = p->stack_len[s];
        if ((w.value == 0 && w.divisor == 0) || len == 0)
            continue;
        const uint32_t *frames = model_stack(p, s);
        for (uint32_t i = 0; i < len; i++) {
            struct node_pair nodes = pairs[frames[i]];
            if (nodes.second == MODEL_NONE) {
                count_location(counter, c, frames[i], first + s, w);
                continue;
            }
            count_node(c, nodes.first, first + s, w);
            count_node(c, nodes.second, first + s, w);
        }
        uint32_t leaf = g->location_nodes[g->first_node[frames[0]]];
        c->flat[leaf] = units_add(c->flat[leaf], w.value);
        c->flat_div[leaf] = units_add(c->flat_div[leaf], w.divisor);
    }
}

static void count_graph_samples(struct graph *g)
{
    const struct model_profile *p = g->p;
    struct node_pair *pairs = arena_array(g->arena, p->n_locations + 1, sizeof *pairs);
    for (uint32_t i = 0; i < p->n_locations; i++) {
        const uint32_t *nodes = g->location_nodes + g->first_node[i];
        uint32_t n = g->first_node[i + 1] - g->first_node[i];
        pairs[i] = (struct node_pair){nodes[0], n > 2 ? MODEL_NONE : nodes[n - 1]};
    }
    struct value_counter *counter = arena_alloc(g->arena, sizeof *counter);
    counter->g = g;
    counter->pairs = pairs;
    model_each_window(p, g->arena, 0, count_window, counter);
    for (unsigned i = 0; i < PARALLEL_MOST; i++) {
        const struct value_counts *c = &counter->counts[i];
        for (size_t k = 0; c->sums && k < g->n_nodes; k++) {
            struct node *node = &g->nodes[k];
            node->cum = units_add(node->cum, c->sums[k].cum);
            node->flat = units_add(node->flat, c->flat[k]);
            node->cum_div = units_add(node->cum_div, c->cum_div[k]);
            node->flat_div = units_add(node->flat_div, c->flat_div[k]);
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
