#include "unwind/object.h"
#include "unwind/step.h"

#include <elf.h>
#include <link.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "process/call.h"
#include "process/maps.h"

#define MODULES_MAX 65536
#define TEXT_MAX ((size_t)64 << 20) // for all paths and build ids
#define MAP_LINES 8192
#define LARGE_HEADER 65536 // bytes of .eh_frame_hdr: about eight thousand functions

// A module found by the scan. path and build_id are offsets in text until the snapshot is
// assembled.
struct found {
    struct unwind_module m;
    size_t path, build_id;
    bool from_maps;                   // not from the loader: the bias is unknown so far
    const struct unwind_module *same; // the same module in the previous snapshot
};

struct module_scan {
    struct process_buffer found, text;
    unsigned long long adds, subs;
    uintptr_t page;
    char *lines; // buffer for the memory map, MAP_LINES bytes: the caller's stack may be small
    const struct unwind_snapshot *previous; // only if the loader is avoided
    bool failed;
};

static size_t n_found_modules(const struct module_scan *l)
{
    return l->found.n / sizeof(struct found);
}

static struct found *found_module(const struct module_scan *l, size_t i)
{
    return (struct found *)l->found.p + i;
}

static size_t add_scan_text(struct module_scan *l, const void *p, size_t n)
{
    size_t at = l->text.n;
    char *to = process_buffer_add(&l->text, n + 1);
    if (!to) {
        l->failed = true;
        return 0;
    }
    memcpy(to, p, n);
    to[n] = 0;
    return at;
}

static size_t add_module_path(struct module_scan *l, const char *name, bool main_program)
{
    // Read the link once: later /proc may be gone, or the main thread, whose link it is.
    static char link[4096];
    static size_t n_link;
    if (main_program && n_link == 0) {
        ssize_t n = readlink("/proc/self/exe", link, sizeof link);
        n_link = n > 0 ? (size_t)n : 0;
    }
    if (main_program && n_link)
        return add_scan_text(l, link, n_link);
    if (strncmp(name, "linux-vdso", 10) == 0)
        name = "[vdso]";
    return add_scan_text(l, name, strlen(name));
}

static void add_found_module(struct module_scan *l, const struct found *f)
{
    struct found *to =
        n_found_modules(l) < MODULES_MAX ? process_buffer_add(&l->found, sizeof *to) : NULL;
    if (to)
        *to = *f;
    else
        l->failed = true;
}

// Whether the bytes lie in a PT_LOAD segment.
static bool is_in_load_segment(const ElfW(Phdr) * ph, size_t n, uintptr_t address, size_t bytes)
{
    for (size_t i = 0; i < n; i++)
        if (ph[i].p_type == PT_LOAD && address >= ph[i].p_vaddr && bytes <= ph[i].p_memsz &&
            address - ph[i].p_vaddr <= ph[i].p_memsz - bytes)
            return true;
    return false;
}

// Finds the build id. A note outside of all PT_LOAD segments (after strip or objcopy) is not in
// memory, and a segment may have been unmapped by hand, so let the kernel copy it.
static void read_build_id(struct module_scan *l, struct found *f, const ElfW(Phdr) * ph, size_t n)
{
    uint8_t notes[1024];
    const uint8_t *id;
    for (size_t i = 0; i < n && f->m.n_build_id == 0; i++) {
        size_t n_notes = ph[i].p_memsz < sizeof notes ? ph[i].p_memsz : sizeof notes;
        if (ph[i].p_type != PT_NOTE || !is_in_load_segment(ph, n, ph[i].p_vaddr, n_notes) ||
            process_copy(notes, f->m.bias + ph[i].p_vaddr, n_notes) != 0)
            continue;
        size_t size = object_build_id(notes, n_notes, ph[i].p_align, &id);
        if (size)
            f->build_id = add_scan_text(l, id, size);
        f->m.n_build_id = (uint32_t)size;
    }
}

