#include "agent/journal/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "agent/journal/journal_memory.h"
#include "base/hash.h"
#include "capture/heap_capture.h"
#include "process/clock.h"
#include "process/own_threads.h"

enum {
    MOST_INDEX = 64 << 20,       // bytes of private memory
    MOST_LABEL_BYTES = 32 << 10, // of one label set
    CONFINED_BYTES = 8 << 20,    // reserved for a process that can map no more memory
    PRIVATE_FD = 900,            // above the descriptors that programs use
    FILE_BYTES = (sizeof(struct journal_file) + 4095) & ~4095,
};

static struct {
    struct journal_file *file;
    struct journal_part *part;
    struct arena *arena;       // for the index and modules
    struct hash_table index;   // stacks, by their offset in the part / 8
    struct hash_table threads; // threads, likewise
    const struct journal_module **modules;
    size_t n_modules, cap_modules;
    uint32_t *labels; // sets written so far
    size_t n_labels, cap_labels;
    uint64_t seen; // the last snapshot's generation
    uint64_t begun;
    int fd; // for mapping more parts after fork
    dev_t device;
    ino_t inode;
} journal = {.fd = -1};

// --- modules and labels ---

static uint16_t journal_add_module(const struct unwind_module *m)
{
    for (size_t i = journal.n_modules; i-- > 0;)
        if (module_record_is(&journal.modules[i]->module, m))
            return (uint16_t)i;
    size_t size =
        (offsetof(struct journal_module, module) + module_record_size(m) + 7) & ~(size_t)7;
    struct journal_module *to =
        journal.n_modules < JOURNAL_NO_MODULE ? journal_memory_reserve(size) : NULL;
    if (!to)
        return JOURNAL_NO_MODULE;
    journal.modules = arena_push(journal.arena, journal.modules, journal.n_modules,
                                 &journal.cap_modules, sizeof *journal.modules);
    module_record_write(&to->module, m);
    journal_memory_commit(JOURNAL_MODULE, size);
    journal.modules[journal.n_modules] = to;
    return (uint16_t)journal.n_modules++;
}

static uint16_t journal_module_of(uintptr_t pc, const struct unwind_snapshot *snapshot)
{
    const struct unwind_module *m = snapshot ? unwind_snapshot_find(snapshot, pc) : NULL;
    return m ? journal_add_module(m) : JOURNAL_NO_MODULE;
}

// Writes all loaded modules, because samples that are in the rings when the process dies may need
// them. The program itself comes first.
static void journal_add_modules(const struct unwind_snapshot *snapshot)
{
    size_t n;
    if (!snapshot || unwind_snapshot_generation(snapshot) == journal.seen)
        return;
    journal.seen = unwind_snapshot_generation(snapshot);
    const struct unwind_module *m = unwind_snapshot_modules(snapshot, &n);
    journal_module_of(getauxval(AT_ENTRY), snapshot);
    for (size_t i = 0; i < n; i++)
        journal_add_module(&m[i]);
}

struct label_writer {
    char *p; // NULL: only count bytes
    size_t n;
    uint32_t labels;
};

static void journal_write_label(void *context, struct str key, struct str value)
{
    struct label_writer *w = context;
    uint32_t lengths[2] = {(uint32_t)key.n, (uint32_t)value.n};
    if (w->p) {
        memcpy(w->p + w->n, lengths, sizeof lengths);
        memcpy(w->p + w->n + sizeof lengths, key.p, key.n);
        memcpy(w->p + w->n + sizeof lengths + key.n, value.p, value.n);
    }
    w->n += sizeof lengths + key.n + value.n;
    w->labels++;
}

static void journal_add_labels(uint32_t set)
{
    if (set == 0)
        return;
    for (size_t i = journal.n_labels; i-- > 0;)
        if (journal.labels[i] == set)
            return;
    struct label_writer w = {0};
    agent_label_each(set, journal_write_label, &w);
    size_t size = (sizeof(struct journal_labels) + w.n + 7) & ~(size_t)7;
    struct journal_labels *to = w.n <= MOST_LABEL_BYTES ? journal_memory_reserve(size) : NULL;
    if (!to)
        return;
    journal.labels = arena_push(journal.arena, journal.labels, journal.n_labels,
                                &journal.cap_labels, sizeof *journal.labels);
    journal.labels[journal.n_labels++] = set;
    w = (struct label_writer){.p = (char *)to->data};
    agent_label_each(set, journal_write_label, &w);
    to->set = set;
    to->n = w.labels;
    journal_memory_commit(JOURNAL_LABELS, size);
}

