#include "agent/heap/heap_jemalloc_code.h"

#include <dlfcn.h>
#include <elf.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include "base/str.h"
#include "symbol/elf.h"

enum {
    // jemalloc's functions are adjacent; its static functions, which have no prefix, lie between
    // those that have one.
    GAP = 16 << 10,
    LEAST_CLUSTER = 20,
    RANGES_MAX = 20000,
};

// Resolved by the linker if libkiln.a is linked into a program with jemalloc.
extern jemalloc_mallctl mallctl __attribute__((weak));
extern jemalloc_mallctl _rjem_mallctl __attribute__((weak));
extern jemalloc_mallctl je_mallctl __attribute__((weak));

static const char *const names[] = {"mallctl", "_rjem_mallctl", "je_mallctl"};
enum { N_NAMES = sizeof names / sizeof *names };

struct range {
    uint64_t start, end;
};

// Sorted and disjoint. Published once and never freed, so readers need no lock, which a fork could
// leave locked.
struct code {
    size_t n;
    struct range ranges[];
};

static _Atomic(jemalloc_mallctl *) program_mallctl, found_mallctl;
static atomic_bool searched;
static _Atomic(struct code *) code;

// --- mallctl ---

static void match_control(void *context, const struct elf_symbol *symbol)
{
    uint64_t *addresses = context;
    for (int i = 0; i < N_NAMES; i++)
        if (strcmp(symbol->name, names[i]) == 0)
            addresses[i] = symbol->addr;
}

// Difference between run-time addresses and those in the program's file.
static bool program_bias(struct elf *elf, uint64_t *bias)
{
    const struct elf_segment *segments;
    size_t n = elf_segments(elf, &segments);
    uint64_t headers = getauxval(AT_PHDR);
    for (size_t i = 0; i < n && headers; i++) {
        // The program headers follow the ELF header.
        bool first = segments[i].type == PT_LOAD && segments[i].offset == 0;
        if (first || segments[i].type == PT_PHDR) {
            *bias = headers - segments[i].vaddr - (first ? sizeof(Elf64_Ehdr) : 0);
            return true;
        }
    }
    return false;
}

static jemalloc_mallctl *search_program(void)
{
    struct err ignored;
    struct elf *elf = elf_open("/proc/self/exe", ELF_IN_HOST, &ignored);
    uint64_t addresses[N_NAMES] = {0}, bias = 0;
    uintptr_t at = 0;
    if (elf && program_bias(elf, &bias)) {
        elf_each_symbol(elf, match_control, addresses);
        for (int i = 0; i < N_NAMES && !at; i++)
            at = addresses[i] ? addresses[i] + bias : 0;
    }
    elf_free(elf);
    return (jemalloc_mallctl *)at;
}

static jemalloc_mallctl *find_control(void)
{
    jemalloc_mallctl *const linked[N_NAMES] = {mallctl, _rjem_mallctl, je_mallctl};
    for (int i = 0; i < N_NAMES; i++)
        if (linked[i])
            return linked[i];
    for (int i = 0; i < N_NAMES; i++) {
        void *symbol = dlsym(RTLD_DEFAULT, names[i]);
        if (symbol)
            return (jemalloc_mallctl *)symbol;
    }
    return search_program();
}

jemalloc_mallctl *jemalloc_control(void)
{
    jemalloc_mallctl *control = atomic_load(&program_mallctl);
    if (control)
        return control;
    if (!atomic_load(&searched)) {
        atomic_store(&found_mallctl, find_control());
        atomic_store(&searched, true);
    }
    return atomic_load(&found_mallctl);
}

void jemalloc_set_control(jemalloc_mallctl *control)
{
    atomic_store(&program_mallctl, control);
}

// --- code ranges ---

struct collection {
    struct range *ranges;
    size_t n, cap;
    uint64_t control, bias; // run-time address of mallctl, and the load bias that follows from it
};

// Whether the name is jemalloc's, in the file that contains mallctl.
static bool is_jemalloc(const char *name)
{
    static const char *const functions[] = {
        "malloc", "calloc",  "realloc", "posix_memalign", "aligned_alloc", "memalign",
        "valloc", "pvalloc", "mallocx", "rallocx",        "xallocx",       "malloc_default",
    };
    static const char *const prefixes[] = {"_rjem_", "je_", "_Znw", "_Zna"}; // operator new
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0)
            return true;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (strcmp(name, functions[i]) == 0)
            return true;
    return false;
}

// Rust's wrappers around the allocator.
static bool is_shim(const char *name)
{
    static const char *const parts[] = {
        "__rust_alloc", "__rust_realloc",      "__rg_alloc",   "__rg_realloc",
        "__rdl_alloc",  "__rdl_realloc",       "5alloc5alloc", "alloc..alloc..Global",
        "jemallocator", "kiln_heap_allocated", "4kiln4heap",   "kiln..heap..Allocator",
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strstr(name, parts[i]))
            return true;
    return false;
}

static void add_jemalloc_range(struct collection *c, uint64_t start, uint64_t end)
{
    if (c->n == c->cap) {
        size_t cap = c->cap ? 2 * c->cap : 512;
        struct range *more = cap <= RANGES_MAX ? realloc(c->ranges, cap * sizeof *more) : NULL;
        if (!more)
            return; // the remaining functions count as the program's
        c->ranges = more;
        c->cap = cap;
    }
    c->ranges[c->n++] = (struct range){start, end};
}