// Adds a module for each executable segment of one object. The loader's lock is held, so the
// program headers are mapped.
static void scan_object(struct module_scan *l, uintptr_t bias, const char *name, bool main_program,
                        const ElfW(Phdr) * ph, size_t n)
{
    struct found base = {.m.bias = bias};
    size_t path = SIZE_MAX;
    read_build_id(l, &base, ph, n);
    for (size_t i = 0; i < n; i++)
        if (ph[i].p_type == PT_GNU_EH_FRAME) {
            base.m.header = bias + ph[i].p_vaddr;
            base.m.n_header = ph[i].p_memsz;
        }
    for (size_t i = 0; i < n && base.m.header; i++)
        if (ph[i].p_type == PT_LOAD && base.m.header - bias - ph[i].p_vaddr < ph[i].p_memsz)
            base.m.limit = bias + ph[i].p_vaddr + ph[i].p_memsz;
    for (size_t i = 0; i < n; i++) {
        if (ph[i].p_type != PT_LOAD || !(ph[i].p_flags & PF_X) || ph[i].p_memsz == 0)
            continue;
        if (path == SIZE_MAX)
            path = add_module_path(l, name, main_program);
        struct found f = base;
        f.path = path;
        uintptr_t inset = ph[i].p_vaddr & (l->page - 1);
        f.m.start = bias + ph[i].p_vaddr - inset;
        f.m.end = (bias + ph[i].p_vaddr + ph[i].p_memsz + l->page - 1) & ~(l->page - 1);
        f.m.file_offset = ph[i].p_offset - inset;
        add_found_module(l, &f);
    }
}

// The name of the loader itself is in the program's headers.
static const char *readable_name(const struct module_scan *l, const char *name)
{
    for (const char *p = name; p && process_page_readable((uintptr_t)p);) {
        size_t left = l->page - (uintptr_t)p % l->page;
        if (memchr(p, 0, left))
            return name;
        p += left;
    }
    return "";
}

// The program may have taken its headers away.
static bool has_headers(const struct dl_phdr_info *info)
{
    return process_readable((uintptr_t)info->dlpi_phdr, info->dlpi_phnum * sizeof *info->dlpi_phdr);
}

static int scan_loader_object(struct dl_phdr_info *info, size_t size, void *data)
{
    struct module_scan *l = data;
    if (size >= offsetof(struct dl_phdr_info, dlpi_subs) + sizeof info->dlpi_subs) {
        l->adds = info->dlpi_adds;
        l->subs = info->dlpi_subs;
    }
    const char *name = readable_name(l, info->dlpi_name);
    if (has_headers(info))
        scan_object(l, info->dlpi_addr, name, n_found_modules(l) == 0 && !*name, info->dlpi_phdr,
                    info->dlpi_phnum);
    return l->failed;
}

// Distinguishes builds of one object without build ids: the beginning of .eh_frame_hdr changes with
// every function that moves.
static uint64_t module_fingerprint(const struct unwind_module *m)
{
    uint64_t words[64], hash = m->header ^ m->n_header << 32;
    size_t n = m->n_header < sizeof words ? m->n_header / 8 : 64;
    if (!m->header || process_copy(words, m->header, n * 8) != 0)
        return 0;
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ words[i]) * 0x9e3779b97f4a7c15u ^ hash >> 29;
    return hash | 1;
}

// Copies everything but the table, which another thread may set.
static void copy_module(struct unwind_module *to, const struct unwind_module *from)
{
    *to = (struct unwind_module){
        .start = from->start,
        .end = from->end,
        .bias = from->bias,
        .file_offset = from->file_offset,
        .path = from->path,
        .build_id = from->build_id,
        .n_build_id = from->n_build_id,
        .header = from->header,
        .n_header = from->n_header,
        .limit = from->limit,
        .fingerprint = from->fingerprint,
    };
}

// If the mapping is unchanged since the loader could still be asked, reuses what the loader said.
static void reuse_previous_module(struct module_scan *l, struct found *f)
{
    const struct unwind_module *old =
        l->previous ? unwind_snapshot_find(l->previous, f->m.start) : NULL;
    if (!old || old->start != f->m.start || old->end != f->m.end ||
        old->file_offset != f->m.file_offset || !old->fingerprint ||
        module_fingerprint(old) != old->fingerprint)
        return;
    copy_module(&f->m, old);
    f->path = add_scan_text(l, old->path, strlen(old->path));
    if (old->n_build_id)
        f->build_id = add_scan_text(l, old->build_id, old->n_build_id);
    f->same = old;
}

static bool is_covered_by_module(const struct module_scan *l, uintptr_t start, uintptr_t end,
                                 size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (start < found_module(l, i)->m.end && end > found_module(l, i)->m.start)
            return true;
    return false;
}

// Some loaders do not list the vdso.
static void scan_vdso(struct module_scan *l)
{
    uintptr_t at = getauxval(AT_SYSINFO_EHDR);
    if (!at || is_covered_by_module(l, at, at + 1, n_found_modules(l)) ||
        !process_readable(at, 4096))
        return;
    const ElfW(Ehdr) *h = (const void *)at;
    const ElfW(Phdr) *ph = (const void *)(at + h->e_phoff);
    for (size_t i = 0; i < h->e_phnum; i++)
        if (ph[i].p_type == PT_LOAD) {
            scan_object(l, at - ph[i].p_vaddr, "[vdso]", false, ph, h->e_phnum);
            return;
        }
}

