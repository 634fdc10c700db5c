// Builds a call tree: a function reached on different paths becomes several nodes.
#include "model/units.h"
#include "report/tagger.h"

void graph_build_tree(struct graph *g)
{
    const struct model_profile *p = g->p;
    graph_make_nodes(g);
    struct node *kinds = g->nodes;
    g->nodes = NULL;
    g->n_nodes = g->cap_nodes = 0;
    struct hash_table index;
    hash_init(&index, g->arena, p->n_samples);
    uint32_t *kind_of = NULL, *edge_of = NULL, *parent_of = NULL;
    size_t cap_kind = 0, cap_edge = 0, cap_parent = 0;
    struct tagger tagger;
    tagger_init(&tagger, g);
    for (size_t s = 0; s < p->n_samples; s++) {
        struct weight w = sample_weight(g, p, s);
        if (w.value == 0 && w.divisor == 0)
            continue;
        const struct tag_set *tags = tagger_set(&tagger, s);
        const uint32_t *frames = model_stack(p, s);
        uint32_t parent = MODEL_NONE;
        for (uint32_t i = p->stack_len[s]; i-- > 0;) {
            uint32_t first = g->first_node[frames[i]], last = g->first_node[frames[i] + 1] - 1;
            for (uint32_t k = last + 1; k-- > first;) {
                uint32_t kind = g->location_nodes[k], node = MODEL_NONE;
                uint64_t hash = hash_mix(parent, kind);
                for (struct hash_probe at = hash_find(&index, hash); hash_hit(&index, &at);
                     hash_next(&index, &at)) {
                    if (parent_of[at.item] == parent && kind_of[at.item] == kind) {
                        node = at.item;
                        break;
                    }
                }
                if (node == MODEL_NONE) {
                    node = (uint32_t)g->n_nodes;
                    g->nodes =
                        arena_push(g->arena, g->nodes, node, &g->cap_nodes, sizeof *g->nodes);
                    kind_of = arena_push(g->arena, kind_of, node, &cap_kind, sizeof *kind_of);
                    edge_of = arena_push(g->arena, edge_of, node, &cap_edge, sizeof *edge_of);
                    parent_of =
                        arena_push(g->arena, parent_of, node, &cap_parent, sizeof *parent_of);
                    g->nodes[node] = (struct node){
                        .info = kinds[kind].info,
                        .function = hash_mix(kinds[kind].function, parent),
                    };
                    kind_of[node] = kind;
                    parent_of[node] = parent;
                    edge_of[node] = MODEL_NONE;
                    hash_add(&index, g->arena, hash, node);
                    g->n_nodes++;
                }
                struct node *n = &g->nodes[node];
                n->cum = units_add(n->cum, w.value);
                n->cum_div = units_add(n->cum_div, w.divisor);
                tagger_add(&tagger, tags, node, w, false);
                if (parent != MODEL_NONE) {
                    if (edge_of[node] == MODEL_NONE) {
                        edge_of[node] = (uint32_t)g->n_edges;
                        g->edges = arena_push(g->arena, g->edges, g->n_edges, &g->cap_edges,
                                              sizeof *g->edges);
                        g->edges[g->n_edges++] =
                            (struct edge){.src = parent, .dst = node, .is_inline = true};
                    }
                    struct edge *e = &g->edges[edge_of[node]];
                    e->weight = units_add(e->weight, w.value);
                    e->weight_div = units_add(e->weight_div, w.divisor);
                    e->is_inline &= k != last;
                }
                parent = node;
            }
        }
        if (parent != MODEL_NONE) {
            struct node *n = &g->nodes[parent];
            n->flat = units_add(n->flat, w.value);
            n->flat_div = units_add(n->flat_div, w.divisor);
            tagger_add(&tagger, tags, parent, w, true);
        }
    }
    graph_select_nodes(g);
}

// Removes nodes that are not kept. Residual edges connect their children to the next kept ancestor.
void graph_trim_tree(struct graph *g, const bool *kept)
{
    uint32_t *edge_of = arena_array(g->arena, g->n_nodes + 1, sizeof *edge_of);
    memset(edge_of, 0xff, g->n_nodes * sizeof *edge_of);
    for (size_t i = 0; i < g->n_edges; i++)
        if (!g->edges[i].dead)
            edge_of[g->edges[i].dst] = (uint32_t)i;
    // Parents precede their children, so the edges above are final.
    for (size_t i = 0; i < g->n_nodes; i++) {
        if (edge_of[i] == MODEL_NONE)
            continue;
        struct edge *e = &g->edges[edge_of[i]];
        if (!kept[e->src]) {
            uint32_t above = edge_of[e->src];
            if (above == MODEL_NONE) {
                e->dead = true;
                edge_of[i] = MODEL_NONE;
                continue;
            }
            e->src = g->edges[above].src;
            e->residual = true;
            e->is_inline &= g->edges[above].is_inline;
        }
    }
    for (size_t i = 0; i < g->n_edges; i++)
        if (!kept[g->edges[i].dst])
            g->edges[i].dead = true;
    size_t n = 0;
    for (size_t i = 0; i < g->n_selected; i++)
        if (kept[g->selected[i]])
            g->selected[n++] = g->selected[i];
    g->n_selected = n;
}
