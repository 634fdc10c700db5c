// Names for frames that were stored with nothing but an address.
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "server/debuginfo_internal.h"
#include "server/server.h"
#include "symbol/symbol.h"

// What sections of one file may take once they are unpacked: a file of a few megabytes can claim
// to be as large as it likes. They count for the budget.
enum { UNPACKED_MAX = 1 << 30 };
// The tables of a file's DWARF count for the budget, too: as much as its sections have.
enum { TABLES_LEAST = 1 << 20, TABLES_MAX = 64 << 20 };
enum { LOOKUPS_BETWEEN_RELEASES = 256 }; // of the file's pages

struct naming {
    struct debuginfo *d;
    struct str tenant;
    struct naming *next; // under debuginfo.naming_lock
    uint64_t replaced;   // debuginfo.replaced when it began
    struct arena *arena;
    struct model_profile *q;
    struct hash_table functions;
    size_t cap_functions, cap_lines, cap_names;
    struct store_name *names; // for the store
    size_t n_names;
    // Of the mapping under work.
    struct symbol_file *file;
    struct elf *elf; // of file
    size_t charged;  // bytes that the budget is charged for it
    size_t tables;   // those of them for DWARF
    unsigned lookups;
    struct str id;
    uint32_t *locations;
    uint64_t *offsets, *vaddrs;
    size_t n;
    // Inside of symbol_lookup_many, which must not be jumped out of.
    bool failed;
    struct err error;
};

// --- what is known not to be known ---

// Once any file was replaced, no hash of before is found again.
static _Atomic uint64_t *unknown_slot(const struct naming *n, uint64_t offset, uint64_t *hash)
{
    *hash = hash_mix(hash_bytes(n->tenant.p, n->tenant.n, hash_bytes(n->id.p, n->id.n, offset)),
                     n->replaced) |
            1;
    return &n->d->unknown[*hash >> 1 & (DEBUGINFO_UNKNOWN - 1)];
}

static bool is_unknown(const struct naming *n, uint64_t offset)
{
    uint64_t hash;
    return *unknown_slot(n, offset, &hash) == hash;
}

static void remember_unknown(const struct naming *n, uint64_t offset)
{
    uint64_t hash;
    _Atomic uint64_t *slot = unknown_slot(n, offset, &hash);
    *slot = hash;
}

static pthread_mutex_t *names_lock(struct debuginfo *d, struct str tenant)
{
    return &d->names[hash_bytes(tenant.p, tenant.n, 0) % DEBUGINFO_LOCKS];
}

void debuginfo_forget(struct debuginfo *d, struct str tenant, struct str id)
{
    struct err e;
    pthread_mutex_lock(names_lock(d, tenant));
    d->replaced++;
    if (store_forget_names(d->o.store, tenant, id, &e))
        server_log("warn", "keeping names of an older debug file", "error", e.message, NULL);
    pthread_mutex_unlock(names_lock(d, tenant));
}

// Unless a file was replaced while names were looked up: they may be of the old one.
static void keep_names(struct naming *n)
{
    struct err e;
    if (!n->n_names)
        return;
    pthread_mutex_lock(names_lock(n->d, n->tenant));
    if (n->d->replaced == n->replaced &&
        store_name(n->d->o.store, n->tenant, n->names, n->n_names, &e))
        server_log("warn", "cannot store names", "error", e.message, NULL);
    pthread_mutex_unlock(names_lock(n->d, n->tenant));
}

// --- look-ups ---

static uint32_t function_of(struct naming *n, const struct symbol_frame *frame)
{
    struct model_profile *q = n->q;
    struct model_function f = {
        .start_line = frame->start_line,
        .name = model_intern(q->strings, str_from(frame->shown ? frame->shown : "")),
        .system_name = model_intern(q->strings, str_from(frame->name ? frame->name : "")),
        .filename = model_intern(q->strings, str_from(frame->file ? frame->file : "")),
    };
    uint64_t hash =
        hash_mix(hash_mix(f.name, f.system_name), hash_mix(f.filename, (uint64_t)f.start_line));
    for (struct hash_probe at = hash_find(&n->functions, hash); hash_hit(&n->functions, &at);
         hash_next(&n->functions, &at)) {
        const struct model_function *o = &q->functions[at.item];
        if (o->name == f.name && o->system_name == f.system_name && o->filename == f.filename &&
            o->start_line == f.start_line)
            return at.item;
    }
    f.id = (uint64_t)q->n_functions + 1;
    q->functions =
        arena_push(n->arena, q->functions, q->n_functions, &n->cap_functions, sizeof *q->functions);
    q->functions[q->n_functions] = f;
    hash_add(&n->functions, n->arena, hash, q->n_functions);
    return q->n_functions++;
}

