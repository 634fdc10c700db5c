#include <stdlib.h>

#include "base/sort.h"
#include "query/names.h"

// A tree in order of discovery; sorted afterwards.
struct grown {
    struct arena *arena;
    uint32_t *parent, *name;
    int64_t *self;
    uint32_t n;
    size_t cap_parent, cap_name, cap_self;
    struct hash_table index;
    struct model_strings *names;
};

static uint32_t new_tree_node(struct grown *g, uint32_t parent, uint32_t name)
{
    g->parent = arena_push(g->arena, g->parent, g->n, &g->cap_parent, sizeof *g->parent);
    g->name = arena_push(g->arena, g->name, g->n, &g->cap_name, sizeof *g->name);
    g->self = arena_push(g->arena, g->self, g->n, &g->cap_self, sizeof *g->self);
    g->parent[g->n] = parent;
    g->name[g->n] = name;
    g->self[g->n] = 0;
    return g->n++;
}

static uint32_t tree_child(struct grown *g, uint32_t parent, uint32_t name)
{
    uint64_t hash = hash_mix(parent, name);
    for (struct hash_probe at = hash_find(&g->index, hash); hash_hit(&g->index, &at);
         hash_next(&g->index, &at))
        if (g->parent[at.item] == parent && g->name[at.item] == name)
            return at.item;
    hash_add(&g->index, g->arena, hash, g->n);
    return new_tree_node(g, parent, name);
}

// --- order and totals ---

static int compare_node_names(const void *a, const void *b, void *names)
{
    const struct str *s = names;
    return str_cmp(s[*(const uint32_t *)a], s[*(const uint32_t *)b]);
}

// Sorts nodes depth-first, children by name, and computes totals.
static struct query_tree *sort_tree(struct arena *arena, uint32_t n, const uint32_t *parent,
                                    const uint32_t *name, const int64_t *self, struct str *names,
                                    uint32_t n_names)
{
    struct query_tree *t = arena_alloc(arena, sizeof *t);
    uint32_t *order = arena_array(arena, n_names, sizeof *order);
    uint32_t *rank = arena_array(arena, n_names, sizeof *rank);
    for (uint32_t i = 0; i < n_names; i++)
        order[i] = i;
    sort_items_by(arena, order, n_names, sizeof *order, compare_node_names, names);
    for (uint32_t i = 0; i < n_names; i++)
        rank[order[i]] = i;
    // Prepend nodes by descending rank of their names to their parents' lists, which are then
    // ascending.
    uint32_t *count = arena_array(arena, (size_t)n_names + 1, sizeof *count);
    uint32_t *by_rank = arena_array(arena, n, sizeof *by_rank);
    for (uint32_t i = 1; i < n; i++) {
        arena_spend(arena, 1);
        count[n_names - 1 - rank[name[i]] + 1]++;
    }
    for (uint32_t i = 0; i < n_names; i++)
        count[i + 1] += count[i];
    for (uint32_t i = 1; i < n; i++) {
        arena_spend(arena, 1);
        by_rank[count[n_names - 1 - rank[name[i]]]++] = i;
    }
    uint32_t *first = arena_array(arena, n, sizeof *first);
    uint32_t *next = arena_array(arena, n, sizeof *next);
    for (uint32_t i = 0; i + 1 < n; i++) {
        uint32_t node = by_rank[i];
        arena_spend(arena, 1);
        next[node] = first[parent[node]];
        first[parent[node]] = node;
    }
    *t = (struct query_tree){.n_nodes = n, .names = names, .n_names = n_names};
    t->parent = arena_array(arena, n, sizeof *t->parent);
    t->name = arena_array(arena, n, sizeof *t->name);
    t->self = arena_array(arena, n, sizeof *t->self);
    t->total = arena_array(arena, n, sizeof *t->total);
    uint32_t *to = arena_array(arena, n, sizeof *to), at = 0;
    for (uint32_t node = 0, made = 0;;) {
        arena_spend(arena, 1);
        to[node] = made;
        t->parent[made] = to[parent[node]];
        t->name[made] = name[node];
        t->self[made] = t->total[made] = self[node];
        made++;
        at = node;
        if (first[node]) {
            node = first[node];
            continue;
        }
        while (at && !next[at])
            at = parent[at];
        if (!at)
            break;
        node = next[at];
    }
    for (uint32_t i = n; i-- > 1;) {
        arena_spend(arena, 1);
        t->total[t->parent[i]] =
            (int64_t)((uint64_t)t->total[t->parent[i]] + (uint64_t)t->total[i]);
    }
    return t;
}