// --- threads and stacks ---

static void *journal_record_at(uint32_t item)
{
    return journal_memory_at((size_t)item * 8);
}

// record must be in the current block.
static uint32_t journal_item_of(const void *record)
{
    return (uint32_t)(journal_memory_place(record) / 8);
}

static void journal_add_thread(const struct capture_sample *x)
{
    uint64_t hash = hash_mix(x->serial, 1);
    struct journal_thread *t = NULL;
    for (struct hash_probe probe = hash_find(&journal.threads, hash);
         !t && hash_hit(&journal.threads, &probe); hash_next(&journal.threads, &probe)) {
        t = journal_record_at(probe.item);
        if (t->serial != x->serial)
            t = NULL;
    }
    bool is_new = !t;
    if (is_new && !(t = journal_memory_reserve(sizeof *t)))
        return;
    if (is_new || strncmp(t->name, x->thread, sizeof t->name) != 0) {
        memset(t->name, 0, sizeof t->name);
        memcpy(t->name, x->thread, strnlen(x->thread, sizeof t->name - 1));
    }
    if (!is_new)
        return;
    hash_add(&journal.threads, journal.arena, hash, journal_item_of(t));
    t->serial = x->serial;
    t->tid = x->tid;
    journal_memory_commit(JOURNAL_THREAD, sizeof *t);
}

static uint64_t hash_sample(const struct capture_sample *x)
{
    uint64_t hash = hash_mix(((uint64_t)x->serial << 32) | x->label, (uint64_t)x->kind);
    if (x->ids)
        hash = hash_bytes(x->ids, sizeof *x->ids, hash);
    return hash_bytes(x->pcs, x->n * sizeof *x->pcs, hash);
}

static bool same_ids(const struct journal_stack *s, const struct capture_ids *ids)
{
    static const struct capture_ids none;
    return memcmp(s->ids, ids ? ids : &none, sizeof s->ids) == 0;
}

// Compares addresses only. If another module was loaded at the same place since, stacks could be
// confused, but it is rare that all addresses are equal.
static bool same_journal_stack(const struct journal_stack *s, const struct capture_sample *x)
{
    return s->thread == x->serial && s->label == x->label && s->kind == x->kind && s->n == x->n &&
           same_ids(s, x->ids) && (x->n == 0 || memcmp(s->pcs, x->pcs, x->n * sizeof *x->pcs) == 0);
}

static struct journal_stack *journal_add_stack(const struct capture_sample *x, uint64_t hash,
                                               const struct unwind_snapshot *snapshot)
{
    uint16_t modules[CAPTURE_MAX_DEPTH];
    size_t n = x->n < JOURNAL_STACK_MAX ? x->n : JOURNAL_STACK_MAX;
    for (size_t i = 0; i < n; i++)
        modules[i] = journal_module_of(x->pcs[i], snapshot);
    journal_add_labels(x->label);
    size_t size =
        (sizeof(struct journal_stack) + n * (sizeof(uint64_t) + sizeof(uint16_t)) + 7) & ~(size_t)7;
    struct journal_stack *s = journal_memory_reserve(size);
    if (!s)
        return NULL;
    hash_add(&journal.index, journal.arena, hash, journal_item_of(s));
    s->thread = x->serial;
    s->label = x->label;
    if (x->ids)
        memcpy(s->ids, x->ids, sizeof s->ids);
    s->kind = (uint8_t)x->kind;
    s->truncated = x->kind == CAPTURE_STACK && x->end != UNWIND_END_ROOT;
    s->n = (uint16_t)n;
    if (n) {
        memcpy(s->pcs, x->pcs, n * sizeof *s->pcs);
        memcpy(s->pcs + n, modules, n * sizeof *modules);
    }
    journal_memory_commit(JOURNAL_STACK, size);
    return s;
}

