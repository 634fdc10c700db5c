#include "report/weblist.h"

#include <stdio.h>
#include <stdlib.h>

#include "model/units.h"
#include "report/object.h"

enum {
    AROUND = 500,      // bytes disassembled before and after an address of interest
    MOST_RANGES = 25,  // the heaviest ranges are disassembled
    NEIGHBOURHOOD = 32 // an instruction without a line takes the last line within this many bytes
};

// The sample values of an address.
struct sampled {
    uint64_t addr;
    size_t order;
    uint32_t location; // the first location of interest at this address; MODEL_NONE: none
    int64_t flat, cum;
};

struct range {
    struct object *object;
    uint64_t begin, end;
    size_t first, n; // of the addresses of interest in it
    int64_t score;
};

struct gather {
    struct weblist *w;
    struct report *r;
    const struct model_profile *p;
    struct sampled *sampled; // by address
    size_t n_sampled;
    struct sampled **wanted; // those of interest, by address
    size_t n_wanted;
    struct range *ranges;
    size_t n_ranges, cap_ranges;
};

// --- samples ---

static void mark_function(struct gather *g, const struct model_line *line)
{
    const struct model_function *f = &g->p->functions[line->function];
    g->w->interest[f->name] = g->w->interest[f->system_name] = true;
}

static bool line_matches(struct gather *g, const struct model_line *line)
{
    const struct model_function *f = &g->p->functions[line->function];
    struct model_regex *symbol = g->r->o.symbol;
    const struct model_strings *strings = g->p->strings;
    return model_regex_match_id(symbol, strings, f->name) ||
           model_regex_match_id(symbol, strings, f->system_name) ||
           model_regex_match_id(symbol, strings, f->filename);
}

// Marks the functions to show at a location; returns false if there are none.
static bool mark_location(struct gather *g, const struct model_location *l, bool is_asked_for)
{
    const struct model_line *lines = g->p->lines + l->first_line;
    bool any = false;
    if (is_asked_for) {
        if (l->n_lines)
            mark_function(g, &lines[l->n_lines - 1]);
        return l->n_lines > 0;
    }
    bool binary = l->mapping != MODEL_NONE && model_regex_match_id(g->r->o.symbol, g->p->strings,
                                                                   g->p->mappings[l->mapping].file);
    for (uint32_t i = 0; i < l->n_lines; i++) {
        if (!(i == 0 && binary) && !line_matches(g, &lines[i]))
            continue;
        mark_function(g, &lines[i]);
        any = true;
    }
    return any;
}

static int compare_sampled_addresses(const void *a, const void *b)
{
    const struct sampled *x = a, *y = b;
    if (x->addr != y->addr)
        return x->addr < y->addr ? -1 : 1;
    return (x->order > y->order) - (x->order < y->order);
}

static void merge_addresses(struct gather *g)
{
    size_t kept = 0;
    qsort(g->sampled, g->n_sampled, sizeof *g->sampled, compare_sampled_addresses);
    for (size_t i = 0; i < g->n_sampled; i++) {
        struct sampled *last = kept ? &g->sampled[kept - 1] : NULL, *s = &g->sampled[i];
        if (!last || last->addr != s->addr) {
            g->sampled[kept++] = *s;
            continue;
        }
        last->flat = units_add(last->flat, s->flat);
        last->cum = units_add(last->cum, s->cum);
        if (last->location == MODEL_NONE)
            last->location = s->location;
    }
    g->n_sampled = kept;
}

// Sums by location, in order of discovery from the root.
static void count_locations(struct gather *g)
{
    const struct model_profile *p = g->p;
    uint32_t *met = arena_array(g->r->arena, p->n_locations + 1, sizeof *met); // index + 1
    g->sampled = arena_array(g->r->arena, p->n_locations + 1, sizeof *g->sampled);
    for (size_t s = 0; s < p->n_samples; s++) {
        const int64_t *values = model_values(p, s);
        int64_t value = values[g->r->o.type];
        if (g->r->o.mean && values[0])
            value = units_div(value, values[0]);
        const uint32_t *frames = model_stack(p, s);
        for (uint32_t i = p->stack_len[s]; i-- > 0;) {
            if (!met[frames[i]]) {
                g->sampled[g->n_sampled].location = frames[i];
                met[frames[i]] = (uint32_t)++g->n_sampled;
            }
            struct sampled *at = &g->sampled[met[frames[i]] - 1];
            at->cum = units_add(at->cum, value);
            if (i == 0)
                at->flat = units_add(at->flat, value);
        }
    }
}