struct mapping_scan {
    struct module_scan *l;
    size_t n_objects;
};

static bool scan_mapping(void *context, const struct process_mapping *mapping)
{
    const struct mapping_scan *at = context;
    struct module_scan *l = at->l;
    // Return addresses in unreadable code cannot be checked.
    if (!mapping->readable || !mapping->executable || process_mapping_is(mapping, "[vsyscall]") ||
        is_covered_by_module(l, mapping->start, mapping->end, at->n_objects))
        return true;
    struct found f = {
        .m = {.start = mapping->start, .end = mapping->end, .file_offset = mapping->offset},
        .from_maps = true};
    f.path = mapping->n_path ? add_scan_text(l, mapping->path, mapping->n_path)
                             : add_scan_text(l, "[anon]", 6);
    reuse_previous_module(l, &f);
    add_found_module(l, &f);
    return !l->failed;
}

// Adds executable mappings that belong to no object, mostly JIT code. Frame pointers unwind them,
// and profiles can name them.
static void scan_memory_map(struct module_scan *l)
{
    struct mapping_scan at = {l, n_found_modules(l)};
    process_each_mapping(l->lines, MAP_LINES, scan_mapping, &at);
}

// Insertion sort: there are few modules, and the loader's list is nearly sorted in blocks.
static void sort_found_modules(struct module_scan *l)
{
    for (size_t i = 1; i < n_found_modules(l); i++) {
        struct found f = *found_module(l, i);
        size_t at = i;
        for (; at > 0 && found_module(l, at - 1)->m.start > f.m.start; at--)
            *found_module(l, at) = *found_module(l, at - 1);
        *found_module(l, at) = f;
    }
    // Modules must not overlap, whatever the program headers say.
    size_t n = 0;
    for (size_t i = 0; i < n_found_modules(l); i++) {
        struct found f = *found_module(l, i);
        if (n > 0 && f.m.start < found_module(l, n - 1)->m.end) {
            uintptr_t cut = found_module(l, n - 1)->m.end;
            if (f.m.end <= cut)
                continue;
            f.m.file_offset += cut - f.m.start;
            f.m.start = cut;
        }
        *found_module(l, n++) = f;
    }
    l->found.n = n * sizeof(struct found);
}

static bool has_relative_path(const struct module_scan *l, const struct found *f)
{
    const char *path = (const char *)l->text.p + f->path;
    return path[0] != '/' && path[0] != '[';
}

static bool set_absolute_path(void *context, const struct process_mapping *mapping)
{
    static const char mark[] = " (deleted)";
    struct module_scan *l = context;
    size_t n = mapping->n_path, n_mark = sizeof mark - 1;
    if (n == 0 || mapping->path[0] != '/')
        return true;
    if (n > n_mark && memcmp(mapping->path + n - n_mark, mark, n_mark) == 0)
        n -= n_mark;
    for (size_t i = 0; i < n_found_modules(l) && !l->failed; i++) {
        struct found *f = found_module(l, i);
        if (f->m.start >= mapping->start && f->m.start < mapping->end && has_relative_path(l, f))
            f->path = add_scan_text(l, mapping->path, n);
    }
    return !l->failed;
}

// For a library loaded by a relative path, the loader's list has that path, which may mean another
// file after a chdir. The kernel knows the absolute path.
static void resolve_relative_paths(struct module_scan *l)
{
    for (size_t i = 0; i < n_found_modules(l) && !l->failed; i++)
        if (has_relative_path(l, found_module(l, i))) {
            process_each_mapping(l->lines, MAP_LINES, set_absolute_path, l);
            return;
        }
}

static bool is_same_module(const struct unwind_module *a, const struct unwind_module *b)
{
    return a->start == b->start && a->end == b->end && a->bias == b->bias &&
           a->fingerprint == b->fingerprint && a->fingerprint != 0 &&
           a->n_build_id == b->n_build_id && strcmp(a->path, b->path) == 0 &&
           (!a->n_build_id || memcmp(a->build_id, b->build_id, a->n_build_id) == 0);
}

static bool is_table_wanted(const struct unwind_snapshot *s, const struct unwind_module *m)
{
    return atomic_load(&s->wants->modules[m - s->modules]) >= step_most_lookups(m);
}

