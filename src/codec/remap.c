#include "codec/maps.h"

#include <stdlib.h>

// Whether b continues a, so that both are one mapping that was reported in two parts.
static bool is_adjacent(const struct model_mapping *a, const struct model_mapping *b)
{
    if (a->file && b->file && a->file != b->file)
        return false;
    if (a->build_id && b->build_id && a->build_id != b->build_id)
        return false;
    if (a->limit != b->start)
        return false;
    return !a->offset || !b->offset || a->offset + (a->limit - a->start) == b->offset;
}

// Matches [.]so at the end, or [.]so[._] and a digit anywhere.
static bool is_library(struct str file)
{
    for (size_t at = 0; (at = str_find(file, STR(".so"), at)) != SIZE_MAX; at++) {
        struct str rest = str_from_to(file, at + 3, file.n);
        if (rest.n == 0)
            return true;
        if (rest.n >= 2 && (rest.p[0] == '.' || rest.p[0] == '_') && scan_is_digit(rest.p[1]))
            return true;
    }
    return false;
}

static bool may_be_main(struct arena *arena, struct str file)
{
    struct str mark = STR("(deleted)");
    if (scan_contains(file, mark)) {
        char *kept = arena_alloc(arena, file.n);
        size_t n = 0;
        for (size_t i = 0; i < file.n;) {
            if (str_starts(str_from_to(file, i, file.n), mark))
                i += mark.n;
            else
                kept[n++] = file.p[i++];
        }
        file = (struct str){kept, n};
    }
    file = scan_trim(file);
    return file.n && file.p[0] != '[' && !is_library(file);
}

void maps_massage(struct model_builder *b)
{
    struct model_profile *p = b->p;
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->n_mappings; i++) {
        struct model_mapping *m = &p->mappings[i], *last = n ? &p->mappings[n - 1] : NULL;
        if (last && is_adjacent(last, m)) {
            last->limit = m->limit;
            last->file = m->file ? m->file : last->file;
            last->build_id = m->build_id ? m->build_id : last->build_id;
        } else {
            p->mappings[n++] = *m;
        }
    }
    p->n_mappings = n;
    maps_main_first(b);
}

void maps_main_first(struct model_builder *b)
{
    struct model_profile *p = b->p;
    uint32_t n = p->n_mappings;
    for (uint32_t i = 0; i < n; i++) {
        if (may_be_main(b->arena, model_str(p, p->mappings[i].file))) {
            struct model_mapping main_binary = p->mappings[i];
            p->mappings[i] = p->mappings[0];
            p->mappings[0] = main_binary;
            break;
        }
    }
    for (uint32_t i = 0; i < n; i++)
        p->mappings[i].id = i + 1;
}

static void renumber_locations(struct model_builder *b)
{
    struct model_profile *p = b->p;
    uint32_t *new_index = arena_array(b->arena, p->n_locations, sizeof *new_index);
    struct model_location *used = arena_array(b->arena, p->n_locations, sizeof *used);
    uint32_t n = 0;
    for (size_t i = 0; i < p->n_samples; i++) {
        for (uint32_t k = 0; k < p->stack_len[i]; k++) {
            uint32_t old = p->stacks[i][k];
            if (new_index[old] == 0) {
                used[n] = p->locations[old];
                used[n].id = n + 1;
                new_index[old] = ++n;
            }
            p->stacks[i][k] = new_index[old] - 1;
        }
    }
    p->locations = used;
    b->cap_locations = p->n_locations;
    p->n_locations = n;
}

static void renumber_functions(struct model_builder *b)
{
    struct model_profile *p = b->p;
    uint32_t *new_index = arena_array(b->arena, p->n_functions, sizeof *new_index);
    struct model_function *used = arena_array(b->arena, p->n_functions, sizeof *used);
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->n_locations; i++) {
        const struct model_location *l = &p->locations[i];
        for (uint32_t k = 0; k < l->n_lines; k++) {
            struct model_line *line = &p->lines[l->first_line + k];
            uint32_t old = line->function;
            if (new_index[old] == 0) {
                used[n] = p->functions[old];
                used[n].id = n + 1;
                new_index[old] = ++n;
            }
            line->function = new_index[old] - 1;
        }
    }
    p->functions = used;
    b->cap_functions = p->n_functions;
    p->n_functions = n;
}

void maps_renumber(struct model_builder *b)
{
    renumber_locations(b);
    renumber_functions(b);
}

// Each location needs the mapping that contains its address. If mappings overlap, the first one
// wins. A segment tree over the edges of the mappings finds it in logarithmic time. Each node holds
// the lowest mapping that covers all of it.
//
// A second lookup finds the mapping that would contain the address if it started at its file's
// start. That mapping is then extended, so it can be returned only once. For this, nodes hold lists
// of candidates, lowest mapping first. Lookups remove candidates that were already extended.
struct candidate {
    uint32_t mapping, next; // next: index + 1
};

struct maps_index {
    struct arena *arena;
    uint64_t *edges;
    size_t n;
    uint32_t *covered;    // per node: mapping + 1
    uint32_t *extendable; // per node: first candidate + 1; NULL until first used
    struct candidate *candidates;
    size_t n_candidates, cap_candidates;
};