static void grow_tree(struct grown *g, const struct store_stacks *s, const struct str *keep,
                      size_t n_keep)
{
    struct query_naming naming;
    query_naming_init(&naming, s->symbols, g->names);
    uint32_t *to = arena_array(g->arena, s->n_nodes, sizeof *to);
    // How many names of keep the path down to a node has matched; a stack counts if all matched.
    uint32_t *met = arena_array(g->arena, s->n_nodes, sizeof *met);
    bool *out = arena_array(g->arena, s->n_nodes, sizeof *out);
    g->self[0] = 0; // samples without a stack count only in time series
    for (uint32_t i = 1; i < s->n_nodes; i++) {
        uint32_t parent = s->parent[i], node = to[parent];
        uint32_t lines = query_frames(&naming, s->location[i]);
        met[i] = met[parent];
        out[i] = out[parent];
        arena_spend(g->arena, 1 + lines);
        for (uint32_t j = lines; j-- > 0 && !out[i];) {
            uint32_t name = query_frame_name(&naming, s->location[i], j);
            if (met[i] < n_keep) {
                if (str_eq(g->names->items[name], keep[met[i]]))
                    met[i]++;
                else
                    out[i] = true;
            }
            if (!out[i])
                node = tree_child(g, node, name);
        }
        to[i] = node;
        if (!out[i] && met[i] == n_keep)
            g->self[node] = (int64_t)((uint64_t)g->self[node] + (uint64_t)s->self[i]);
    }
}

// Removes nodes with nothing left below them: the selection rejected all their stacks.
static void drop_empty(struct grown *g)
{
    uint32_t n = 0;
    bool *used = arena_array(g->arena, g->n, sizeof *used);
    uint32_t *to = arena_array(g->arena, g->n, sizeof *to);
    used[0] = true;
    for (uint32_t i = g->n; i-- > 1;) {
        arena_spend(g->arena, 1);
        if (g->self[i] || used[i])
            used[i] = used[g->parent[i]] = true;
    }
    for (uint32_t i = 0; i < g->n; i++) {
        arena_spend(g->arena, 1);
        if (!used[i])
            continue;
        to[i] = n;
        g->parent[n] = to[g->parent[i]];
        g->name[n] = g->name[i];
        g->self[n] = g->self[i];
        n++;
    }
    g->n = n;
}

int query_tree(const struct store_stacks *stacks, const struct str *keep, size_t n_keep,
               struct arena *arena, struct query_tree **tree, struct err *e)
{
    struct arena_trap trap;
    if (ARENA_TRY(arena, trap)) {
        arena_caught(arena, e);
        return STORE_BUSY;
    }
    struct grown *g = arena_alloc(arena, sizeof *g);
    g->arena = arena;
    g->names = arena_alloc(arena, sizeof *g->names);
    *g->names = (struct model_strings){.arena = arena};
    hash_init(&g->names->index, arena, 1024);
    hash_init(&g->index, arena, stacks->n_nodes);
    new_tree_node(g, 0, model_intern(g->names, STR("total")));
    grow_tree(g, stacks, keep, n_keep);
    drop_empty(g);
    *tree =
        sort_tree(arena, g->n, g->parent, g->name, g->self, g->names->items, (uint32_t)g->names->n);
    arena_try_end(arena);
    return 0;
}

// --- truncation ---