static struct journal_stack *journal_find_stack(const struct capture_sample *x,
                                                const struct unwind_snapshot *snapshot)
{
    struct arena_trap trap;
    uint64_t hash = hash_sample(x);
    for (struct hash_probe probe = hash_find(&journal.index, hash);
         hash_hit(&journal.index, &probe); hash_next(&journal.index, &probe))
        if (same_journal_stack(journal_record_at(probe.item), x))
            return journal_record_at(probe.item);
    if (ARENA_TRY(journal.arena, trap))
        return NULL;
    journal_add_modules(snapshot);
    journal_add_thread(x);
    struct journal_stack *s = journal_add_stack(x, hash, snapshot);
    arena_try_end(journal.arena);
    return s;
}

static void journal_sample(const struct capture_sample *sample)
{
    atomic_fetch_add_explicit(&journal.part->collected, sample->kind == CAPTURE_STACK,
                              memory_order_relaxed);
    struct journal_stack *s = journal_find_stack(sample, capture_snapshot());
    atomic_fetch_add_explicit(s ? &s->ticks : &journal.part->dropped, sample->ticks,
                              memory_order_relaxed);
    atomic_fetch_add_explicit(s ? &s->nanos : &journal.part->dropped_nanos, sample->ns,
                              memory_order_relaxed);
    if (s)
        atomic_fetch_add_explicit(&s->squares, capture_squares(sample), memory_order_relaxed);
}

static void journal_round(void)
{
    struct capture_counts c;
    struct arena_trap trap;
    if (ARENA_TRY(journal.arena, trap) == 0) {
        journal_add_modules(capture_snapshot());
        arena_try_end(journal.arena);
    }
    capture_get_counts(&c);
    struct journal_counts counts = {
        .ticks = c.ticks,
        .samples = c.samples,
        .ring_full = c.ring_full,
        .no_snapshot = c.no_snapshot,
        .blocked = c.blocked,
        .unticked = c.unticked,
        .threads = c.threads,
        .no_slot = c.no_slot,
    };
    for (int i = UNWIND_END_TRUNCATED; i < UNWIND_END_COUNT; i++)
        counts.truncated += c.ended[i];
    journal.part->counts = counts;
    atomic_store(&journal.part->own_nanos, own_threads_cpu_ns());
    atomic_store(&journal.part->duration_nanos, process_now_ns() - journal.begun);
}

// --- opening ---

// The start time, field 22 of /proc/self/stat (the name before it may contain anything), and the
// pid as the reader of /proc sees it, which may differ from getpid in a pid namespace.
static uint64_t process_identity(void)
{
    char text[1024];
    int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = '\0';
    char *p = strrchr(text, ')');
    for (int field = 2; p && field < 22; field++)
        p = strchr(p + 1, ' ');
    uint64_t start = p ? strtoull(p, NULL, 10) : 0;
    return p ? start << 32 | (uint32_t)strtoul(text, NULL, 10) : (uint64_t)getpid();
}

// The kept descriptor may have been closed by the program and its number reused.
static int open_journal_file(const char *where)
{
    struct stat st;
    char path[256];
    if (journal.fd >= 0 && fstat(journal.fd, &st) == 0 && st.st_dev == journal.device &&
        st.st_ino == journal.inode)
        return journal.fd;
    size_t n = strcspn(where, ":");
    if (n >= sizeof path)
        return -1;
    memcpy(path, where, n);
    path[n] = '\0';
    return open(path, O_RDWR | O_CLOEXEC);
}

static bool is_own_journal(const struct journal_file *file, const char *where)
{
    char token[64];
    snprintf(token, sizeof token, ":%016llx%016llx", (unsigned long long)file->token[0],
             (unsigned long long)file->token[1]);
    return file->magic == JOURNAL_MAGIC && file->version == JOURNAL_VERSION &&
           strcmp(where + strcspn(where, ":"), token) == 0;
}

static int claim_part(uint64_t id)
{
    uint32_t n = journal.file->n_parts < JOURNAL_PARTS ? journal.file->n_parts : JOURNAL_PARTS;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t no_owner = 0;
        if (atomic_compare_exchange_strong(&journal.file->owner[i], &no_owner, id))
            return (int)i;
    }
    atomic_fetch_add(&journal.file->refused, 1);
    return -1;
}

static void keep_descriptor(int fd, bool follow)
{
    struct stat st;
    if (fd == journal.fd)
        return;
    journal.fd = -1;
    if (follow && fstat(fd, &st) == 0) {
        journal.fd = fcntl(fd, F_DUPFD_CLOEXEC, PRIVATE_FD);
        if (journal.fd < 0)
            journal.fd = fcntl(fd, F_DUPFD_CLOEXEC, 100);
        journal.device = st.st_dev;
        journal.inode = st.st_ino;
    }
    close(fd);
}

