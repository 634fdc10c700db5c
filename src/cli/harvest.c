#include "cli/harvest.h"
#include "cli/harvest_jit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "codec/heap_read.h"
#include "codec/journal.h"
#include "model/transform.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8U
#endif

enum { MOST_HELD = 64 }; // profiles buffered before they are merged

struct held {
    struct arena *arena;
    struct model_profile *profile;
};

struct basket {
    struct held held[MOST_HELD];
    size_t n;
};

struct harvest {
    int fd;
    struct journal_file *file;
    char where[128];
    struct basket cpu, heap;
    bool read_living;             // living processes were read; not read again
    struct harvest_totals totals; // of profiles read so far
    int64_t begun, ended;         // of all processes, wall-clock nanoseconds
    struct err failure;           // of harvest_dead
};

static int create_journal(struct err *e)
{
    int fd = memfd_create("kiln", MFD_CLOEXEC | MFD_NOEXEC_SEAL);
    if (fd < 0 && errno == EINVAL) // before Linux 6.3
        fd = memfd_create("kiln", MFD_CLOEXEC);
    return fd < 0 ? err_set(e, "no memory to share with the program: %s", strerror(errno)) : fd;
}

// Uses as many parts as the file size limit allows; unused parts take no memory.
static uint32_t set_size(int fd)
{
    struct rlimit limit;
    uint64_t parts = JOURNAL_PARTS;
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
        uint64_t room = limit.rlim_cur > JOURNAL_FILE_SIZE ? limit.rlim_cur - JOURNAL_FILE_SIZE : 0;
        if (room / JOURNAL_PART < parts)
            parts = room / JOURNAL_PART;
    }
    uint64_t size = JOURNAL_FILE_SIZE + parts * JOURNAL_PART;
    return parts && ftruncate(fd, (off_t)size) == 0 ? (uint32_t)parts : 0;
}

struct harvest *harvest_new(struct err *e)
{
    struct harvest *h = calloc(1, sizeof *h);
    if (!h) {
        err_set(e, "out of memory");
        return NULL;
    }
    h->fd = create_journal(e);
    if (h->fd < 0) {
        harvest_free(h);
        return NULL;
    }
    uint32_t parts = set_size(h->fd);
    void *p = mmap(NULL, sizeof *h->file, PROT_READ | PROT_WRITE, MAP_SHARED, h->fd, 0);
    h->file = parts == 0 || p == MAP_FAILED ? NULL : p;
    if (!h->file) {
        err_set(e, "no memory to share with the program: %s",
                parts ? strerror(errno) : "the limit of file sizes is too small; see `ulimit -f`");
        harvest_free(h);
        return NULL;
    }
    if (getrandom(h->file->token, sizeof h->file->token, 0) != sizeof h->file->token)
        h->file->token[0] = (uint64_t)getpid();
    h->file->n_parts = parts;
    h->file->version = JOURNAL_VERSION;
    h->file->magic = JOURNAL_MAGIC;
    snprintf(h->where, sizeof h->where, "/proc/%d/fd/%d:%016llx%016llx", (int)getpid(), h->fd,
             (unsigned long long)h->file->token[0], (unsigned long long)h->file->token[1]);
    return h;
}

void harvest_free(struct harvest *h)
{
    if (!h)
        return;
    for (size_t i = 0; i < h->cpu.n; i++)
        arena_free(h->cpu.held[i].arena);
    for (size_t i = 0; i < h->heap.n; i++)
        arena_free(h->heap.held[i].arena);
    if (h->file)
        munmap(h->file, sizeof *h->file);
    if (h->fd >= 0)
        close(h->fd);
    free(h);
}

const char *harvest_where(const struct harvest *h)
{
    return h->where;
}

// --- parts ---

static off_t part_at(size_t index)
{
    return (off_t)JOURNAL_FILE_SIZE + (off_t)index * JOURNAL_PART;
}

