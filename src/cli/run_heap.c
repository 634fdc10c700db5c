#include "cli/run_heap.h"

#include <stdlib.h>

#include "base/out.h"
#include "model/transform.h"
#include "model/units.h"

enum { ALLOC_SPACE = 1, INUSE_OBJECTS = 2, INUSE_SPACE = 3, MOST_LEAKS = 5, CALLERS = 3 };

// Memory by its allocation site: the innermost functions of a stack.
struct leak {
    struct str who;
    int64_t bytes, objects;
};

struct leaks {
    struct leak *items;
    size_t n, cap;
    struct hash_table index;
};

static struct str bytes_as_text(int64_t bytes, char text[32])
{
    return (struct str){text, units_label(text, 32, bytes, STR("bytes"), STR("auto"))};
}

static struct str allocation_site(const struct model_profile *p, size_t sample, struct arena *arena)
{
    struct out out;
    int named = 0;
    out_init_arena(&out, arena);
    for (uint32_t i = 0; i < p->stack_len[sample] && named < CALLERS; i++) {
        const struct model_location *l = &p->locations[model_stack(p, sample)[i]];
        for (uint32_t k = 0; k < l->n_lines && named < CALLERS; k++, named++) {
            const struct model_line *line = &p->lines[l->first_line + k];
            out_text(&out, named ? " < " : "");
            out_str(&out, model_str(p, p->functions[line->function].name));
        }
        if (l->n_lines == 0)
            out_printf(&out, "%s0x%llx", named++ ? " < " : "", (unsigned long long)l->address);
    }
    return out_result(&out);
}

static void add_leak(struct leaks *l, struct str who, const int64_t *values, struct arena *arena)
{
    uint64_t hash = hash_bytes(who.p, who.n, 0);
    struct leak *found = NULL;
    for (struct hash_probe at = hash_find(&l->index, hash); !found && hash_hit(&l->index, &at);
         hash_next(&l->index, &at))
        if (str_eq(l->items[at.item].who, who))
            found = &l->items[at.item];
    if (!found) {
        l->items = arena_push(arena, l->items, l->n, &l->cap, sizeof *l->items);
        hash_add(&l->index, arena, hash, (uint32_t)l->n);
        found = &l->items[l->n++];
        found->who = who;
    }
    found->bytes += values[INUSE_SPACE];
    found->objects += values[INUSE_OBJECTS];
}

static int compare_leaks(const void *a, const void *b)
{
    const struct leak *x = a, *y = b;
    return x->bytes != y->bytes ? (x->bytes < y->bytes) - (x->bytes > y->bytes)
                                : str_cmp(x->who, y->who);
}

static void print_leaks(const struct model_profile *p, int64_t in_use, struct arena *arena,
                        FILE *to)
{
    struct leaks leaks = {0};
    char text[32];
    p = model_drop_uninteresting(p, arena);
    hash_init(&leaks.index, arena, 64);
    for (size_t i = 0; i < p->n_samples; i++)
        if (model_values(p, i)[INUSE_SPACE] > 0)
            add_leak(&leaks, allocation_site(p, i, arena), model_values(p, i), arena);
    if (leaks.n)
        qsort(leaks.items, leaks.n, sizeof *leaks.items, compare_leaks);
    for (size_t i = 0; i < leaks.n && i < MOST_LEAKS; i++) {
        const struct leak *l = &leaks.items[i];
        fprintf(to, "kiln: %10s %3.0f%%  %lld object%s  %.*s\n", bytes_as_text(l->bytes, text).p,
                100.0 * (double)l->bytes / (double)in_use, (long long)l->objects,
                str_plural((uint64_t)l->objects), (int)l->who.n, l->who.p);
    }
}

void run_heap_summarize(const struct model_profile *p, const struct harvest_totals *t,
                        const char *output, struct arena *arena, FILE *to)
{
    int64_t allocated = 0, in_use = 0;
    char text[3][32];
    for (size_t i = 0; i < p->n_samples; i++) {
        allocated += model_values(p, i)[ALLOC_SPACE];
        in_use += model_values(p, i)[INUSE_SPACE];
    }
    // A sum over processes has no common peak.
    fprintf(to, "kiln: %s: heap: %s in use at the end, peak %s%s, %s allocated, %llu sample%s",
            output, bytes_as_text(in_use, text[0]).p, bytes_as_text(t->heap_peak, text[1]).p,
            t->processes > 1 ? " in one process" : "", bytes_as_text(allocated, text[2]).p,
            (unsigned long long)t->heap_samples, str_plural(t->heap_samples));
    if (t->heap_untracked)
        fprintf(to, ", %llu not tracked: table full; use a larger --heap-interval",
                (unsigned long long)t->heap_untracked);
    fputc('\n', to);
    if (in_use > 0)
        print_leaks(p, in_use, arena, to);
}
