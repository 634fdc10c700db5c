// disasm: the machine code of functions, with the values of each instruction.
#include "symbol/disasm.h"

#include <stdlib.h>

#include "model/units.h"
#include "report/formats.h"
#include "report/object.h"

// A requested function of a binary that has samples.
struct routine {
    struct object *object;
    uint64_t start, end; // like pprof, excludes the last byte
    const char *const *names;
    size_t n_names;
    const uint32_t *nodes; // sorted by address
    size_t n_nodes;
    int64_t flat, cum;
};

struct work {
    struct report *r;
    struct graph *g;
    uint32_t *nodes; // all nodes with values, sorted by address
    bool has_address;
    uint64_t address; // the requested one
    bool found;       // in a binary, with or without samples
    struct routine *routines;
    size_t n, cap;
    // Not owned by the arena; freed by clean_up_disasm.
    struct elf_name *names;
    char *shown;
};

bool report_symbol_address(const struct report *r, uint64_t *address)
{
    struct str s = model_regex_pattern(r->o.symbol);
    if (s.n > 2 && s.p[0] == '0' && (s.p[1] | 32) == 'x')
        return str_to_u64(str_from_to(s, 2, s.n), 16, address);
    if (s.n > 2 && s.p[0] == '0' && (s.p[1] | 32) == 'b')
        return str_to_u64(str_from_to(s, 2, s.n), 2, address);
    if (s.n > 2 && s.p[0] == '0' && (s.p[1] | 32) == 'o')
        return str_to_u64(str_from_to(s, 2, s.n), 8, address);
    return str_to_u64(s, s.n > 1 && s.p[0] == '0' ? 8 : 10, address);
}

static int compare_node_addresses(const void *a, const void *b, void *graph)
{
    const struct graph *g = graph;
    uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;
    uint64_t x = g->nodes[i].info.address, y = g->nodes[k].info.address;
    return x != y ? (x > y) - (x < y) : (i > k) - (i < k);
}

// For each string: whether it names a binary with a sample at a matching place.
static bool *matching_binaries(struct work *w)
{
    const struct graph *g = w->g;
    bool *matches = arena_array(w->r->arena, g->p->strings->n + 1, sizeof *matches);
    for (size_t i = 0; i < g->n_selected; i++) {
        const struct node_info *info = &g->nodes[g->selected[i]].info;
        if (info->object && !matches[info->object])
            matches[info->object] =
                model_regex_match(w->r->o.symbol, node_printable_name(w->g, info));
    }
    return matches;
}

// The name to show for a symbol that matches, mangled or in one of its demangled forms; NULL: no
// match.
static const char *matching_name(struct work *w, const char *name)
{
    static const enum demangle_mode modes[] = {DEMANGLE_FULL, DEMANGLE_TEMPLATES, DEMANGLE_DEFAULT};
    const char *found = NULL;
    if (model_regex_match(w->r->o.symbol, str_from(name)))
        return arena_copy(w->r->arena, name, strlen(name));
    for (int i = 0; i < 3 && !found; i++) {
        w->shown = demangle(name, modes[i], w->r->o.binaries.cxx);
        if (w->shown && model_regex_match(w->r->o.symbol, str_from(w->shown)))
            found = arena_copy(w->r->arena, w->shown, strlen(w->shown));
        free(w->shown);
        w->shown = NULL;
    }
    return found;
}

static bool choose_names(struct work *w, const struct elf_name *names, size_t n,
                         struct routine *routine)
{
    const char **chosen = arena_array(w->r->arena, n + 1, sizeof *chosen);
    routine->names = chosen;
    if (w->has_address && w->address != 0 && w->address >= routine->start &&
        w->address <= routine->end) {
        for (size_t i = 0; i < n; i++)
            chosen[routine->n_names++] =
                arena_copy(w->r->arena, names[i].name, strlen(names[i].name));
    }
    for (size_t i = 0; i < n && routine->n_names == 0; i++)
        if ((chosen[0] = matching_name(w, names[i].name)))
            routine->n_names = 1;
    return routine->n_names > 0;
}

static void add_routine(struct work *w, struct routine *routine)
{
    for (size_t i = 0; i < routine->n_nodes; i++) {
        const struct node *node = &w->g->nodes[routine->nodes[i]];
        routine->flat = units_add(routine->flat, node->flat);
        routine->cum = units_add(routine->cum, node->cum);
    }
    w->routines = arena_push(w->r->arena, w->routines, w->n, &w->cap, sizeof *w->routines);
    w->routines[w->n++] = *routine;
}

static bool routine_covers(const struct routine *routine, uint64_t addr)
{
    addr -= routine->object->base;
    return addr >= routine->start && addr < routine->end;
}

