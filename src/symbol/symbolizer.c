#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "symbol/dwarf.h"
#include "symbol/radix.h"
#include "symbol/symbol.h"

enum { SHOWN_SLOTS = 1024, FEW_LOOKUPS = 8, PAGES_MAX = 4 << 20 };

struct shown {
    const char *name;
    char *text; // NULL: same as name
};

struct split_file {
    struct elf *elf;
    struct split_file *next;
};

struct symbol_file {
    struct symbol_options options;
    char *debug_dirs;
    struct elf *elf, *debug, *alternate, *mini, *package;
    struct split_file *splits;
    struct dwarf *dwarf, *alternate_dwarf;
    bool mini_asked, package_asked;
    struct shown *shown; // SHOWN_SLOTS entries, hashed by the pointer to the name
    struct dwarf_frame frames[SYMBOL_FRAMES_MAX];
};

static unsigned elf_flags(const struct symbol_options *o)
{
    return o->own_process ? ELF_OWN_PROCESS : ELF_IN_HOST;
}

static struct dwarf_sections sections_of(struct elf *elf, const char *suffix)
{
    static const char *const names[] = {"info",        "abbrev", "line",   "line_str", "str",
                                        "str_offsets", "addr",   "ranges", "rnglists", "aranges"};
    struct dwarf_sections s;
    struct bytes *each[] = {&s.info,        &s.abbrev, &s.line,   &s.line_str, &s.str,
                            &s.str_offsets, &s.addr,   &s.ranges, &s.rnglists, &s.aranges};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char name[64];
        snprintf(name, sizeof name, ".debug_%s%s", names[i], suffix);
        *each[i] = elf_bytes(elf, name);
    }
    return s;
}

// Finds a split unit in the package (.dwp) beside the debug file or the binary.
static bool find_in_package(struct symbol_file *f, uint64_t id, struct dwarf_sections *sections)
{
    const struct elf *beside[] = {f->debug, f->elf};
    for (int i = 0; i < 2 && !f->package_asked; i++) {
        char path[PATH_MAX];
        struct err ignored;
        if (beside[i] && !f->package &&
            snprintf(path, sizeof path, "%s.dwp", elf_path(beside[i])) < (int)sizeof path)
            f->package = elf_open(path, elf_flags(&f->options), &ignored);
    }
    f->package_asked = true;
    if (!f->package)
        return false;
    *sections = sections_of(f->package, ".dwo");
    return dwarf_package_find(elf_bytes(f->package, ".debug_cu_index"), id, sections);
}

static bool find_split_debug(void *ctx, const char *comp_dir, const char *name, uint64_t id,
                             struct dwarf_sections *sections)
{
    struct symbol_file *f = ctx;
    if (find_in_package(f, id, sections))
        return true;
    char path[PATH_MAX];
    struct err ignored;
    struct elf *elf = NULL;
    if (name[0] != '/' && *comp_dir &&
        snprintf(path, sizeof path, "%s/%s", comp_dir, name) < (int)sizeof path)
        elf = elf_open(path, elf_flags(&f->options), &ignored);
    if (!elf)
        elf = elf_open(name, elf_flags(&f->options), &ignored);
    // Try beside the binary, in case both were moved.
    const char *base = strrchr(name, '/'), *top = strrchr(elf_path(f->elf), '/');
    base = base ? base + 1 : name;
    if (!elf && snprintf(path, sizeof path, "%.*s%s", top ? (int)(top - elf_path(f->elf) + 1) : 0,
                         elf_path(f->elf), base) < (int)sizeof path)
        elf = elf_open(path, elf_flags(&f->options), &ignored);
    struct split_file *keep = elf ? malloc(sizeof *keep) : NULL;
    if (!keep) {
        elf_free(elf);
        return false;
    }
    *keep = (struct split_file){elf, f->splits};
    f->splits = keep;
    *sections = sections_of(elf, ".dwo");
    return sections->info.n > 0;
}

enum { FILES = 4 };

static void list_files(struct symbol_file *f, struct elf *files[FILES])
{
    files[0] = f->elf;
    files[1] = f->debug;
    files[2] = f->alternate;
    files[3] = f->package;
}