static void collect_named(void *context, const struct elf_symbol *symbol)
{
    struct collection *c = context;
    if (symbol->size && is_jemalloc(symbol->name))
        add_jemalloc_range(c, symbol->addr, symbol->addr + symbol->size);
}

static void collect_shims(void *context, const struct elf_symbol *symbol)
{
    struct collection *c = context;
    if (symbol->size && is_shim(symbol->name))
        add_jemalloc_range(c, symbol->addr, symbol->addr + symbol->size);
}

static int by_start(const void *a, const void *b)
{
    const struct range *x = a, *y = b;
    return (x->start > y->start) - (x->start < y->start);
}

// Merges overlapping ranges; c is sorted.
static void merge_overlaps(struct collection *c)
{
    size_t n = 0;
    for (size_t i = 0; i < c->n; i++) {
        struct range *last = n ? &c->ranges[n - 1] : NULL;
        if (last && c->ranges[i].start <= last->end)
            last->end = c->ranges[i].end > last->end ? c->ranges[i].end : last->end;
        else
            c->ranges[n++] = c->ranges[i];
    }
    c->n = n;
}

static void sort_ranges(struct collection *c)
{
    if (c->n)
        qsort(c->ranges, c->n, sizeof *c->ranges, by_start);
}

// Where many ranges are close to each other, the code between them is jemalloc's as well.
static void merge_clusters(struct collection *c)
{
    size_t n = 0;
    sort_ranges(c);
    for (size_t i = 0; i < c->n;) {
        size_t to = i + 1;
        uint64_t end = c->ranges[i].end;
        for (; to < c->n && c->ranges[to].start <= end + GAP; to++)
            end = c->ranges[to].end > end ? c->ranges[to].end : end;
        if (to - i >= LEAST_CLUSTER)
            c->ranges[n++] = (struct range){c->ranges[i].start, end};
        else
            for (size_t k = i; k < to; k++)
                c->ranges[n++] = c->ranges[k];
        i = to;
    }
    c->n = n;
}

static void find_bias(void *context, const struct elf_symbol *symbol)
{
    struct collection *c = context;
    for (int i = 0; i < N_NAMES; i++)
        if (strcmp(symbol->name, names[i]) == 0 && ((c->control - symbol->addr) & 0xfff) == 0)
            c->bias = c->control - symbol->addr;
}

// Gets the file mapped at an address. Returns false if it is a libjemalloc, or if there is none.
static bool mapped_file_path(uintptr_t address, char *path, size_t n)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[PATH_MAX + 128];
    bool found = false;
    while (maps && !found && fgets(line, sizeof line, maps)) {
        char *rest;
        uint64_t lo = strtoull(line, &rest, 16),
                 hi = *rest == '-' ? strtoull(rest + 1, NULL, 16) : 0;
        if (address < lo || address >= hi)
            continue;
        const char *file = strchr(line, '/');
        if (!file || strstr(file, "/libjemalloc"))
            break;
        found = snprintf(path, n, "%.*s", (int)strcspn(file, "\n"), file) < (int)n;
    }
    if (maps)
        fclose(maps);
    return found;
}

static struct code *make_code_ranges(struct collection *c)
{
    sort_ranges(c);
    merge_overlaps(c);
    struct code *made = malloc(sizeof *made + c->n * sizeof *made->ranges);
    if (!made)
        return NULL;
    made->n = c->n;
    for (size_t i = 0; i < c->n; i++)
        made->ranges[i] = (struct range){c->ranges[i].start + c->bias, c->ranges[i].end + c->bias};
    return made;
}

static struct code *find_code(uintptr_t control)
{
    char path[PATH_MAX], program[PATH_MAX];
    struct err ignored;
    struct collection c = {.control = control}, shims = {0};
    struct elf *elf = NULL;
    if (mapped_file_path(control ? control : getauxval(AT_ENTRY), path, sizeof path)) {
        bool own = mapped_file_path(getauxval(AT_ENTRY), program, sizeof program) &&
                   strcmp(path, program) == 0;
        elf = elf_open(own ? "/proc/self/exe" : path, ELF_IN_HOST, &ignored);
        if (elf && own)
            program_bias(elf, &c.bias);
    }
    if (elf) {
        if (control) {
            elf_each_symbol(elf, find_bias, &c);
            elf_each_symbol(elf, collect_named, &c);
            merge_clusters(&c);
        }
        elf_each_symbol(elf, collect_shims, &shims);
        for (size_t i = 0; i < shims.n; i++)
            add_jemalloc_range(&c, shims.ranges[i].start, shims.ranges[i].end);
    }
    struct code *made = make_code_ranges(&c);
    elf_free(elf);
    free(shims.ranges);
    free(c.ranges);
    return made;
}

void jemalloc_find_code(void)
{
    jemalloc_mallctl *control = jemalloc_control();
    struct code *none = NULL, *made = !atomic_load(&code) ? find_code((uintptr_t)control) : NULL;
    if (made && !atomic_compare_exchange_strong(&code, &none, made))
        free(made); // another thread was faster
}

bool jemalloc_is_code(uintptr_t pc)
{
    const struct code *known = atomic_load_explicit(&code, memory_order_acquire);
    size_t low = 0, high = known ? known->n : 0;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (known->ranges[middle].end <= pc)
            low = middle + 1;
        else
            high = middle;
    }
    return known && low < known->n && pc >= known->ranges[low].start;
}