static void add_frames(struct naming *n, size_t i, const struct symbol_frame *frames, int n_frames)
{
    struct model_profile *q = n->q;
    struct model_location *l = &q->locations[n->locations[i]];
    struct store_frame *kept = arena_array(n->arena, (size_t)n_frames, sizeof *kept);
    l->first_line = q->n_lines;
    l->n_lines = (uint32_t)n_frames;
    for (int k = 0; k < n_frames; k++) {
        uint32_t function = function_of(n, &frames[k]);
        const struct model_function *f = &q->functions[function];
        q->lines = arena_push(n->arena, q->lines, q->n_lines, &n->cap_lines, sizeof *q->lines);
        q->lines[q->n_lines++] = (struct model_line){frames[k].line, 0, function};
        kept[k] = (struct store_frame){model_str(q, f->name), model_str(q, f->system_name),
                                       model_str(q, f->filename), frames[k].line, f->start_line};
    }
    n->names = arena_push(n->arena, n->names, n->n_names, &n->cap_names, sizeof *n->names);
    n->names[n->n_names++] = (struct store_name){n->id, n->offsets[i], kept, (size_t)n_frames};
}

static bool take_frames(void *ctx, size_t i, const struct symbol_frame *frames, int n_frames)
{
    enum { LOOKUP_STEPS = 64 }; // of arena_spend
    struct naming *n = ctx;
    struct arena_trap trap;
    if (ARENA_TRY(n->arena, trap)) {
        arena_caught(n->arena, &n->error);
        n->failed = true;
        return false;
    }
    arena_spend(n->arena, LOOKUP_STEPS);
    if (++n->lookups % LOOKUPS_BETWEEN_RELEASES == 0)
        elf_forget_pages(n->elf);
    if (n_frames > 0)
        add_frames(n, i, frames, n_frames);
    else
        remember_unknown(n, n->offsets[i]);
    arena_try_end(n->arena);
    return true;
}

static bool charge_file(struct naming *n, const struct elf *elf, size_t size, struct err *e)
{
    struct budget *budget = arena_budget(n->arena);
    struct budget_account *full = budget ? budget_charge(&budget->account, size) : NULL;
    if (full) {
        err_set(e, "reading %s needs %zu MiB; the limit of %s is %zu MiB", elf_path(elf),
                size >> 20, full->owner, full->limit >> 20);
        return false;
    }
    n->charged += budget ? size : 0;
    return true;
}

// Bytes that the DWARF of the file has, unpacked.
static size_t dwarf_size(const struct elf *elf)
{
    const struct elf_section *sections;
    size_t n = elf_sections(elf, &sections), size = elf_unpacked_size(elf);
    for (size_t i = 0; i < n; i++)
        if (!(sections[i].flags & SHF_ALLOC) && sections[i].size <= TABLES_MAX)
            size += sections[i].size;
        else if (!(sections[i].flags & SHF_ALLOC))
            size += TABLES_MAX;
    return size;
}

// Whether there is room for what the file unpacks to and for tables of it, which is charged.
static bool has_names_room(struct naming *n, struct elf *elf, struct err *e)
{
    size_t unpacked = elf_unpacked_size(elf), tables = elf_has_dwarf(elf) ? dwarf_size(elf) : 0;
    if (unpacked > UNPACKED_MAX)
        unpacked = UNPACKED_MAX;
    n->tables = tables > TABLES_MAX ? TABLES_MAX : tables > TABLES_LEAST ? tables : TABLES_LEAST;
    if (!charge_file(n, elf, unpacked + n->tables, e))
        return false;
    elf_limit_unpacking(elf, unpacked ? unpacked : 1);
    return charge_file(n, elf, elf_sorting_size(elf), e);
}

// Called while DWARF is read.
static bool may_go_on(void *context)
{
    struct naming *n = context;
    struct budget *budget = arena_budget(n->arena);
    elf_forget_pages(n->elf);
    return !budget || budget_yield(budget) == BUDGET_OK;
}