static void count_weblist_samples(struct gather *g)
{
    const struct model_profile *p = g->p;
    struct weblist *w = g->w;
    uint64_t next = 1, address = 0; // next: for locations without an address
    bool has_address = report_symbol_address(g->r, &address);
    for (uint32_t i = 0; i < p->n_mappings; i++)
        if (next < p->mappings[i].limit)
            next = p->mappings[i].limit;
    count_locations(g);
    for (size_t i = 0; i < g->n_sampled; i++) {
        struct sampled *s = &g->sampled[i];
        const struct model_location *l = &p->locations[s->location];
        for (uint32_t k = 0; k < l->n_lines; k++) {
            const struct model_function *f = &p->functions[p->lines[l->first_line + k].function];
            w->pretty[f->system_name] = f->name + 1;
        }
        s->order = i;
        s->addr = l->address ? l->address : next++;
        if (!mark_location(g, l, has_address && s->addr == address))
            s->location = MODEL_NONE;
    }
    merge_addresses(g);
}

static size_t first_at_or_after(const struct gather *g, uint64_t addr)
{
    size_t low = 0, high = g->n_sampled;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (g->sampled[middle].addr < addr)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

// --- lines ---

static bool is_interesting(const struct weblist *w, uint32_t name)
{
    return name < w->n_strings && w->interest[name];
}

static uint32_t canonical_file(struct weblist *w, uint32_t id)
{
    struct str path = model_str(w->r->p, id);
    static const char *const prefixes[] = {"/proc/self/cwd/", "./"};
    for (int i = 0; i < 2; i++)
        if (str_starts(path, str_from(prefixes[i])))
            path = str_from_to(path, strlen(prefixes[i]), path.n);
    return model_intern(w->r->p->strings, path_clean(w->r->arena, path));
}

static struct weblist_file *get_weblist_file(struct weblist *w, uint32_t id)
{
    uint32_t name = canonical_file(w, id);
    uint64_t hash = hash_mix(name, 0);
    for (struct hash_probe at = hash_find(&w->file_index, hash); hash_hit(&w->file_index, &at);
         hash_next(&w->file_index, &at))
        if (w->files[at.item].name == name)
            return &w->files[at.item];
    w->files = arena_push(w->r->arena, w->files, w->n_files, &w->cap_files, sizeof *w->files);
    w->files[w->n_files] = (struct weblist_file){.name = name};
    hash_add(&w->file_index, w->r->arena, hash, (uint32_t)w->n_files);
    return &w->files[w->n_files++];
}

// Adds the last instruction to each line of a shown function that it belongs to.
static void add_entries(struct weblist *w, const struct weblist_frame *frames, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!is_interesting(w, frames[i].function))
            continue;
        struct weblist_file *file = get_weblist_file(w, frames[i].file);
        file->entries =
            arena_push(w->r->arena, file->entries, file->n, &file->cap, sizeof *file->entries);
        file->entries[file->n] = (struct weblist_entry){
            .line = frames[i].line,
            .order = file->n,
            .inst = (uint32_t)w->n_insts - 1,
            .depth = (uint32_t)i,
            .function = frames[i].function,
            .frames = frames,
        };
        file->n++;
    }
}

static struct weblist_inst *add_inst(struct weblist *w)
{
    w->insts = arena_push(w->r->arena, w->insts, w->n_insts, &w->cap_insts, sizeof *w->insts);
    w->insts[w->n_insts] = (struct weblist_inst){0};
    return &w->insts[w->n_insts++];
}

// Adds an address known only from the profile.
static void add_sampled(struct gather *g, const struct sampled *s)
{
    const struct model_location *l = &g->p->locations[s->location];
    struct weblist_frame *frames = arena_array(g->r->arena, l->n_lines + 1, sizeof *frames);
    for (uint32_t i = 0; i < l->n_lines; i++) {
        const struct model_line *line = &g->p->lines[l->first_line + i];
        const struct model_function *f = &g->p->functions[line->function];
        // No file has more lines; invalid numbers must not overflow.
        int64_t at = line->line > INT32_MAX || line->line < 0 ? 0 : line->line;
        frames[i] = (struct weblist_frame){f->name, f->filename, at};
    }
    struct weblist_inst *inst = add_inst(g->w);
    inst->addr = inst->object_addr = s->addr;
    inst->length = 1;
    inst->file = frames[0].file;
    inst->line = frames[0].line;
    add_entries(g->w, frames, l->n_lines);
}