// Takes over from the previous snapshot the module's table, or its number of lookups.
static const struct unwind_table *reuse_table(const struct unwind_snapshot *previous,
                                              const struct unwind_module *m, uint32_t *lookups)
{
    const struct unwind_module *old = previous ? unwind_snapshot_find(previous, m->start) : NULL;
    if (!old || !is_same_module(old, m))
        return UNWIND_TABLE_PENDING;
    const struct unwind_table *table = step_table(old);
    *lookups = atomic_load(&previous->wants->modules[old - previous->modules]);
    if (table)
        atomic_fetch_add(&((struct unwind_table *)table)->refs, 1);
    return table ? table : atomic_load(&old->table);
}

// Returns NULL if there is no unwind information or no memory; frame pointers then unwind the
// module.
static struct unwind_table *build_module_table(const struct unwind_module *m,
                                               struct unwind_rules *rules)
{
    struct object_frames frames;
    bool file = m->path[0] == '/';
    // Pages of an object that are read from memory stay resident, which matters if they are many.
    // Its file serves as well if the build id proves that it is the same.
    bool by_file = file && m->n_build_id && m->n_header > LARGE_HEADER &&
                   object_from_file(&frames, m->path, m->bias, m->build_id, m->n_build_id) == 0;
    if (!by_file &&
        (!m->limit || object_from_memory(&frames, m->header, m->n_header, m->limit) != 0) &&
        (!file || object_from_file(&frames, m->path, m->bias, m->build_id, m->n_build_id) != 0))
        return NULL;
    struct unwind_table *table =
        unwind_table_build(&frames.in, m->start - frames.shift, m->end - frames.shift, rules);
    object_frames_fini(&frames);
    // Another object may have been mapped in the module's place meanwhile.
    if (table && (table->n_fdes == 0 || module_fingerprint(m) != m->fingerprint)) {
        unwind_table_free(table);
        table = NULL;
    }
    return table;
}

unsigned unwind_snapshot_take_wants(const struct unwind_snapshot *s)
{
    return atomic_load_explicit(&s->wants->any, memory_order_relaxed)
               ? atomic_exchange(&s->wants->any, 0)
               : 0;
}

bool unwind_snapshot_build_table(const struct unwind_snapshot *s, bool all)
{
    for (size_t i = 0; i < s->n; i++) {
        struct unwind_module *m = (struct unwind_module *)&s->modules[i];
        if (atomic_load(&m->table) != UNWIND_TABLE_PENDING || !(all || is_table_wanted(s, m)))
            continue;
        atomic_store_explicit(&m->table, build_module_table(m, s->dictionary),
                              memory_order_release);
        return true;
    }
    return false;
}

bool unwind_snapshot_same_modules(const struct unwind_snapshot *a, const struct unwind_snapshot *b)
{
    bool same = a->n == b->n;
    for (size_t i = 0; same && i < a->n; i++)
        same = a->modules[i].start == b->modules[i].start && a->modules[i].end == b->modules[i].end;
    return same;
}

static struct unwind_snapshot *assemble_snapshot(const struct module_scan *l,
                                                 const struct unwind_snapshot *previous,
                                                 struct unwind_rules *rules)
{
    static _Atomic uint64_t generations;
    size_t n = n_found_modules(l);
    size_t bytes = sizeof(struct unwind_snapshot) +
                   n * (sizeof(uintptr_t) + sizeof(struct unwind_module)) +
                   sizeof(struct unwind_wants) + n * sizeof(uint32_t) + l->text.n;
    struct unwind_snapshot *s = process_map(bytes);
    if (!s)
        return NULL;
    struct unwind_module *modules = (struct unwind_module *)(s + 1);
    uintptr_t *starts = (uintptr_t *)(modules + n);
    struct unwind_wants *wants = (struct unwind_wants *)(starts + n);
    char *text = (char *)(wants->modules + n);
    memcpy(text, l->text.p, l->text.n);
    *s = (struct unwind_snapshot){
        .generation = atomic_fetch_add(&generations, 1) + 1,
        .starts = starts,
        .modules = modules,
        .n = n,
        .rules = rules->rule,
        .pool = rules->pool,
        .dictionary = rules,
        .wants = wants,
        .adds = l->adds,
        .subs = l->subs,
        .mapped = bytes,
    };
    for (size_t i = 0; i < n; i++) {
        const struct found *f = found_module(l, i);
        struct unwind_module *m = &modules[i];
        copy_module(m, &f->m);
        starts[i] = m->start;
        m->path = text + f->path;
        m->build_id = m->n_build_id ? (const uint8_t *)text + f->build_id : NULL;
        m->fingerprint = module_fingerprint(m);
        // Files mapped by another loader, or in another link-map namespace.
        bool known =
            !f->from_maps || f->same ||
            (m->path[0] == '/' && object_bias(m->path, m->file_offset, m->start, &m->bias));
        uint32_t lookups = 0;
        const struct unwind_table *table = reuse_table(previous, m, &lookups);
        atomic_store(&m->table, table == UNWIND_TABLE_PENDING && !known ? NULL : table);
        atomic_store(&wants->modules[i], lookups);
        if (lookups >= step_most_lookups(m))
            atomic_store(&wants->any, UNWIND_WANTS_TABLES);
    }
    return s;
}