static void begin_part(uint64_t id, bool follow, uint32_t hz)
{
    struct journal_part *part = journal.part;
    journal.begun = process_now_ns();
    part->version = JOURNAL_VERSION;
    part->pid = (uint32_t)id;
    part->hz = hz;
    part->follow = follow;
    part->time_nanos = process_wall_ns();
    const char *name = program_invocation_short_name;
    memcpy(part->program, name, strnlen(name, sizeof part->program - 1));
    atomic_store(&part->used, (sizeof *part + 63) & ~(size_t)63);
    part->magic = JOURNAL_MAGIC;
}

static int map_part(int fd, bool follow, uint32_t hz, struct err *e)
{
    uint64_t id = process_identity();
    int index = claim_part(id);
    if (index < 0)
        return err_set(e, "%d processes are profiled already", JOURNAL_PARTS);
    journal.part = journal_memory_map(fd, (uint32_t)index);
    if (!journal.part) {
        atomic_store(&journal.file->owner[index], 0);
        return err_set(e, "no memory for samples: %s", strerror(errno));
    }
    begin_part(id, follow, hz);
    return 0;
}

static const struct collector_tap tap = {.sample = journal_sample, .round = journal_round};

int journal_open(const char *where, bool follow, uint32_t hz, struct err *e)
{
    struct arena_trap trap;
    int fd = open_journal_file(where);
    if (fd < 0)
        return err_set(e, "cannot open the memory of `kiln run`: %s", strerror(errno));
    if (!journal.file) {
        void *p = mmap(NULL, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        journal.file = p == MAP_FAILED ? NULL : p;
    }
    int result = -1;
    if (!journal.file)
        err_set(e, "cannot map the memory of `kiln run`: %s", strerror(errno));
    else if (!is_own_journal(journal.file, where))
        err_set(e, "KILN_RUN belongs to a `kiln run` that has ended; unset it");
    else
        result = map_part(fd, follow, hz, e);
    keep_descriptor(fd, follow && result == 0);
    if (result)
        return -1;
    journal.arena = arena_new(MOST_INDEX);
    if (!journal.arena || ARENA_TRY(journal.arena, trap))
        return err_set(e, "no memory for the profiler");
    hash_init(&journal.index, journal.arena, 1024);
    hash_init(&journal.threads, journal.arena, 64);
    arena_try_end(journal.arena);
    capture_set_ring_memory(journal_memory_ring);
    collector_set_tap(&tap);
    return 0;
}

void journal_after_fork(void)
{
    if (!journal.part)
        return;
    // Do not free the arena: the program's allocator may not be usable in a fork handler.
    collector_set_tap(NULL);
    journal_memory_forget(capture_heap_in_hook());
    journal.part = NULL;
    journal.arena = NULL;
    journal.n_modules = journal.cap_modules = 0;
    journal.n_labels = journal.cap_labels = 0;
    journal.modules = NULL;
    journal.labels = NULL;
    journal.seen = 0;
}

// True for the process itself, for children of vfork, and for children of fork if they are
// followed.
bool journal_is_followed(void)
{
    return journal.part && (journal.part->follow || journal.part->pid == (uint32_t)getpid());
}

bool journal_follows_children(void)
{
    return journal.part && journal.part->follow;
}

void journal_before_confinement(void)
{
    if (journal.part)
        journal_memory_reach(CONFINED_BYTES);
}

void journal_note(enum journal_note_kind kind, const char *text)
{
    struct journal_file *file = journal.file;
    uint32_t n = file ? atomic_load(&file->n_notes) : 0;
    for (uint32_t i = 0; i < n && i < JOURNAL_NOTES; i++)
        if (atomic_load(&file->notes[i].kind) == kind && strcmp(file->notes[i].text, text) == 0)
            return;
    uint32_t i = file ? atomic_fetch_add(&file->n_notes, 1) : JOURNAL_NOTES;
    if (i >= JOURNAL_NOTES)
        return;
    struct journal_note *note = &file->notes[i];
    note->pid = (uint32_t)getpid();
    memcpy(note->text, text, strnlen(text, sizeof note->text - 1));
    atomic_store_explicit(&note->kind, kind, memory_order_release);
}

bool journal_is_open(void)
{
    return journal.part;
}