// --- machine code ---

static struct object *sample_object(struct gather *g, const struct sampled *s)
{
    uint32_t mapping = g->p->locations[s->location].mapping;
    return mapping == MODEL_NONE ? NULL : object_open(g->r, mapping);
}

static void add_listed_range(struct gather *g, size_t first, size_t n)
{
    struct sampled **s = g->wanted + first;
    struct range range = {.object = sample_object(g, s[0]), .first = first, .n = n};
    for (size_t i = 0; i < n; i++)
        range.score = units_add(range.score, s[i]->flat);
    uint64_t begin = s[0]->addr, end = s[n - 1]->addr;
    uint64_t start = range.object->start, limit = range.object->limit;
    range.begin = begin - start >= AROUND ? begin - AROUND : start;
    range.end = limit - end >= AROUND ? end + AROUND : limit;
    g->ranges = arena_push(g->r->arena, g->ranges, g->n_ranges, &g->cap_ranges, sizeof range);
    g->ranges[g->n_ranges++] = range;
}

// Builds ranges that cover the addresses of interest; addresses without a binary are added
// directly.
static void split_into_ranges(struct gather *g)
{
    g->wanted = arena_array(g->r->arena, g->n_sampled + 1, sizeof *g->wanted);
    for (size_t i = 0; i < g->n_sampled; i++) {
        struct sampled *s = &g->sampled[i];
        if (s->location == MODEL_NONE)
            continue;
        struct object *object = sample_object(g, s);
        if (object && object->file)
            g->wanted[g->n_wanted++] = s;
        else
            add_sampled(g, s);
    }
    for (size_t i = 0, end; i < g->n_wanted; i = end) {
        uint64_t limit = sample_object(g, g->wanted[i])->limit;
        for (end = i + 1; end < g->n_wanted; end++)
            if (g->wanted[end]->addr > g->wanted[end - 1]->addr + 2 * AROUND ||
                g->wanted[end]->addr >= limit)
                break;
        add_listed_range(g, i, end - i);
    }
}

static int compare_range_scores(const void *a, const void *b)
{
    const struct range *x = a, *y = b;
    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    return (x->begin > y->begin) - (x->begin < y->begin);
}

// The inlined calls at an instruction, innermost first; at least one.
static size_t look_up_frames(struct gather *g, const struct range *range,
                             const struct disasm_inst *inst, struct weblist_frame *frames)
{
    struct symbol_frame found[SYMBOL_FRAMES_MAX];
    struct model_strings *strings = g->p->strings;
    int n = symbol_lookup(range->object->file, inst->addr, found, SYMBOL_FRAMES_MAX);
    for (int i = 0; i < n; i++)
        frames[i] = (struct weblist_frame){
            found[i].name ? model_intern(strings, str_from(found[i].name)) : 0,
            found[i].file ? model_intern(strings, str_from(found[i].file)) : 0, found[i].line};
    if (n <= 0)
        frames[0] = (struct weblist_frame){0};
    return n > 0 ? (size_t)n : 1;
}

static void add_instructions(struct gather *g, const struct range *range,
                             const struct disasm_range *code)
{
    struct weblist_frame frames[SYMBOL_FRAMES_MAX], last[SYMBOL_FRAMES_MAX];
    size_t n_last = 0;
    uint64_t last_addr = 0, highest = 0;
    for (size_t i = 0; i < code->n; i++) {
        const struct disasm_inst *from = &code->insts[i];
        uint64_t addr = from->addr + range->object->base;
        if (addr <= highest)
            continue; // objdump prints some twice
        highest = addr;
        struct weblist_inst *inst = add_inst(g->w);
        inst->addr = addr;
        inst->object_addr = from->addr;
        inst->length = 1;
        if (i + 1 < code->n && code->insts[i + 1].addr > from->addr)
            inst->length = code->insts[i + 1].addr - from->addr;
        inst->text = from->text;
        size_t n = look_up_frames(g, range, from, frames);
        inst->file = frames[0].file;
        inst->line = frames[0].line;
        if (frames[0].line != 0) {
            memcpy(last, frames, n * sizeof *frames);
            n_last = n;
            last_addr = addr;
        } else if (addr - last_addr <= NEIGHBOURHOOD && n_last) {
            memcpy(frames, last, n_last * sizeof *frames);
            n = n_last;
        }
        bool wanted = false;
        for (size_t k = 0; k < n; k++)
            wanted |= is_interesting(g->w, frames[k].function);
        if (!wanted)
            continue;
        struct weblist_frame *kept = arena_array(g->r->arena, n, sizeof *kept);
        memcpy(kept, frames, n * sizeof *kept);
        add_entries(g->w, kept, n);
    }
}