static _Atomic bool loader_avoided;

void unwind_avoid_loader(void)
{
    atomic_store(&loader_avoided, true);
}

// Hashes the loader's list of objects, without its lock, as debuggers do. If the list is changing
// meanwhile, the hash will differ again next time.
static uint64_t hash_loader_list(void)
{
    struct link_map map;
    uint64_t hash = 1;
    uintptr_t next = (uintptr_t)_r_debug.r_map;
    for (unsigned i = 0; next && i < MODULES_MAX; i++) {
        if (process_copy(&map, next, sizeof map) != 0)
            break;
        hash = (hash ^ map.l_addr ^ next << 20) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 29;
        next = (uintptr_t)map.l_next;
    }
    return hash;
}

struct unwind_snapshot *unwind_snapshot_build(const struct unwind_snapshot *previous, struct err *e)
{
    struct module_scan l = {
        .found.limit = MODULES_MAX * sizeof(struct found),
        .text.limit = TEXT_MAX,
        .page = getauxval(AT_PAGESZ),
        .lines = process_map(MAP_LINES),
    };
    if (!l.page)
        l.page = 4096;
    struct unwind_snapshot *s = NULL;
    struct unwind_rules *rules = previous ? previous->dictionary : unwind_rules_new();
    if (previous)
        atomic_fetch_add(&rules->refs, 1);
    bool alone = atomic_load(&loader_avoided);
    uint64_t chain = alone ? hash_loader_list() : 0;
    if (alone)
        l.previous = previous;
    if (rules && l.lines) {
        if (!alone)
            dl_iterate_phdr(scan_loader_object, &l);
        scan_vdso(&l);
        scan_memory_map(&l);
        sort_found_modules(&l);
        resolve_relative_paths(&l);
        if (!l.failed)
            s = assemble_snapshot(&l, previous, rules);
        if (s)
            s->chain = chain;
    }
    if (!s) {
        unwind_rules_free(rules);
        err_set(e, "no memory for the unwind tables of the loaded objects; raise the limits of the "
                   "process (ulimit -v, ulimit -d)");
    }
    process_buffer_fini(&l.found);
    process_buffer_fini(&l.text);
    process_unmap(l.lines, MAP_LINES);
    return s;
}

void unwind_snapshot_free(struct unwind_snapshot *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->n; i++)
        unwind_table_free((struct unwind_table *)step_table(&s->modules[i]));
    unwind_rules_free(s->dictionary);
    process_unmap(s, s->mapped);
}

static int read_loader_counters(struct dl_phdr_info *info, size_t size, void *data)
{
    struct module_scan *l = data;
    if (size >= offsetof(struct dl_phdr_info, dlpi_subs) + sizeof info->dlpi_subs) {
        l->adds = info->dlpi_adds;
        l->subs = info->dlpi_subs;
    }
    return 1;
}

bool unwind_snapshot_stale(const struct unwind_snapshot *s)
{
    if (atomic_load(&loader_avoided))
        return s->chain != hash_loader_list();
    struct module_scan l = {.adds = s->adds, .subs = s->subs};
    dl_iterate_phdr(read_loader_counters, &l);
    return l.adds != s->adds || l.subs != s->subs;
}

uint64_t unwind_snapshot_generation(const struct unwind_snapshot *s)
{
    return s->generation;
}

const struct unwind_module *unwind_snapshot_modules(const struct unwind_snapshot *s, size_t *n)
{
    *n = s->n;
    return s->modules;
}

size_t unwind_snapshot_bytes(const struct unwind_snapshot *s)
{
    size_t bytes = s->mapped + unwind_rules_bytes(s->dictionary);
    for (size_t i = 0; i < s->n; i++) {
        const struct unwind_table *table = step_table(&s->modules[i]);
        bytes += table ? unwind_table_bytes(table) : 0;
    }
    return bytes;
}