static bool read_journal_at(int fd, void *to, size_t n, off_t at)
{
    for (char *p = to; n;) {
        ssize_t got = pread(fd, p, n, at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        p += got;
        at += got;
        n -= (size_t)got;
    }
    return true;
}

// The same to memory that is zero: skips what was never written, which would only take memory.
static bool read_journal_data(int fd, char *to, size_t n, off_t at)
{
    off_t end = at + (off_t)n;
    for (off_t data = at; data < end;) {
        data = lseek(fd, data, SEEK_DATA);
        if (data < 0 && errno == ENXIO)
            return true; // nothing follows
        off_t hole = data < 0 ? -1 : lseek(fd, data, SEEK_HOLE);
        if (hole < 0)
            return read_journal_at(fd, to, n, at);
        hole = hole < end ? hole : end;
        if (data < hole && !read_journal_at(fd, to + (data - at), (size_t)(hole - data), data))
            return false;
        data = hole;
    }
    return true;
}

// Returns false if the part is not initialized or invalid.
static bool read_part_head(const struct harvest *h, size_t index, struct journal_part *part)
{
    return read_journal_at(h->fd, part, sizeof *part, part_at(index)) &&
           part->magic == JOURNAL_MAGIC && part->hz > 0 && atomic_load(&part->used) <= JOURNAL_PART;
}

static void add_part_counts(const struct journal_part *part, struct harvest_totals *t)
{
    const struct journal_counts *c = &part->counts;
    double lost = (double)(c->ring_full + c->no_snapshot) / part->hz +
                  (double)atomic_load(&part->dropped_nanos) / 1e9;
    t->processes++;
    t->samples += atomic_load(&part->collected);
    t->truncated += c->truncated;
    t->cpu += (double)(c->ticks + c->blocked + c->unticked) / part->hz;
    t->dropped += lost;
    t->unarmed += c->no_slot;
    t->own += (int64_t)atomic_load(&part->own_nanos);
}

// Returns a field of /proc/PID/stat; the one after the process name has number 3.
static uint64_t read_stat_field(const char *text, int field)
{
    const char *p = strrchr(text, ')');
    for (int i = 2; p && i < field; i++)
        p = strchr(p + 1, ' ');
    return p ? strtoull(p + 1, NULL, 10) : 0;
}

static bool is_alive(uint64_t owner)
{
    char path[64], text[1024] = "";
    snprintf(path, sizeof path, "/proc/%u/stat", (uint32_t)owner);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    const char *name_end = n > 0 ? strrchr(text, ')') : NULL;
    // A process that could not read its start time stores 0.
    if (!name_end || (owner >> 32 && (uint32_t)read_stat_field(text, 22) != owner >> 32))
        return false;
    // A process whose main thread has ended looks like a zombie.
    bool ended = strncmp(name_end, ") Z", 3) == 0 || strncmp(name_end, ") X", 3) == 0;
    return !ended || read_stat_field(text, 20) > 1;
}

// Whether the process has since executed another program, which has its own part.
static bool was_replaced(const struct harvest *h, size_t index, uint64_t owner)
{
    struct journal_part part, other;
    bool known = false;
    for (size_t i = 0; i < h->file->n_parts; i++) {
        if (i == index || atomic_load(&h->file->owner[i]) != owner)
            continue;
        if (!known && !read_part_head(h, index, &part))
            return false;
        known = true;
        if (read_part_head(h, i, &other) && other.time_nanos > part.time_nanos)
            return true;
    }
    return false;
}

// --- reading ---

// Merges all buffered profiles into arena, which takes ownership, and empties the basket.
static struct model_profile *merge_basket(struct basket *b, struct arena *arena, struct err *e)
{
    struct model_profile *profiles[MOST_HELD];
    size_t n = b->n;
    for (size_t i = 0; i < n; i++) {
        profiles[i] = b->held[i].profile;
        arena_adopt(arena, b->held[i].arena);
    }
    b->n = 0;
    return model_merge_take(profiles, n, arena, e);
}

// Replaces all buffered profiles by their sum, which is encoded and decoded to release their
// memory.
static int sum_basket(struct basket *b, struct err *e)
{
    struct arena *arena = arena_new(0), *fresh = arena_new(0);
    struct model_profile *sum = NULL;
    struct out out;
    out_init_memory(&out, SIZE_MAX);
    if (arena && fresh)
        sum = merge_basket(b, arena, e);
    else
        err_set(e, "out of memory");
    if (sum && (codec_write_pprof(sum, &out, e) || out_finish(&out, e)))
        sum = NULL;
    if (sum)
        sum = codec_read_pprof(fresh, (const uint8_t *)out.p, out.n, e);
    out_fini(&out);
    arena_free(arena);
    if (!sum) {
        arena_free(fresh);
        return -1;
    }
    b->held[b->n++] = (struct held){fresh, sum};
    return 0;
}

// Takes ownership of arena.
static int put_in_basket(struct basket *b, struct arena *arena, struct model_profile *p,
                         struct err *e)
{
    if (!p) {
        arena_free(arena);
        return -1;
    }
    b->held[b->n++] = (struct held){arena, p};
    return b->n == MOST_HELD ? sum_basket(b, e) : 0;
}

// Addresses are only meaningful within their process, so JIT code is named before profiles are
// merged.
static int name_jitted(struct model_profile *p, const struct journal_part *part, bool alive,
                       struct arena *arena, struct err *e)
{
    if (!jit_is_wanted(p))
        return 0;
    struct jit_files files = harvest_jit_open(part->pid, alive, part->time_nanos, p);
    int result = jit_name_profile(p, &files, arena, e);
    harvest_jit_close(&files);
    return result;
}

static int read_heap(struct harvest *h, const struct journal_part *part, bool alive,
                     const uint8_t *data, size_t n, struct err *e)
{
    struct codec_heap_totals t;
    struct err why = {""};
    struct arena *arena = arena_new(0);
    struct model_profile *p = arena ? codec_read_journal_heap(arena, data, n, &t, &why) : NULL;
    if (!arena)
        err_set(&why, "out of memory");
    if (!p && !*why.message) { // it had no heap profile
        arena_free(arena);
        return 0;
    }
    if (p) {
        h->totals.heap_samples += t.samples;
        h->totals.heap_live += t.live;
        h->totals.heap_peak = t.peak > h->totals.heap_peak ? t.peak : h->totals.heap_peak;
        h->totals.heap_untracked += t.untracked;
    } else if (e) {
        *e = why;
    }
    if (p && name_jitted(p, part, alive, arena, e))
        p = NULL;
    return put_in_basket(&h->heap, arena, p, e);
}

// Shared memory does not count for RLIMIT_DATA, which may be as low as the program can bear.
static void free_data(uint8_t *data, size_t n)
{
    if (data)
        munmap(data, n + !n);
}

// Returns n bytes for free_data, or NULL and fills e.
static uint8_t *read_data(const struct harvest *h, size_t index, size_t n, struct err *e)
{
    uint8_t *data = mmap(NULL, n + !n, PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data == MAP_FAILED)
        data = NULL;
    if (data && read_journal_data(h->fd, (char *)data, n, part_at(index)))
        return data;
    free_data(data, n);
    err_set(e, "out of memory: cannot read %zu MiB of samples", n >> 20);
    return NULL;
}

static int read_journal_part(struct harvest *h, size_t index, bool alive, struct err *e)
{
    struct journal_part part;
    if (!read_part_head(h, index, &part))
        return 0;
    if (h->cpu.n == MOST_HELD || h->heap.n == MOST_HELD) // an earlier merge failed
        return -1;
    size_t n = atomic_load(&part.used);
    uint64_t n_rings = 0;
    uint8_t *data = read_data(h, index, n, e);
    struct arena *arena = arena_new(0);
    struct model_profile *p = NULL;
    int result = 0;
    if (!arena) {
        err_set(e, "out of memory");
    } else if (data) {
        p = codec_read_journal(arena, data, n, !alive, &n_rings, e);
        if (p && name_jitted(p, &part, alive, arena, e))
            p = NULL;
        result = read_heap(h, &part, alive, data, n, e);
    }
    free_data(data, n);
    if (p) {
        add_part_counts(&part, &h->totals);
        h->totals.samples += n_rings;
        int64_t ended = p->time_nanos + p->duration_nanos;
        h->begun = h->begun && h->begun < p->time_nanos ? h->begun : p->time_nanos;
        h->ended = h->ended > ended ? h->ended : ended;
    }
    return put_in_basket(&h->cpu, arena, p, e) || result ? -1 : 0;
}

static void release_part(struct harvest *h, size_t index)
{
    fallocate(h->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, part_at(index), JOURNAL_PART);
    atomic_store(&h->file->owner[index], 0);
}

int harvest_dead(struct harvest *h, struct err *e)
{
    int result = 0;
    for (size_t i = 0; i < h->file->n_parts; i++) {
        uint64_t owner = atomic_load(&h->file->owner[i]);
        if (owner == 0 || (is_alive(owner) && !was_replaced(h, i, owner)))
            continue;
        if (read_journal_part(h, i, false, e)) {
            result = -1;
            h->failure = *e;
        }
        release_part(h, i);
    }
    return result;
}

void harvest_count(struct harvest *h, struct harvest_totals *totals)
{
    *totals = h->totals;
    totals->refused = atomic_load(&h->file->refused);
    for (size_t i = 0; i < h->file->n_parts; i++) {
        struct journal_part part;
        if (!atomic_load(&h->file->owner[i]) || !read_part_head(h, i, &part))
            continue;
        add_part_counts(&part, totals);
        totals->alive++;
        totals->threads += part.counts.threads;
    }
}

size_t harvest_living(const struct harvest *h, size_t *parts, size_t max)
{
    size_t n = 0;
    for (size_t i = 0; i < h->file->n_parts && n < max; i++)
        if (atomic_load(&h->file->owner[i]))
            parts[n++] = i;
    return n;
}

struct model_profile *harvest_peek(const struct harvest *h, size_t part, struct arena *arena,
                                   struct err *e)
{
    struct journal_part head;
    uint64_t n_rings;
    if (!read_part_head(h, part, &head)) {
        err_set(e, "the process has written nothing yet");
        return NULL;
    }
    size_t n = atomic_load(&head.used);
    uint8_t *data = read_data(h, part, n, e);
    struct model_profile *p = data ? codec_read_journal(arena, data, n, false, &n_rings, e) : NULL;
    free_data(data, n);
    return p;
}

static int read_living(struct harvest *h, struct err *e)
{
    if (h->read_living)
        return 0;
    h->read_living = true;
    if (harvest_dead(h, e))
        return -1;
    for (size_t i = 0; i < h->file->n_parts; i++)
        if (atomic_load(&h->file->owner[i]) && read_journal_part(h, i, true, e))
            return -1;
    return 0;
}

static struct model_profile *merge_harvest(struct harvest *h, struct basket *b, const char *what,
                                           struct arena *arena, struct err *e)
{
    if (read_living(h, e))
        return NULL;
    if (b->n == 0) {
        err_set(e, "no process left a %s", what);
        return NULL;
    }
    struct model_profile *p = merge_basket(b, arena, e);
    // They ran concurrently.
    if (p) {
        p->time_nanos = h->begun;
        p->duration_nanos = h->ended - h->begun;
    }
    return p;
}

struct model_profile *harvest_profile(struct harvest *h, int64_t nanos, struct arena *arena,
                                      struct err *e)
{
    struct model_profile *p = merge_harvest(h, &h->cpu, "profile", arena, e);
    if (!p || !nanos || h->totals.alive)
        return p;
    int64_t rest = nanos - h->totals.own;
    for (size_t i = 0; i < p->n_samples; i++)
        rest -= model_values(p, i)[1];
    if (rest < p->period)
        return p;
    struct model_profile *both[] = {p, codec_journal_rest(arena, p, rest)};
    struct model_profile *sum = model_merge_take(both, 2, arena, e);
    if (sum) {
        sum->time_nanos = p->time_nanos;
        sum->duration_nanos = p->duration_nanos;
    }
    return sum;
}

struct model_profile *harvest_heap(struct harvest *h, struct arena *arena, struct err *e)
{
    return merge_harvest(h, &h->heap, "heap profile: libkiln_malloc.so was not loaded into it",
                         arena, e);
}

const char *harvest_failure(const struct harvest *h)
{
    return *h->failure.message ? h->failure.message : NULL;
}

bool harvest_lacks_heap(struct harvest *h, struct err *e)
{
    bool failed = false;
    for (uint32_t i = 0; i < atomic_load(&h->file->n_notes) && i < JOURNAL_NOTES; i++)
        failed |= atomic_load(&h->file->notes[i].kind) == JOURNAL_NOTE_FAILED;
    return failed && read_living(h, e) == 0 && h->heap.n == 0;
}

// --- notes ---

static const char *journal_note_text(uint32_t kind)
{
    switch (kind) {
    case JOURNAL_NOTE_STATIC:
        return "not profiled: statically linked";
    case JOURNAL_NOTE_SETUID:
        return "not profiled: setuid, setgid or has file capabilities";
    case JOURNAL_NOTE_FOREIGN:
        return "not profiled: built for another machine or C library";
    case JOURNAL_NOTE_ENVIRONMENT:
        return "not profiled: started without this process's environment";
    case JOURNAL_NOTE_LIMITS:
        return "not profiled: its memory limits (ulimit -d, ulimit -v) are too low for libkiln";
    default:
        return NULL;
    }
}

void harvest_print_notes(struct harvest *h, FILE *to)
{
    uint32_t n = atomic_load(&h->file->n_notes);
    for (uint32_t i = 0; i < n && i < JOURNAL_NOTES; i++) {
        struct journal_note *note = &h->file->notes[i];
        char text[sizeof note->text];
        memcpy(text, note->text, sizeof text);
        text[sizeof text - 1] = '\0';
        for (char *c = text; *c; c++)
            if ((unsigned char)*c < ' ')
                *c = '?';
        const char *what = journal_note_text(atomic_load(&note->kind));
        if (what)
            fprintf(to, "kiln: %s: %s\n", text, what);
        else if (atomic_load(&note->kind) == JOURNAL_NOTE_FAILED)
            fprintf(to, "kiln: process %u: not profiled: %s\n", note->pid, text);
    }
    if (n > JOURNAL_NOTES)
        fprintf(to, "kiln: %u more program%s not profiled\n", n - JOURNAL_NOTES,
                str_plural(n - JOURNAL_NOTES));
    uint32_t refused = atomic_load(&h->file->refused);
    if (refused)
        fprintf(to, "kiln: %u process%s not profiled: the limit is %u at a time\n", refused,
                refused == 1 ? "" : "es", h->file->n_parts);
}