static void close_file(struct naming *n)
{
    struct budget *budget = arena_budget(n->arena);
    symbol_free(n->file);
    n->file = NULL;
    if (budget)
        budget_release(&budget->account, n->charged);
    n->charged = 0;
}

static struct symbol_file *open_file(struct naming *n)
{
    // Nothing beside the file is looked for: it would be by paths that the file names.
    struct symbol_options options = {.no_debug_files = true,
                                     .own_process = true,
                                     .demangle = DEMANGLE_DEFAULT,
                                     .cxx = demangle_cxx_iberty,
                                     .go_on = may_go_on,
                                     .go_on_ctx = n};
    struct err e;
    int fd = debuginfo_find(n->d, n->tenant, n->id);
    if (fd < 0)
        return NULL;
    char name[2 * ELF_BUILD_ID_MAX + 1];
    snprintf(name, sizeof name, "%.*s", (int)n->id.n, n->id.p);
    struct elf *elf = elf_open_fd(fd, name, ELF_OWN_PROCESS, &e);
    close(fd);
    if (elf && !has_names_room(n, elf, &e)) {
        elf_free(elf);
        elf = NULL;
    }
    n->elf = elf;
    options.memory_limit = n->tables;
    struct symbol_file *file = elf ? symbol_open_elf(elf, &options, &e) : NULL;
    if (!file)
        server_log("warn", "cannot read a debug file", "error", e.message, NULL);
    return file;
}

static void name_mapping(struct naming *n, uint32_t mapping)
{
    struct model_profile *q = n->q;
    const struct model_mapping *m = &q->mappings[mapping];
    struct err e;
    n->id = model_str(q, m->build_id);
    n->n = 0;
    for (uint32_t i = 0; i < q->n_locations; i++) {
        const struct model_location *l = &q->locations[i];
        uint64_t offset = l->address - m->start + m->offset;
        arena_spend(n->arena, 1);
        if (l->mapping != mapping || l->n_lines || is_unknown(n, offset))
            continue;
        n->locations[n->n] = i;
        n->offsets[n->n++] = offset;
    }
    if (!n->n)
        return;
    n->file = open_file(n);
    if (!n->file) {
        close_file(n);
        return;
    }
    struct elf *elf = n->elf;
    struct elf_mapping place = {.start = m->start, .limit = m->limit, .offset = m->offset};
    elf_mapping_kernel(elf, &place, m->starts_at_text ? "_text" : "_stext");
    size_t kept = 0;
    for (size_t i = 0; i < n->n; i++) {
        if (elf_vaddr(elf, &place, q->locations[n->locations[i]].address, &n->vaddrs[kept], &e)) {
            remember_unknown(n, n->offsets[i]);
            continue;
        }
        n->locations[kept] = n->locations[i];
        n->offsets[kept++] = n->offsets[i];
    }
    if (symbol_lookup_many(n->file, n->vaddrs, kept, take_frames, n, &e))
        server_log("warn", "cannot use a debug file", "error", e.message, NULL);
    if (n->failed)
        arena_fail(n->arena, "%s", n->error.message);
    close_file(n);
    arena_check(n->arena);
}

static void name_all(struct naming *n, const bool *wanted)
{
    struct model_profile *q = n->q;
    struct model_function *functions = q->functions;
    struct model_location *locations = q->locations;
    struct model_line *lines = q->lines;
    size_t room = (size_t)q->n_locations + 1;
    // Columns that change become this profile's own.
    q->functions = arena_array(n->arena, (size_t)q->n_functions + 1, sizeof *functions);
    q->locations = arena_array(n->arena, room, sizeof *locations);
    q->lines = arena_array(n->arena, (size_t)q->n_lines + 1, sizeof *lines);
    if (q->n_functions)
        memcpy(q->functions, functions, q->n_functions * sizeof *functions);
    if (q->n_locations)
        memcpy(q->locations, locations, q->n_locations * sizeof *locations);
    if (q->n_lines)
        memcpy(q->lines, lines, q->n_lines * sizeof *lines);
    n->cap_functions = q->n_functions;
    n->cap_lines = q->n_lines;
    hash_init(&n->functions, n->arena, 64);
    n->locations = arena_array(n->arena, room, sizeof *n->locations);
    n->offsets = arena_array(n->arena, room, sizeof *n->offsets);
    n->vaddrs = arena_array(n->arena, room, sizeof *n->vaddrs);
    for (uint32_t i = 0; i < q->n_mappings; i++)
        if (wanted[i])
            name_mapping(n, i);
}