static void forget_pages(struct symbol_file *f)
{
    struct elf *files[FILES];
    list_files(f, files);
    for (int i = 0; i < FILES; i++)
        if (files[i])
            elf_forget_pages(files[i]);
    for (struct split_file *s = f->splits; s; s = s->next)
        elf_forget_pages(s->elf);
}

// Releases pages if there are too many. Returns whether it did.
static bool limit_pages(void *ctx)
{
    struct symbol_file *f = ctx;
    struct elf *files[FILES];
    size_t n = 0;
    list_files(f, files);
    for (int i = 0; i < FILES; i++)
        n += files[i] ? elf_pages(files[i]) : 0;
    for (struct split_file *s = f->splits; s; s = s->next)
        n += elf_pages(s->elf);
    if (n <= PAGES_MAX)
        return false;
    forget_pages(f);
    return true;
}

void symbol_rest(struct symbol_file *f)
{
    struct elf *files[FILES];
    list_files(f, files);
    for (int i = 0; i < FILES; i++)
        if (files[i])
            elf_rest(files[i]);
    for (struct split_file *s = f->splits; s; s = s->next)
        elf_rest(s->elf);
}

bool symbol_has_changed(struct symbol_file *f)
{
    struct elf *files[FILES];
    bool changed = false;
    list_files(f, files);
    for (int i = 0; i < FILES; i++)
        changed |= files[i] && elf_has_changed(files[i]);
    for (struct split_file *s = f->splits; s; s = s->next)
        changed |= elf_has_changed(s->elf);
    return changed;
}

// Opens the DWARF of elf and the file that dwz created from it.
static void open_dwarf(struct symbol_file *f, struct elf *elf)
{
    unsigned flags = elf_flags(&f->options);
    if (!f->options.own_process)
        elf_limit_unpacking(elf, f->options.memory_limit);
    f->alternate = f->options.no_debug_files ? NULL : elf_find_alternate(elf, f->debug_dirs, flags);
    if (f->alternate) {
        struct dwarf_sections s = sections_of(f->alternate, "");
        f->alternate_dwarf = dwarf_new(&s, NULL);
    }
    struct dwarf_sections s = sections_of(elf, "");
    f->dwarf = dwarf_new(&s, f->alternate_dwarf);
    if (f->dwarf)
        dwarf_limit_tables(f->dwarf, f->options.memory_limit / 2);
    if (f->dwarf)
        dwarf_on_work(f->dwarf, f->options.go_on, f->options.go_on_ctx);
    if (f->dwarf && !f->options.own_process)
        dwarf_on_pause(f->dwarf, limit_pages, f);
    if (f->dwarf && !f->options.no_debug_files)
        dwarf_on_split(f->dwarf, find_split_debug, f);
}

struct symbol_file *symbol_open_elf(struct elf *elf, const struct symbol_options *options,
                                    struct err *e)
{
    struct symbol_file *f = calloc(1, sizeof *f);
    if (!f) {
        err_set(e, "%s: no memory", elf_path(elf));
        elf_free(elf);
        return NULL;
    }
    f->elf = elf;
    if (options)
        f->options = *options;
    if (f->options.memory_limit == 0)
        f->options.memory_limit = (size_t)64 << 20;
    f->debug_dirs = f->options.debug_dirs ? strdup(f->options.debug_dirs) : NULL;
    if (f->options.symbols_only && f->options.no_debug_files)
        return f;
    if (!elf_has_dwarf(elf) && !f->options.no_debug_files)
        f->debug = elf_find_debug(elf, f->debug_dirs, elf_flags(&f->options));
    if (!f->options.symbols_only) {
        if (f->debug && elf_has_dwarf(f->debug))
            open_dwarf(f, f->debug);
        else if (elf_has_dwarf(elf))
            open_dwarf(f, elf);
    }
    return f;
}

struct symbol_file *symbol_open(const char *path, const struct symbol_options *options,
                                struct err *e)
{
    struct symbol_options none = {0};
    struct elf *elf = elf_open(path, elf_flags(options ? options : &none), e);
    return elf ? symbol_open_elf(elf, options, e) : NULL;
}