// The last symbol of a binary has no end: like pprof, it covers everything after it.
static void find_rest_nodes(struct work *w, struct routine *routine)
{
    const struct graph *g = w->g;
    uint32_t *nodes = arena_array(w->r->arena, g->n_selected + 1, sizeof *nodes);
    for (size_t i = 0; i < g->n_selected; i++)
        if (routine_covers(routine, g->nodes[w->nodes[i]].info.address))
            nodes[routine->n_nodes++] = w->nodes[i];
    routine->nodes = nodes;
}

static void find_nodes(struct work *w, struct routine *routine)
{
    const struct graph *g = w->g;
    if (routine->end == UINT64_MAX) {
        find_rest_nodes(w, routine);
        return;
    }
    uint64_t first = routine->start + routine->object->base;
    size_t low = 0, high = g->n_selected;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (g->nodes[w->nodes[middle]].info.address < first)
            low = middle + 1;
        else
            high = middle;
    }
    routine->nodes = w->nodes + low;
    while (low + routine->n_nodes < g->n_selected &&
           routine_covers(routine, g->nodes[routine->nodes[routine->n_nodes]].info.address))
        routine->n_nodes++;
}

static void search_binary(struct work *w, struct object *object)
{
    struct report *r = w->r;
    bool placed = false;
    struct err ignored;
    for (size_t i = 0; i < w->g->n_selected && !placed; i++)
        placed = object_place(object, w->g->nodes[w->nodes[i]].info.address, &ignored) == 0;
    size_t n;
    w->names = elf_names(symbol_elf(object->file), &n);
    if (!w->names)
        arena_fail(r->arena, "%.*s: no memory for its symbols",
                   (int)model_str(r->p, object->name).n, model_str(r->p, object->name).p);
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i; end < n && w->names[end].addr == w->names[i].addr;)
            end++;
        struct routine routine = {.object = object, .start = w->names[i].addr};
        routine.end = (end < n ? w->names[end].addr : 0) - 1;
        w->found |= w->has_address && w->address >= routine.start && w->address <= routine.end;
        if (placed)
            find_nodes(w, &routine);
        if (routine.n_nodes && choose_names(w, w->names + i, end - i, &routine))
            add_routine(w, &routine);
    }
    free(w->names);
    w->names = NULL;
}

static void search_binaries(struct work *w)
{
    struct report *r = w->r;
    bool *matches = matching_binaries(w);
    for (uint32_t i = 0; i < r->p->n_mappings; i++) {
        const struct model_mapping *m = &r->p->mappings[i];
        if (!matches[m->file] &&
            !(w->has_address && m->start <= w->address && w->address <= m->limit))
            continue;
        struct object *object = object_open(r, i);
        if (object->file)
            search_binary(w, object);
        else if (r->o.note)
            r->o.note(object->why.message);
    }
}

static int compare_routine_names(const void *a, const void *b)
{
    const struct routine *x = a, *y = b;
    int c = strcmp(x->names[0], y->names[0]);
    return c ? c : (x->start > y->start) - (x->start < y->start);
}

static void clean_up_disasm(struct work *w)
{
    free(w->names);
    free(w->shown);
}

static void find_routines(struct work *w)
{
    struct report *r = w->r;
    struct work *volatile held = w;
    struct arena_trap trap;
    if (ARENA_TRY(r->arena, trap)) {
        struct err e;
        clean_up_disasm(held);
        arena_caught(held->r->arena, &e);
        arena_fail(held->r->arena, "%s", e.message);
    }
    search_binaries(w);
    arena_try_end(r->arena);
    if (w->n)
        qsort(w->routines, w->n, sizeof *w->routines, compare_routine_names);
    else if (!w->has_address)
        arena_fail(r->arena, "no matches found for regexp %.*s",
                   (int)model_regex_pattern(r->o.symbol).n, model_regex_pattern(r->o.symbol).p);
    else if (!w->found)
        arena_fail(r->arena, "no matches found for address 0x%llx", (unsigned long long)w->address);
    else
        arena_fail(r->arena,
                   "address 0x%llx found in binary, but the corresponding symbols do not have "
                   "samples in the profile",
                   (unsigned long long)w->address);
}

// --- printing ---

struct place {
    struct str function, file;
    int64_t line;
};

struct counted {
    int64_t flat, flat_div, cum, cum_div;
};

