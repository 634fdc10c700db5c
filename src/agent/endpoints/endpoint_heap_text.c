// Heap profiles in the text format that Go prints and pprof reads.
//
// Go's numbers count samples, and readers scale them up. Ours are estimates already, so the header
// claims that every byte was sampled: heap/2 means an interval of one, because Go doubles it.
#include <stdlib.h>

#include "agent/heap/heap_source.h"

enum { ALLOC_OBJECTS, ALLOC_SPACE, INUSE_OBJECTS, INUSE_SPACE, N_VALUES };

struct columns {
    int at[N_VALUES]; // column index; -1: missing
};

static struct columns find_columns(const struct model_profile *p)
{
    static const char *const names[] = {"alloc_objects", "alloc_space", "inuse_objects",
                                        "inuse_space"};
    struct columns c;
    for (int k = 0; k < N_VALUES; k++) {
        c.at[k] = -1;
        for (uint32_t i = 0; i < p->n_types; i++)
            if (str_eq(model_str(p, p->types[i].type), str_from(names[k])))
                c.at[k] = (int)i;
    }
    return c;
}

static int64_t column_value(const int64_t *values, const struct columns *c, int k)
{
    return c->at[k] < 0 ? 0 : values[c->at[k]];
}

static void write_counts(struct out *out, const int64_t v[N_VALUES])
{
    out_printf(out, "%lld: %lld [%lld: %lld] @", (long long)v[INUSE_OBJECTS],
               (long long)v[INUSE_SPACE], (long long)v[ALLOC_OBJECTS], (long long)v[ALLOC_SPACE]);
}

struct row {
    int64_t values[N_VALUES];
    size_t sample;
};

static int compare_heap_rows(const void *a, const void *b)
{
    const struct row *x = a, *y = b;
    if (x->values[INUSE_SPACE] != y->values[INUSE_SPACE])
        return x->values[INUSE_SPACE] < y->values[INUSE_SPACE] ? 1 : -1;
    return x->sample < y->sample ? -1 : 1;
}

// Readers expect return addresses, which follow the call.
static void write_text_stack(struct out *out, const struct model_profile *p, size_t sample)
{
    const uint32_t *stack = model_stack(p, sample);
    for (uint32_t i = 0; i < p->stack_len[sample]; i++)
        out_printf(out, " 0x%llx", (unsigned long long)p->locations[stack[i]].address + 1);
    out_char(out, '\n');
    for (uint32_t i = 0; i < p->stack_len[sample]; i++) {
        const struct model_location *l = &p->locations[stack[i]];
        for (uint32_t k = 0; k < l->n_lines; k++) {
            const struct model_line *line = &p->lines[l->first_line + k];
            const struct model_function *f = &p->functions[line->function];
            struct str name = model_str(p, f->name), file = model_str(p, f->filename);
            out_printf(out, "#\t0x%llx\t%.*s\t%.*s:%lld\n", (unsigned long long)l->address,
                       (int)name.n, name.p, (int)file.n, file.p, (long long)line->line);
        }
    }
    out_char(out, '\n');
}

static void write_mappings(struct out *out, const struct model_profile *p)
{
    out_text(out, "\nMAPPED_LIBRARIES:\n");
    for (uint32_t i = 0; i < p->n_mappings; i++) {
        const struct model_mapping *m = &p->mappings[i];
        struct str file = model_str(p, m->file);
        out_printf(out, "%llx-%llx r-xp %08llx 00:00 0 %.*s\n", (unsigned long long)m->start,
                   (unsigned long long)m->limit, (unsigned long long)m->offset, (int)file.n,
                   file.p);
    }
}

void heap_write_text(const struct model_profile *p, struct arena *arena, struct out *out)
{
    struct columns c = find_columns(p);
    struct row *rows = arena_array(arena, p->n_samples + 1, sizeof *rows);
    int64_t total[N_VALUES] = {0};
    for (size_t i = 0; i < p->n_samples; i++) {
        rows[i].sample = i;
        for (int k = 0; k < N_VALUES; k++) {
            rows[i].values[k] = column_value(model_values(p, i), &c, k);
            total[k] += rows[i].values[k];
        }
    }
    qsort(rows, p->n_samples, sizeof *rows, compare_heap_rows);
    out_text(out, "heap profile: ");
    write_counts(out, total);
    out_printf(out, " heap/2\n# estimates: one sample every %lld bytes on average\n",
               (long long)p->period);
    for (size_t i = 0; i < p->n_samples; i++) {
        write_counts(out, rows[i].values);
        write_text_stack(out, p, rows[i].sample);
    }
    write_mappings(out, p);
}
