#include <stdlib.h>

#include "symbol/dwarf_internal.h"

struct dwarf *dwarf_new(const struct dwarf_sections *sections, struct dwarf *alternate)
{
    struct dwarf *d = calloc(1, sizeof *d);
    if (!d)
        return NULL;
    d->s = *sections;
    d->alternate = alternate;
    d->table_limit = (size_t)32 << 20;
    return d;
}

void dwarf_limit_tables(struct dwarf *d, size_t bytes)
{
    d->table_limit = bytes;
}

void dwarf_on_split(struct dwarf *d, dwarf_split_fn *call, void *ctx)
{
    d->on_split = call;
    d->split_ctx = ctx;
}

void dwarf_on_pause(struct dwarf *d, dwarf_pause_fn *call, void *ctx)
{
    d->on_pause = call;
    d->pause_ctx = ctx;
}

void dwarf_on_work(struct dwarf *d, dwarf_work_fn *call, void *ctx)
{
    d->on_work = call;
    d->work_ctx = ctx;
}

void dwarf_trim(struct dwarf *d)
{
    for (uint32_t i = 0; i < d->n_units; i++) {
        struct dwarf_unit *u = &d->units[i];
        if (u->has_functions)
            dwarf_functions_free(u);
        if (u->lines_read)
            dwarf_lines_free(u);
        u->abbrevs = NULL;
    }
    dwarf_abbrevs_free(d);
    free(d->inlines.ranges);
    free(d->inlines.nodes);
    d->inlines = (struct dwarf_inlines){0};
    d->memory = 0;
    for (struct dwarf *s = d->splits; s; s = s->next_split)
        dwarf_trim(s);
    if (d->alternate)
        dwarf_trim(d->alternate);
}

void dwarf_free(struct dwarf *d)
{
    if (!d)
        return;
    for (struct dwarf *s = d->splits, *next; s; s = next) {
        next = s->next_split;
        dwarf_free(s);
    }
    d->splits = NULL;
    struct dwarf *alternate = d->alternate;
    d->alternate = NULL;
    dwarf_trim(d);
    d->alternate = alternate;
    free(d->units);
    free(d->index);
    free(d);
}

size_t dwarf_memory(const struct dwarf *d)
{
    size_t n = d->memory + d->fixed_memory;
    for (const struct dwarf *s = d->splits; s; s = s->next_split)
        n += dwarf_memory(s);
    return n + (d->alternate ? dwarf_memory(d->alternate) : 0);
}

// Returns the split unit of a skeleton unit, which is in another file. NULL: not found.
static struct dwarf_unit *split_of(struct dwarf_unit *u)
{
    if (!u->split_asked && u->dwo_name.form && u->d->on_split) {
        u->split_asked = true;
        struct dwarf_sections sections = {0};
        const char *name = dwarf_string(u, &u->dwo_name);
        const char *comp_dir = dwarf_string(u, &u->comp_dir);
        if (name &&
            u->d->on_split(u->d->split_ctx, comp_dir ? comp_dir : "", name, u->dwo_id, &sections)) {
            u->split = dwarf_new(&sections, u->d->alternate);
            if (u->split) {
                u->split->table_limit = u->d->table_limit;
                dwarf_on_work(u->split, u->d->on_work, u->d->work_ctx);
                u->split->next_split = u->d->splits;
                u->d->splits = u->split;
            }
        }
    }
    if (!u->split || !dwarf_units_ready(u->split))
        return NULL;
    for (uint32_t i = 0; i < u->split->n_units; i++) {
        struct dwarf_unit *s = &u->split->units[i];
        if (s->type == DW_UT_type || s->type == DW_UT_split_type || s->broken)
            continue;
        if (!s->skeleton) {
            s->skeleton = u;
            // Defaults if the base attributes are missing: tables begin after their headers.
            if (s->version >= 5) {
                s->str_offsets_base = s->offset_size == 8 ? 16 : 8;
                s->rnglists_base = s->offset_size == 8 ? 20 : 12;
            }
        }
        if (dwarf_unit_load(s) && (!s->dwo_id || s->dwo_id == u->dwo_id))
            return s;
    }
    return NULL;
}

int dwarf_lookup(struct dwarf *d, uint64_t addr, struct dwarf_frame *frames, int max)
{
    struct dwarf_unit *u = dwarf_unit_for(d, addr);
    if (!u || max <= 0 || !dwarf_unit_load(u))
        return 0;
    struct dwarf_unit *with_entries = split_of(u);
    struct dwarf_chain chain;
    dwarf_find_chain(with_entries ? with_entries : u, addr, &chain);
    struct dwarf_row row;
    bool has_row = dwarf_line_at(u, addr, &row);
    const char *file = has_row ? dwarf_file_path(u, row.file) : NULL;
    if (chain.n == 0) {
        if (!file)
            return 0;
        frames[0] = (struct dwarf_frame){NULL, file, row.line, row.column, 0};
        return 1;
    }
    uint64_t call_file = 0;
    uint32_t call_line = 0, call_column = 0;
    int n = 0;
    for (int i = 0; i < chain.n && n < max; i++, n++) {
        uint64_t next_file;
        uint32_t next_line, next_column;
        struct dwarf_frame *f = &frames[n];
        dwarf_frame_of(chain.u, chain.dies[i], f, &next_file, &next_line, &next_column);
        if (i == 0) {
            f->file = file;
            f->line = file ? row.line : 0;
            f->column = file ? row.column : 0;
        } else {
            f->file = dwarf_file_path(u, call_file);
            f->line = call_line;
            f->column = call_column;
        }
        call_file = next_file;
        call_line = next_line;
        call_column = next_column;
    }
    return n;
}

static bool unit_boundaries(struct dwarf_unit *u, dwarf_boundary_fn *call, void *ctx)
{
    struct dwarf_unit *entries = split_of(u);
    if (!entries)
        entries = u;
    dwarf_functions_ready(entries);
    if (!dwarf_unit_abbrevs(entries))
        return true;
    for (uint32_t i = 0; i < entries->n_functions; i++) {
        const struct dwarf_function *f = &entries->functions[i];
        const struct dwarf_inlines *in = dwarf_inlines_of(entries, f->die);
        if (!call(ctx, f->low) || !call(ctx, f->low + f->size))
            return false;
        for (uint32_t k = 0; k < in->n_ranges; k++)
            if (!call(ctx, in->ranges[k].low) || !call(ctx, in->ranges[k].high))
                return false;
    }
    dwarf_rows_ready(u);
    for (uint32_t i = 0; i < u->n_sequences; i++) {
        const struct dwarf_sequence *s = &u->sequences[i];
        for (uint32_t k = 0; k < s->n; k++)
            if (!call(ctx, s->low + u->rows[s->first + k].address))
                return false;
        if (!call(ctx, s->low) || !call(ctx, s->high))
            return false;
    }
    return true;
}

bool dwarf_each_boundary(struct dwarf *d, dwarf_boundary_fn *call, void *ctx)
{
    enum { KEEP = 32 << 20 };
    dwarf_expect_lookups(d);
    for (uint32_t i = 0; i < d->n_index; i++)
        if (!call(ctx, d->index[i].key) || !call(ctx, d->index[i].key + d->index[i].extra))
            return false;
    for (uint32_t i = 0; i < d->n_units; i++) {
        struct dwarf_unit *u = &d->units[i];
        if (u->type == DW_UT_type || u->type == DW_UT_split_type || !dwarf_unit_load(u))
            continue;
        if (!unit_boundaries(u, call, ctx))
            return false;
        if (d->memory > KEEP)
            dwarf_trim(d);
    }
    return true;
}