// Sums and removes the routine's nodes that belong to the instruction ending before next.
static struct counted sum_instruction(const struct graph *g, struct routine *routine, uint64_t next,
                                      struct place *place)
{
    struct counted sum = {0};
    for (; routine->n_nodes; routine->nodes++, routine->n_nodes--) {
        const struct node *node = &g->nodes[*routine->nodes];
        if (node->info.address - routine->object->base >= next)
            break;
        sum.flat = units_add(sum.flat, node->flat);
        sum.flat_div = units_add(sum.flat_div, node->flat_div);
        sum.cum = units_add(sum.cum, node->cum);
        sum.cum_div = units_add(sum.cum_div, node->cum_div);
        if (node->info.file && place->file.n == 0)
            place->file = path_base(model_str(g->p, node->info.file));
        if (place->line == 0)
            place->line = node->info.line;
        if (place->function.n == 0)
            place->function = model_str(g->p, node->info.name);
    }
    return sum;
}

static void put_disasm_place(struct out *out, const struct place *place)
{
    out_char(out, ';');
    out_str(out, place->function);
    if (place->function.n)
        out_char(out, ' ');
    out_str(out, place->file);
    if (place->file.n && place->line)
        out_printf(out, ":%lld", (long long)place->line);
    out_char(out, '\n');
}

static void put_routine_instructions(const struct report *r, const struct graph *g, struct out *out,
                                     struct routine *routine, const struct disasm_range *range)
{
    struct place shown = {{0}, {0}, 0};
    for (size_t i = 0; i < range->n; i++) {
        const struct disasm_inst *inst = &range->insts[i];
        struct place place = {inst->function, {0}, inst->line};
        if (inst->file.n)
            place.file = path_base(inst->file);
        struct counted sum = sum_instruction(
            g, routine, i + 1 < range->n ? range->insts[i + 1].addr : UINT64_MAX, &place);
        bool changed = !str_eq(place.function, shown.function) || !str_eq(place.file, shown.file) ||
                       place.line != shown.line;
        bool told = changed && (place.function.n || place.file.n);
        shown = place;
        // After a long instruction there is no room for its source place.
        if (told && inst->text.n >= 40) {
            out_spaces(out, 74);
            put_disasm_place(out, &place);
            told = false;
        }
        report_put_value_or_dot(r, out, graph_value(sum.flat, sum.flat_div), 10);
        out_char(out, ' ');
        report_put_value_or_dot(r, out, graph_value(sum.cum, sum.cum_div), 10);
        out_printf(out, " %10llx: ", (unsigned long long)inst->addr);
        out_str(out, inst->text);
        size_t columns = str_columns(inst->text);
        if (told && columns < 40)
            out_spaces(out, 40 - columns);
        if (told)
            put_disasm_place(out, &place);
        else
            out_char(out, '\n');
    }
}

static void put_routine(const struct report *r, const struct graph *g, struct out *out,
                        struct routine *routine, const struct disasm_range *range)
{
    for (size_t i = 0; i < routine->n_names; i++) {
        out_text(out, i == 0 ? "ROUTINE ======================== "
                             : "    AKA ======================== ");
        out_text(out, routine->names[i]);
        out_char(out, '\n');
    }
    report_put_sums(r, out, routine->flat, routine->cum);
    out_text(out, " of Total\n");
    put_routine_instructions(r, g, out, routine, range);
}

void report_disasm(struct report *r, struct out *out)
{
    struct work w = {.r = r, .g = graph_new_values(r)};
    w.has_address = report_symbol_address(r, &w.address);
    w.nodes = arena_array(r->arena, w.g->n_selected + 1, sizeof *w.nodes);
    memcpy(w.nodes, w.g->selected, w.g->n_selected * sizeof *w.nodes);
    qsort_r(w.nodes, w.g->n_selected, sizeof *w.nodes, compare_node_addresses, w.g);
    r->o.binaries.symbols_only = r->o.binaries.no_debug_files = true;
    find_routines(&w);

    struct disasm_tool *tool = arena_alloc(r->arena, sizeof *tool);
    disasm_find(tool, r->o.tools);
    struct disasm_range *ranges = arena_array(r->arena, w.n, sizeof *ranges);
    for (size_t i = 0; i < w.n; i++) {
        const struct routine *routine = &w.routines[i];
        struct str file = model_str(r->p, routine->object->name);
        ranges[i] = (struct disasm_range){.binary = arena_copy(r->arena, file.p, file.n),
                                          .start = routine->start,
                                          .end = routine->end,
                                          .intel_syntax = r->o.intel_syntax};
    }
    disasm_run(tool, ranges, w.n, r->arena);
    for (size_t i = 0; i < w.n; i++)
        if (ranges[i].error)
            arena_fail(r->arena, "%s", ranges[i].error);
    out_text(out, "Total: ");
    report_put_value(r, out, r->total, 0);
    out_char(out, '\n');
    for (size_t i = 0; i < w.n; i++)
        put_routine(r, w.g, out, &w.routines[i], &ranges[i]);
}