static void disassemble_range(struct gather *g)
{
    struct report *r = g->r;
    if (g->n_ranges > 1)
        qsort(g->ranges, g->n_ranges, sizeof *g->ranges, compare_range_scores);
    size_t n = g->n_ranges < MOST_RANGES ? g->n_ranges : MOST_RANGES;
    struct disasm_tool *tool = arena_alloc(r->arena, sizeof *tool);
    struct disasm_range *code = arena_array(r->arena, n + 1, sizeof *code);
    for (size_t i = 0; i < n; i++) {
        struct range *range = &g->ranges[i];
        struct str file = model_str(r->p, range->object->name);
        struct err e;
        code[i] = (struct disasm_range){.binary = arena_copy(r->arena, file.p, file.n),
                                        .intel_syntax = r->o.intel_syntax};
        if (object_place(range->object, g->wanted[range->first]->addr, &e))
            code[i].error = arena_printf(r->arena, "%s", e.message);
        code[i].start = range->begin - range->object->base;
        code[i].end = range->end - range->object->base;
    }
    if (n)
        disasm_find(tool, r->o.tools);
    disasm_run(tool, code, n, r->arena);
    const char *told = NULL;
    for (size_t i = 0; i < n; i++) {
        if (!code[i].error) {
            add_instructions(g, &g->ranges[i], &code[i]);
            continue;
        }
        if (!told && r->o.note)
            r->o.note(arena_printf(r->arena, "no machine code is shown for %s: %s", code[i].binary,
                                   code[i].error));
        told = code[i].error;
        for (size_t k = 0; k < g->ranges[i].n; k++)
            add_sampled(g, g->wanted[g->ranges[i].first + k]);
    }
}

// A sample in the middle of an instruction (after a call) counts for the instruction.
static void assign_samples(struct gather *g)
{
    for (size_t i = 0; i < g->w->n_insts; i++) {
        struct weblist_inst *inst = &g->w->insts[i];
        for (size_t k = first_at_or_after(g, inst->addr);
             k < g->n_sampled && g->sampled[k].addr - inst->addr < inst->length; k++) {
            inst->flat = units_add(inst->flat, g->sampled[k].flat);
            inst->cum = units_add(inst->cum, g->sampled[k].cum);
        }
    }
}

static int compare_entry_lines(const void *a, const void *b)
{
    const struct weblist_entry *x = a, *y = b;
    if (x->line != y->line)
        return x->line < y->line ? -1 : 1;
    return (x->order > y->order) - (x->order < y->order);
}

static int compare_file_names(const void *a, const void *b, void *profile)
{
    const struct weblist_file *x = a, *y = b;
    return str_cmp(model_str(profile, x->name), model_str(profile, y->name));
}

void weblist_gather(struct weblist *w)
{
    struct report *r = w->r;
    struct gather g = {.w = w, .r = r, .p = r->p};
    w->n_strings = r->p->strings->n;
    w->interest = arena_array(r->arena, w->n_strings, sizeof *w->interest);
    w->pretty = arena_array(r->arena, w->n_strings, sizeof *w->pretty);
    hash_init(&w->file_index, r->arena, 64);
    count_weblist_samples(&g);
    split_into_ranges(&g);
    if (g.n_wanted == 0 && w->n_insts == 0) {
        struct str pattern = model_regex_pattern(r->o.symbol);
        arena_fail(r->arena, "no matches found for regexp: %.*s", (int)pattern.n, pattern.p);
    }
    disassemble_range(&g);
    assign_samples(&g);
    for (size_t i = 0; i < w->n_files; i++)
        qsort(w->files[i].entries, w->files[i].n, sizeof *w->files[i].entries, compare_entry_lines);
    if (w->n_files > 1)
        qsort_r(w->files, w->n_files, sizeof *w->files, compare_file_names, (void *)r->p);
}

void report_weblist(struct report *r, struct out *out)
{
    struct weblist w = {.r = r};
    w.sources = source_files_new(r->arena, r->o.source_path, r->o.trim_path);
    weblist_gather(&w);
    weblist_html(&w, out);
}