static int compare_map_edges(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

// Returns the number of edges at or below the address.
static size_t edges_up_to(const struct maps_index *index, uint64_t address)
{
    size_t low = 0, high = index->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (index->edges[middle] <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

// Calls visit for the nodes that together cover [from, to). Both must be edges.
static void visit_covering_nodes(struct maps_index *index, uint64_t from, uint64_t to,
                                 uint32_t mapping,
                                 void (*visit)(struct maps_index *, size_t node, uint32_t mapping))
{
    if (from >= to)
        return;
    size_t left = edges_up_to(index, from) - 1 + index->n;
    size_t right = edges_up_to(index, to) - 1 + index->n;
    for (; left < right; left /= 2, right /= 2) {
        if (left & 1)
            visit(index, left++, mapping);
        if (right & 1)
            visit(index, --right, mapping);
    }
}

static void set_covering_mapping(struct maps_index *index, size_t node, uint32_t mapping)
{
    if (index->covered[node] == 0 || mapping + 1 < index->covered[node])
        index->covered[node] = mapping + 1;
}

static void add_candidate(struct maps_index *index, size_t node, uint32_t mapping)
{
    index->candidates = arena_push(index->arena, index->candidates, index->n_candidates,
                                   &index->cap_candidates, sizeof *index->candidates);
    index->candidates[index->n_candidates++] = (struct candidate){mapping, index->extendable[node]};
    index->extendable[node] = (uint32_t)index->n_candidates;
}

struct maps_index *maps_index_new(struct arena *arena, const struct model_profile *p)
{
    struct maps_index *index = arena_alloc(arena, sizeof *index);
    index->arena = arena;
    index->edges = arena_array(arena, 3 * (size_t)p->n_mappings, sizeof *index->edges);
    size_t n = 0;
    for (uint32_t i = 0; i < p->n_mappings; i++) {
        const struct model_mapping *m = &p->mappings[i];
        index->edges[n++] = m->start;
        index->edges[n++] = m->limit;
        index->edges[n++] = m->start - m->offset;
    }
    if (n)
        qsort(index->edges, n, sizeof *index->edges, compare_map_edges);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || index->edges[i] != index->edges[i - 1])
            index->edges[index->n++] = index->edges[i];
    index->covered = arena_array(arena, 2 * index->n, sizeof *index->covered);
    for (uint32_t i = 0; i < p->n_mappings; i++)
        visit_covering_nodes(index, p->mappings[i].start, p->mappings[i].limit, i,
                             set_covering_mapping);
    return index;
}

uint32_t maps_find(const struct maps_index *index, uint64_t address)
{
    size_t below = edges_up_to(index, address);
    uint32_t best = 0;
    if (below)
        for (size_t node = below - 1 + index->n; node; node /= 2)
            if (index->covered[node] && (!best || index->covered[node] < best))
                best = index->covered[node];
    return best ? best - 1 : MODEL_NONE;
}

// Finds the first mapping that contains the address after its offset is subtracted from its start.
// Extends that mapping.
static uint32_t extend_mapping(struct maps_index *index, struct model_profile *p, uint64_t address)
{
    if (!index->extendable) {
        index->extendable = arena_array(index->arena, 2 * index->n, sizeof *index->extendable);
        // Backwards, because add_candidate prepends.
        for (uint32_t i = p->n_mappings; i-- > 0;) {
            const struct model_mapping *m = &p->mappings[i];
            if (m->offset)
                visit_covering_nodes(index, m->start - m->offset, m->start, i, add_candidate);
        }
    }
    size_t below = edges_up_to(index, address);
    if (below == 0)
        return MODEL_NONE;
    uint32_t best = MODEL_NONE;
    for (size_t node = below - 1 + index->n; node; node /= 2) {
        uint32_t *head = &index->extendable[node];
        while (*head && p->mappings[index->candidates[*head - 1].mapping].offset == 0)
            *head = index->candidates[*head - 1].next;
        if (*head && index->candidates[*head - 1].mapping < best)
            best = index->candidates[*head - 1].mapping;
    }
    if (best != MODEL_NONE) {
        struct model_mapping *m = &p->mappings[best];
        m->start -= m->offset;
        m->offset = 0;
        visit_covering_nodes(index, m->start, m->limit, best, set_covering_mapping);
    }
    return best;
}

// Corrects typical errors of profilers about the main executable.
static void fix_main(struct model_profile *p)
{
    const uint64_t usual_start = 0x400000;
    if (p->n_mappings > 1 && str_starts(model_str(p, p->mappings[0].file), STR("/anon_hugepage")) &&
        p->mappings[0].limit == p->mappings[1].start)
        memmove(p->mappings, p->mappings + 1, --p->n_mappings * sizeof *p->mappings);
    if (p->n_mappings && p->mappings[0].start - p->mappings[0].offset == usual_start) {
        p->mappings[0].start = usual_start;
        p->mappings[0].offset = 0;
    }
}

void maps_assign(struct model_builder *b)
{
    struct model_profile *p = b->p;
    fix_main(p);
    struct maps_index *index = maps_index_new(b->arena, p);
    // Contains all addresses outside real mappings.
    uint32_t fake = MODEL_NONE;
    for (uint32_t i = 0; i < p->n_locations; i++) {
        struct model_location *l = &p->locations[i];
        if (l->mapping != MODEL_NONE || l->address == 0)
            continue;
        uint32_t mapping = maps_find(index, l->address);
        if (mapping == MODEL_NONE && fake == MODEL_NONE)
            mapping = extend_mapping(index, p, l->address);
        if (mapping == MODEL_NONE) {
            if (fake == MODEL_NONE)
                fake = model_build_mapping(b, (struct model_mapping){.limit = UINT64_MAX});
            mapping = fake;
        }
        l->mapping = mapping;
    }
    for (uint32_t i = 0; i < p->n_mappings; i++)
        p->mappings[i].id = i + 1;
}