static int compare_descending(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x > y ? -1 : x < y;
}

int64_t query_threshold(const int64_t *values, size_t n, int64_t max, struct arena *arena)
{
    if ((int64_t)n <= max)
        return INT64_MIN;
    int64_t *sorted = arena_array(arena, n, sizeof *sorted);
    memcpy(sorted, values, n * sizeof *sorted);
    sort_items(arena, sorted, n, sizeof *sorted, compare_descending);
    return sorted[max - 1];
}

// The smallest total to keep; max_nodes > 0.
static int64_t tree_threshold(const struct query_tree *t, int64_t max_nodes, struct arena *arena)
{
    return query_threshold(t->total + 1, t->n_nodes - 1, max_nodes, arena);
}

// Removes the nodes below least; their totals go to an "other" child of their parent. Functions
// named "other" either stay and absorb these totals, or, with gather_others, are merged like
// removed nodes.
static struct query_tree *cut_tree(const struct query_tree *t, int64_t least, bool gather_others,
                                   struct arena *arena)
{
    struct str *names = arena_array(arena, (size_t)t->n_names + 1, sizeof *names);
    memcpy(names, t->names, t->n_names * sizeof *names);
    uint32_t n_names = t->n_names, other = 0;
    for (; other < n_names && !str_eq(names[other], STR("other")); other++)
        arena_spend(arena, 1);
    if (other == n_names)
        names[n_names++] = STR("other");
    uint32_t *parent = arena_array(arena, (size_t)t->n_nodes * 2, sizeof *parent);
    uint32_t *name = arena_array(arena, (size_t)t->n_nodes * 2, sizeof *name);
    int64_t *self = arena_array(arena, (size_t)t->n_nodes * 2, sizeof *self);
    uint32_t *to = arena_array(arena, t->n_nodes, sizeof *to), n = 1;
    // The "other" child of a kept node; 0: none.
    uint32_t *rest = arena_array(arena, t->n_nodes, sizeof *rest);
    name[0] = t->name[0];
    self[0] = t->self[0];
    for (uint32_t i = 1; i < t->n_nodes; i++) {
        uint32_t up = t->parent[i];
        arena_spend(arena, 1);
        to[i] = UINT32_MAX;
        if (up && to[up] == UINT32_MAX)
            continue;
        bool is_other = t->name[i] == other;
        bool stays = is_other ? !gather_others : t->total[i] >= least;
        if ((!stays || is_other) && !rest[up]) {
            rest[up] = n;
            parent[n] = to[up];
            name[n++] = other;
        }
        if (!stays) {
            self[rest[up]] = (int64_t)((uint64_t)self[rest[up]] + (uint64_t)t->total[i]);
            continue;
        }
        to[i] = is_other ? rest[up] : n;
        if (is_other) {
            self[rest[up]] = (int64_t)((uint64_t)self[rest[up]] + (uint64_t)t->self[i]);
            continue;
        }
        parent[n] = to[up];
        name[n] = t->name[i];
        self[n++] = t->self[i];
    }
    return sort_tree(arena, n, parent, name, self, names, n_names);
}

struct query_tree *query_truncate(const struct query_tree *t, int64_t max_nodes,
                                  struct arena *arena)
{
    if (max_nodes == 0)
        max_nodes = QUERY_MAX_NODES;
    // Twice, as in Pyroscope, where the second pass counts "other" nodes.
    for (int i = 0; i < 2; i++) {
        int64_t least = max_nodes < 0 ? INT64_MIN : tree_threshold(t, max_nodes, arena);
        if (least == INT64_MIN)
            break;
        t = cut_tree(t, least, false, arena);
    }
    return (struct query_tree *)t;
}

struct query_tree *query_gather(const struct query_tree *t, int64_t max_nodes, struct arena *arena)
{
    int64_t least = max_nodes > 0 ? tree_threshold(t, max_nodes, arena) : INT64_MIN;
    return cut_tree(t, least, true, arena);
}