static void free_shown_names(struct symbol_file *f)
{
    for (size_t i = 0; f->shown && i < SHOWN_SLOTS; i++)
        free(f->shown[i].text);
    free(f->shown);
    f->shown = NULL;
}

void symbol_free(struct symbol_file *f)
{
    if (!f)
        return;
    free_shown_names(f);
    dwarf_free(f->dwarf);
    dwarf_free(f->alternate_dwarf);
    for (struct split_file *s = f->splits, *next; s; s = next) {
        next = s->next;
        elf_free(s->elf);
        free(s);
    }
    elf_free(f->elf);
    elf_free(f->debug);
    elf_free(f->alternate);
    elf_free(f->mini);
    elf_free(f->package);
    free(f->debug_dirs);
    free(f);
}

struct elf *symbol_elf(struct symbol_file *f)
{
    return f->elf;
}

const char *symbol_debug_path(const struct symbol_file *f)
{
    return f->dwarf ? elf_path(f->debug && elf_has_dwarf(f->debug) ? f->debug : f->elf) : NULL;
}

size_t symbol_memory(const struct symbol_file *f)
{
    size_t n = sizeof *f + elf_memory(f->elf);
    n += f->debug ? elf_memory(f->debug) : 0;
    n += f->alternate ? elf_memory(f->alternate) : 0;
    n += f->mini ? elf_memory(f->mini) : 0;
    n += f->package ? elf_memory(f->package) : 0;
    return n + (f->dwarf ? dwarf_memory(f->dwarf) : 0);
}

void symbol_release_pages(struct symbol_file *f)
{
    forget_pages(f);
    symbol_rest(f);
}

void symbol_release(struct symbol_file *f)
{
    free_shown_names(f);
    if (f->dwarf)
        dwarf_trim(f->dwarf);
    symbol_release_pages(f);
}

static const char *shown_name(struct symbol_file *f, const char *name)
{
    if (!name || f->options.demangle == DEMANGLE_NONE)
        return name;
    // Mangled names start with an underscore. Names from DWARF may have template arguments.
    if (name[0] != '_' && !strpbrk(name, "<:["))
        return name;
    if (!f->shown)
        f->shown = calloc(SHOWN_SLOTS, sizeof *f->shown);
    if (!f->shown)
        return name;
    struct shown *slot = &f->shown[((uintptr_t)name * UINT64_C(0x9e3779b97f4a7c15)) >> 54];
    if (slot->name != name) {
        free(slot->text);
        slot->text = demangle(name, f->options.demangle, f->options.cxx);
        slot->name = name;
    }
    return slot->text ? slot->text : name;
}

static struct elf *mini_of(struct symbol_file *f)
{
    if (!f->mini_asked && !f->debug && !f->options.no_debug_files) {
        f->mini_asked = true;
        f->mini = elf_mini_debug(f->elf, elf_flags(&f->options));
    }
    return f->mini;
}

// Finds a name in the symbol tables that llvm-symbolizer does not read. Used only if there is none
// otherwise.
static bool other_symbol(struct symbol_file *f, uint64_t vaddr, struct elf_symbol *symbol)
{
    if (f->debug && elf_symbol_at(f->debug, vaddr, symbol))
        return true;
    return mini_of(f) && elf_symbol_at(f->mini, vaddr, symbol);
}

