#include "report/formats.h"

#include <stdio.h>

#include "model/units.h"

// Names are written once; after that, a number refers to them.
struct name_table {
    struct arena *arena;
    struct str *names;
    size_t n, cap;
    struct hash_table index;
};

static void put_callgrind_name(struct name_table *t, struct out *out, const char *prefix,
                               struct str name)
{
    out_text(out, prefix);
    if (name.n == 0) {
        out_char(out, '\n');
        return;
    }
    uint64_t hash = hash_bytes(name.p, name.n, 0);
    for (struct hash_probe at = hash_find(&t->index, hash); hash_hit(&t->index, &at);
         hash_next(&t->index, &at)) {
        if (str_eq(t->names[at.item], name)) {
            out_printf(out, "(%u)\n", at.item + 1);
            return;
        }
    }
    t->names = arena_push(t->arena, t->names, t->n, &t->cap, sizeof *t->names);
    t->names[t->n] = name;
    hash_add(&t->index, t->arena, hash, (uint32_t)t->n++);
    out_printf(out, "(%zu) ", t->n);
    out_str(out, name);
    out_char(out, '\n');
}

static void put_address(struct out *out, const struct node_info *previous, uint64_t address)
{
    char absolute[32], relative[32];
    snprintf(absolute, sizeof absolute, "0x%llx", (unsigned long long)address);
    const char *text = absolute;
    if (previous && previous->address == address)
        text = "*";
    else if (previous) {
        snprintf(relative, sizeof relative, "%+lld", (long long)(address - previous->address));
        if (strlen(relative) < strlen(absolute))
            text = relative;
    }
    out_text(out, text);
}

// Callgrind merges functions with the same name and file. Different ones get a number: "name
// [2/3]".
struct homonym {
    uint32_t file, name;
    uint64_t function;
    uint32_t number; // within its name, starting at 1
    uint32_t next;   // next function of that name
};

struct homonyms {
    struct arena *arena;
    struct homonym *items;
    size_t n, cap;
    struct hash_table index; // first function of each name
};

static uint32_t first_of_name(struct homonyms *h, uint32_t file, uint32_t name)
{
    uint64_t hash = hash_mix(file, name);
    for (struct hash_probe at = hash_find(&h->index, hash); hash_hit(&h->index, &at);
         hash_next(&h->index, &at))
        if (h->items[at.item].file == file && h->items[at.item].name == name)
            return at.item;
    return MODEL_NONE;
}

static void add_homonym(struct homonyms *h, const struct node *n)
{
    uint32_t first = first_of_name(h, n->info.file, n->info.name), last = MODEL_NONE, number = 1;
    for (uint32_t i = first; i != MODEL_NONE; i = h->items[i].next) {
        if (h->items[i].function == n->function)
            return;
        last = i;
        number++;
    }
    h->items = arena_push(h->arena, h->items, h->n, &h->cap, sizeof *h->items);
    h->items[h->n] = (struct homonym){n->info.file, n->info.name, n->function, number, MODEL_NONE};
    if (first == MODEL_NONE)
        hash_add(&h->index, h->arena, hash_mix(n->info.file, n->info.name), (uint32_t)h->n);
    else
        h->items[last].next = (uint32_t)h->n;
    h->n++;
}

static struct str distinct_name(struct homonyms *h, const struct model_profile *p,
                                const struct node *n)
{
    struct str name = model_str(p, n->info.name);
    uint32_t mine = 0, total = 0;
    for (uint32_t i = first_of_name(h, n->info.file, n->info.name); i != MODEL_NONE;
         i = h->items[i].next) {
        total = h->items[i].number;
        if (h->items[i].function == n->function)
            mine = total;
    }
    if (total <= 1)
        return name;
    return str_from(arena_printf(h->arena, "%.*s [%u/%u]", (int)name.n, name.p, mine, total));
}

static int64_t scale_callgrind_value(const struct report *r, int64_t value)
{
    return units_truncate(units_scale(value, r->o.unit, r->o.output_unit, NULL));
}

void report_callgrind(struct report *r, struct out *out)
{
    const struct model_profile *p = r->p;
    r->o.node_count = 0;
    r->o.node_fraction = r->o.edge_fraction = 0;
    struct graph *g = graph_new_trimmed(r);
    graph_select_unit(g);
    struct homonyms homonyms = {.arena = r->arena};
    hash_init(&homonyms.index, r->arena, g->n_selected);
    bool *shown = arena_array(r->arena, g->n_nodes + 1, sizeof *shown);
    for (size_t i = 0; i < g->n_selected; i++) {
        shown[g->selected[i]] = true;
        add_homonym(&homonyms, &g->nodes[g->selected[i]]);
    }
    out_text(out, "positions: instr line\nevents: ");
    out_str(out, r->o.type_name);
    out_char(out, '(');
    out_str(out, r->o.output_unit);
    out_text(out, ")\n");
    struct name_table objects = {.arena = r->arena}, files = objects, names = objects;
    hash_init(&objects.index, r->arena, 16);
    hash_init(&files.index, r->arena, 256);
    hash_init(&names.index, r->arena, 256);
    const struct node_info *previous = NULL;
    for (size_t i = 0; i < g->n_selected; i++) {
        const struct node *n = &g->nodes[g->selected[i]];
        if (!previous || n->info.object != previous->object || n->info.file != previous->file ||
            n->info.name != previous->name) {
            out_char(out, '\n');
            put_callgrind_name(&objects, out, "ob=", model_str(p, n->info.object));
            put_callgrind_name(&files, out, "fl=", model_str(p, n->info.file));
            put_callgrind_name(&names, out, "fn=", model_str(p, n->info.name));
        }
        put_address(out, previous, n->info.address);
        out_printf(out, " %lld %lld\n", (long long)n->info.line,
                   (long long)scale_callgrind_value(r, node_flat(n)));
        size_t n_out;
        uint32_t *edges = graph_sorted_out(g, g->selected[i], &n_out);
        for (size_t k = 0; k < n_out; k++) {
            const struct edge *e = &g->edges[edges[k]];
            const struct node *callee = &g->nodes[e->dst];
            put_callgrind_name(&files, out, "cfl=", model_str(p, callee->info.file));
            put_callgrind_name(
                &names, out, "cfn=", shown[e->dst] ? distinct_name(&homonyms, p, callee) : STR(""));
            out_text(out, "calls=0 ");
            put_address(out, previous, callee->info.address);
            out_printf(out, " %lld\n* * %lld\n", (long long)callee->info.line,
                       (long long)scale_callgrind_value(r, e->weight));
        }
        previous = &n->info;
    }
}