// Tells readers that no frame lacks a name, so they need not look for names.
static void set_flags(struct model_profile *q, struct arena *arena)
{
    uint8_t *seen = arena_array(arena, (size_t)q->n_mappings + 1, sizeof *seen);
    for (uint32_t i = 0; i < q->n_locations; i++)
        if (q->locations[i].mapping != MODEL_NONE)
            seen[q->locations[i].mapping] |= q->locations[i].n_lines ? 1 : 2;
    struct model_mapping *mappings = q->mappings;
    q->mappings = arena_array(arena, (size_t)q->n_mappings + 1, sizeof *mappings);
    for (uint32_t i = 0; i < q->n_mappings; i++) {
        struct model_mapping *m = &q->mappings[i];
        *m = mappings[i];
        if (seen[i] == 1 && m->build_id && !m->has_functions)
            m->has_functions = m->has_filenames = m->has_line_numbers = m->has_inline_frames = true;
    }
}

// Mappings that have a build id, a frame without a name, and a file.
static bool find_wanted(struct debuginfo *d, struct str tenant, const struct model_profile *p,
                        bool *wanted)
{
    bool any = false;
    for (uint32_t i = 0; i < p->n_locations; i++) {
        uint32_t mapping = p->locations[i].mapping;
        if (mapping != MODEL_NONE && !p->locations[i].n_lines)
            wanted[mapping] = p->mappings[mapping].build_id != 0;
    }
    for (uint32_t i = 0; i < p->n_mappings; i++) {
        wanted[i] = wanted[i] && debuginfo_has(d, tenant, model_str(p, p->mappings[i].build_id));
        any |= wanted[i];
    }
    return any;
}

static int try_to_name(struct naming *n, const bool *wanted, struct err *e)
{
    struct naming *volatile held = n;
    struct arena_trap trap;
    if (ARENA_TRY(n->arena, trap)) {
        close_file(held);
        arena_caught(held->arena, e);
        return STORE_BUSY;
    }
    name_all(n, wanted);
    arena_try_end(n->arena);
    return 0;
}

// Adds n unless the tenant has one already.
static bool add_naming(struct naming *n)
{
    pthread_mutex_lock(&n->d->naming_lock);
    const struct naming *at = n->d->naming;
    while (at && !str_eq(at->tenant, n->tenant))
        at = at->next;
    if (!at) {
        n->next = n->d->naming;
        n->d->naming = n;
    }
    pthread_mutex_unlock(&n->d->naming_lock);
    return !at;
}

// Waits for the tenant's turn. Jumps if the budget of the arena ends first.
static void begin_naming(struct naming *n)
{
    const struct timespec turn = {.tv_nsec = 1000000};
    while (!add_naming(n)) {
        arena_check(n->arena);
        budget_rest(arena_budget(n->arena));
        nanosleep(&turn, NULL);
    }
}

static void end_naming(struct naming *n)
{
    pthread_mutex_lock(&n->d->naming_lock);
    struct naming **at = &n->d->naming;
    while (*at != n)
        at = &(*at)->next;
    *at = n->next;
    pthread_mutex_unlock(&n->d->naming_lock);
}

int debuginfo_name(struct debuginfo *d, struct str tenant, struct store_stacks *stacks,
                   struct arena *arena, struct err *e)
{
    const struct model_profile *p = stacks->symbols;
    bool *wanted = arena_array(arena, (size_t)p->n_mappings + 1, sizeof *wanted);
    bool any = find_wanted(d, tenant, p, wanted);
    struct naming n = {
        .d = d, .tenant = tenant, .arena = arena, .q = model_profile_derive(p, arena)};
    int code = 0;
    if (any) {
        begin_naming(&n);
        n.replaced = d->replaced;
        code = try_to_name(&n, wanted, e);
        end_naming(&n);
    }
    if (!code) {
        keep_names(&n);
        set_flags(n.q, arena);
        stacks->symbols = n.q;
    }
    return code;
}