int symbol_lookup(struct symbol_file *f, uint64_t vaddr, struct symbol_frame *frames, int max)
{
    if (max <= 0)
        return 0;
    if (f->dwarf && dwarf_memory(f->dwarf) > f->options.memory_limit) {
        free_shown_names(f); // names may point into what is freed
        dwarf_trim(f->dwarf);
    }
    if (!f->options.own_process)
        limit_pages(f);
    uint32_t found = elf_symbol_find(f->elf, vaddr);
    int n = 0;
    if (f->dwarf)
        n = dwarf_lookup(f->dwarf, vaddr, f->frames, SYMBOL_FRAMES_MAX);
    bool empty = n == 0;
    if (empty)
        f->frames[n++] = (struct dwarf_frame){0};
    struct dwarf_frame *outer = &f->frames[n - 1];
    struct elf_symbol symbol;
    bool named = elf_symbol_get(f->elf, found, vaddr, &symbol);
    if (!named && !outer->name)
        named = other_symbol(f, vaddr, &symbol);
    if (named) {
        outer->name = symbol.name;
        if (empty && symbol.file && *symbol.file)
            outer->file = symbol.file;
    } else if (empty) {
        return 0;
    }
    if (symbol_has_changed(f))
        return 0;
    if (n > max)
        n = max;
    for (int i = 0; i < n; i++) {
        const struct dwarf_frame *d = &f->frames[i];
        frames[i] = (struct symbol_frame){d->name,   shown_name(f, d->name), d->file,  d->line,
                                          d->column, d->start_line,          i + 1 < n};
    }
    return n;
}

struct boundaries {
    struct radix_pair *items;
    size_t n, cap;
    bool failed;
};

static bool add_boundary(void *ctx, uint64_t addr)
{
    struct boundaries *b = ctx;
    if (b->n && b->items[b->n - 1].key == addr)
        return true;
    if (b->n == b->cap) {
        size_t cap = b->cap ? b->cap * 2 : 4096;
        struct radix_pair *p = realloc(b->items, cap * sizeof *p);
        b->failed |= !p;
        if (!p)
            return false;
        b->items = p;
        b->cap = cap;
    }
    b->items[b->n++] = (struct radix_pair){addr, 0, 0};
    return true;
}

static void add_symbol(void *ctx, const struct elf_symbol *s)
{
    add_boundary(ctx, s->addr);
    add_boundary(ctx, s->addr + s->size);
}

uint64_t *symbol_boundaries(struct symbol_file *f, size_t *n)
{
    struct boundaries b = {0};
    const struct elf_section *sections;
    size_t n_sections = elf_sections(f->elf, &sections);
    for (size_t i = 0; i < n_sections; i++) {
        add_boundary(&b, sections[i].addr);
        add_boundary(&b, sections[i].addr + sections[i].size);
    }
    elf_each_symbol(f->elf, add_symbol, &b);
    if (f->debug)
        elf_each_symbol(f->debug, add_symbol, &b);
    if (mini_of(f))
        elf_each_symbol(f->mini, add_symbol, &b);
    if (f->dwarf)
        dwarf_each_boundary(f->dwarf, add_boundary, &b);
    if (b.failed || !radix_sort(b.items, b.n)) {
        free(b.items);
        return NULL;
    }
    uint64_t *addrs = (uint64_t *)b.items; // compacted in place
    size_t kept = 0;
    for (size_t i = 0; i < b.n; i++) {
        uint64_t addr = b.items[i].key;
        if (!kept || addrs[kept - 1] != addr)
            addrs[kept++] = addr;
    }
    *n = kept;
    return addrs;
}

int symbol_lookup_many(struct symbol_file *f, const uint64_t *addrs, size_t n, symbol_each_fn *call,
                       void *ctx, struct err *e)
{
    if (n > UINT32_MAX)
        return err_set(e, "too many addresses for one look-up");
    struct radix_pair *order = malloc((n + 1) * sizeof *order);
    if (!order)
        return err_set(e, "no memory for %zu addresses", n);
    for (size_t i = 0; i < n; i++)
        order[i] = (struct radix_pair){addrs[i], (uint32_t)i, 0};
    if (!radix_sort(order, n)) {
        free(order);
        return err_set(e, "no memory for %zu addresses", n);
    }
    if (n > FEW_LOOKUPS) {
        elf_expect_lookups(f->elf);
        if (f->dwarf)
            dwarf_expect_lookups(f->dwarf);
    }
    struct symbol_frame frames[SYMBOL_FRAMES_MAX];
    for (size_t i = 0; i < n; i++)
        if (!call(ctx, order[i].item, frames,
                  symbol_lookup(f, order[i].key, frames, SYMBOL_FRAMES_MAX)))
            break;
    free(order);
    return 0;
}
