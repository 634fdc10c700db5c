// Keeps rows on disk until ClickHouse has them. A segment is a file of records:
//
//     length u32, kind u32, hash of the payload u64, payload
//
// The payload of RECORD_PUTS is the puts of one request: for each its day (u16), the row count and
// size of each table (both u32), then the rows. RECORD_DECISION: see clickhouse_send.c. Data after
// the last complete record was never acknowledged. A segment is self-contained: it has all rows of
// series, stacks and locations that its samples need; the sender skips those that ClickHouse has.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "store/clickhouse.h"

// A segment is sent when it has this many rows or is this old. While ClickHouse is busy with the
// previous segment, it grows.
enum { ENOUGH_ROWS = 10000, LARGEST_SEGMENT = 16 << 20 };
#define LONGEST_WAIT INT64_C(1000000000)
// How often a caller waiting for the sender checks its budget.
#define LOOK_NANOS INT64_C(50000000)

struct head {
    uint32_t length, kind;
    uint64_t hash;
};

// The wall clock: only for how long profiles have been waiting, across restarts.
static int64_t spool_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static void segment_path(const struct spool *s, const struct segment_file *f, char path[PATH_MAX])
{
    snprintf(path, PATH_MAX, "%s/%016llx-%016llx.3.rows", s->directory, (unsigned long long)f->seq,
             (unsigned long long)f->batch);
}

static int set_spool_error(const struct spool *s, const char *what, struct err *e)
{
    int error = errno;
    err_set(e, "cannot %s in the spool %s: %s", what, s->directory, strerror(error));
    return error == ENOSPC || error == EDQUOT || error == EFBIG || error == EROFS ? STORE_FULL
                                                                                  : STORE_FAILED;
}

static int sync_spool_directory(const struct spool *s, struct err *e)
{
    int fd = open(s->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int result = fd < 0 || fsync(fd) ? set_spool_error(s, "sync", e) : 0;
    if (fd >= 0)
        close(fd);
    return result;
}

static int compare_seq(const void *a, const void *b)
{
    const struct segment_file *x = *(struct segment_file *const *)a;
    const struct segment_file *y = *(struct segment_file *const *)b;
    return x->seq < y->seq ? -1 : x->seq > y->seq;
}

static void free_segments(struct segment_file **all, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(all[i]);
    free(all);
}

// Loads the segments of an earlier process.
static int find_segments(struct spool *s, struct err *e)
{
    struct segment_file **all = NULL;
    size_t n = 0;
    DIR *d = opendir(s->directory);
    if (!d)
        return set_spool_error(s, "read", e);
    for (const struct dirent *entry; (entry = readdir(d));) {
        uint64_t seq, batch;
        struct stat st;
        struct str name = str_from(entry->d_name); // seq-batch.3.rows, 16 digits each
        if (str_ends(name, STR(".rows")) &&
            (name.n == 38 || (name.n == 40 && str_ends(name, STR(".2.rows"))))) {
            err_set(
                e,
                "%s/%s was written by an earlier version; send it with that version, or remove it",
                s->directory, entry->d_name);
            closedir(d);
            free_segments(all, n);
            return STORE_FAILED;
        }
        if (name.n != 40 || name.p[16] != '-' || !str_ends(name, STR(".3.rows")) ||
            !str_to_u64(str_from_to(name, 0, 16), 16, &seq) ||
            !str_to_u64(str_from_to(name, 17, 33), 16, &batch) ||
            fstatat(dirfd(d), entry->d_name, &st, 0))
            continue;
        struct segment_file *f = calloc(1, sizeof *f);
        struct segment_file **more = realloc(all, (n + 1) * sizeof *more);
        all = more ? more : all;
        if (!f || !more) {
            free(f);
            closedir(d);
            free_segments(all, n);
            return err_set(e, "no memory to open the spool");
        }
        *f = (struct segment_file){.seq = seq,
                                   .batch = batch,
                                   .fd = -1,
                                   .bytes = (uint64_t)st.st_size,
                                   .first = st.st_mtim.tv_sec * INT64_C(1000000000),
                                   .attempted = true};
        all[n++] = f;
    }
    closedir(d);
    if (n)
        qsort(all, n, sizeof *all, compare_seq);
    for (size_t i = 0; i < n; i++) {
        *s->last = all[i];
        s->last = &all[i]->next;
        s->bytes += all[i]->bytes;
        s->next_seq = all[i]->seq + 1;
    }
    s->done_seq = n ? all[0]->seq - 1 : 0;
    s->n_segments = n;
    free(all);
    return 0;
}

static int make_spool_directories(struct spool *s, struct err *e)
{
    for (char *p = s->directory + 1;; p++) {
        if (*p && *p != '/')
            continue;
        char c = *p;
        *p = 0;
        int made = mkdir(s->directory, 0750);
        *p = c;
        if (made && errno != EEXIST)
            return set_spool_error(s, "create a directory", e);
        if (!c)
            return 0;
    }
}

void spool_init(struct spool *s)
{
    *s = (struct spool){.lock_fd = -1, .next_seq = 1};
    s->last = &s->first;
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&s->work, &attr);
    pthread_cond_init(&s->sent, &attr);
    pthread_condattr_destroy(&attr);
    pthread_mutex_init(&s->lock, NULL);
}

int spool_open(struct spool *s, const char *directory, struct err *e)
{
    char path[PATH_MAX];
    if (snprintf(s->directory, sizeof s->directory, "%s/spool", directory) >= 3900)
        return err_set(e, "the name of the spool's directory is too long");
    int code = make_spool_directories(s, e);
    if (code)
        return code;
    snprintf(path, sizeof path, "%s/lock", s->directory);
    s->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0640);
    if (s->lock_fd < 0)
        return set_spool_error(s, "write", e);
    if (flock(s->lock_fd, LOCK_EX | LOCK_NB))
        return err_set(e, "%s is in use by another process; each server needs its own --data",
                       s->directory);
    return find_segments(s, e);
}

void spool_close(struct spool *s)
{
    for (struct segment_file *f = s->first, *next; f; f = next) {
        next = f->next;
        if (f->fd >= 0)
            close(f->fd);
        free(f->decision);
        free(f);
    }
    if (s->lock_fd >= 0)
        close(s->lock_fd);
    pthread_cond_destroy(&s->work);
    pthread_cond_destroy(&s->sent);
    pthread_mutex_destroy(&s->lock);
}

// --- writing ---

// The caller holds the lock.
static void seal_segment(struct spool *s)
{
    if (s->open && s->open->fd >= 0)
        close(s->open->fd);
    if (s->open)
        s->open->fd = -1;
    s->open = NULL;
}

uint64_t spool_begin_commit(struct spool *s)
{
    pthread_mutex_lock(&s->lock);
    s->committing = true;
    uint64_t bytes = s->open ? s->open->bytes : 0;
    pthread_mutex_unlock(&s->lock);
    return bytes;
}

int spool_begin(struct spool *s, struct segment_file **to, struct err *e)
{
    char path[PATH_MAX];
    *to = s->open;
    if (s->open)
        return 0;
    struct segment_file *f = calloc(1, sizeof *f);
    if (!f || getrandom(&f->batch, sizeof f->batch, 0) != sizeof f->batch) {
        free(f);
        return err_set(e, "no memory for the spool");
    }
    f->seq = s->next_seq;
    segment_path(s, f, path);
    f->fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0640);
    int code = f->fd < 0 ? set_spool_error(s, "create a file", e) : sync_spool_directory(s, e);
    if (code) {
        if (f->fd >= 0) {
            close(f->fd);
            unlink(path);
        }
        free(f);
        return code;
    }
    pthread_mutex_lock(&s->lock);
    s->next_seq++;
    *s->last = f;
    s->last = &f->next;
    s->n_segments++;
    s->open = *to = f;
    pthread_mutex_unlock(&s->lock);
    return 0;
}

static bool write_spool_at(int fd, const void *data, size_t n, uint64_t at)
{
    for (const char *p = data; n;) {
        ssize_t done = pwrite(fd, p, n, (off_t)at);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return false;
        p += done;
        at += (uint64_t)done;
        n -= (size_t)done;
    }
    return true;
}

int spool_append(struct spool *s, const struct put_rows *puts, size_t n, struct err *e)
{
    struct segment_file *f = s->open;
    struct out out;
    struct head head = {.kind = RECORD_PUTS};
    uint64_t rows = 0;
    if (s->broken) {
        *e = s->error;
        return s->broken;
    }
    out_init_memory(&out, (size_t)1 << 31);
    out_write(&out, &head, sizeof head);
    for (size_t i = 0; i < n; i++) {
        out_write(&out, &puts[i].day, sizeof puts[i].day);
        for (int t = 0; t < N_TABLES; t++) {
            uint32_t size[2] = {puts[i].n[t], (uint32_t)puts[i].rows[t].n};
            out_write(&out, size, sizeof size);
            rows += t == T_SAMPLES ? puts[i].n[t] : 0;
        }
        for (int t = 0; t < N_TABLES; t++)
            out_str(&out, out_result(&puts[i].rows[t]));
    }
    int code = 0;
    if (out.error || out.n > UINT32_MAX) {
        err_set(e, "no memory for the rows of a profile");
        code = STORE_BUSY;
    } else {
        head.length = (uint32_t)(out.n - sizeof head);
        head.hash = hash_stable(out.p + sizeof head, head.length, f->batch ^ head.kind);
        memcpy(out.p, &head, sizeof head);
        if (!write_spool_at(f->fd, out.p, out.n, f->bytes)) {
            code = set_spool_error(s, "write", e);
            // If the torn record cannot be removed, nothing may follow it. Records before it are
            // not durable either, because another file would be synced.
            if (ftruncate(f->fd, (off_t)f->bytes)) {
                s->broken = code;
                s->error = *e;
            }
        } else {
            pthread_mutex_lock(&s->lock);
            f->bytes += out.n;
            f->rows += rows;
            s->bytes += out.n;
            if (!f->first) {
                f->first = spool_now();
                f->due = budget_now() + LONGEST_WAIT;
            }
            pthread_mutex_unlock(&s->lock);
        }
    }
    out_fini(&out);
    return code;
}

int spool_sync(struct spool *s, uint64_t before, struct err *e)
{
    struct segment_file *f = s->open;
    int code = s->broken;
    if (code)
        *e = s->error;
    else if (f && fdatasync(f->fd))
        code = set_spool_error(s, "sync", e);
    bool is_cut = f && code && ftruncate(f->fd, (off_t)before);
    s->broken = 0;
    pthread_mutex_lock(&s->lock);
    if (f && code) {
        s->bytes -= f->bytes - before;
        f->bytes = before;
        f->is_cut = is_cut;
        f->cut = before;
    }
    if (f)
        f->durable = f->bytes;
    // A file with a failed write gets no more data.
    if (f && (code || s->wanted || f->bytes >= LARGEST_SEGMENT))
        seal_segment(s);
    s->wanted = s->committing = false;
    pthread_cond_signal(&s->work);
    pthread_mutex_unlock(&s->lock);
    return code;
}

// --- sending ---

void spool_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t until)
{
    struct timespec t = {until / 1000000000, until % 1000000000};
    pthread_cond_timedwait(cond, lock, &t);
}

struct segment_file *spool_take(struct spool *s)
{
    struct segment_file *f;
    pthread_mutex_lock(&s->lock);
    for (;;) {
        f = s->first;
        if (s->stopping && (!f || s->failing)) {
            f = NULL;
            break;
        }
        if (!f || (f == s->open && !f->durable)) {
            if (s->stopping) {
                f = NULL;
                break;
            }
            s->flush = false;
            pthread_cond_wait(&s->work, &s->lock);
            continue;
        }
        if (f != s->open)
            break;
        if (s->flush || s->stopping || f->rows >= ENOUGH_ROWS || budget_now() >= f->due) {
            if (!s->committing) {
                seal_segment(s);
                break;
            }
            s->wanted = true;
            pthread_cond_wait(&s->work, &s->lock);
            continue;
        }
        spool_wait_until(&s->work, &s->lock, f->due);
    }
    pthread_mutex_unlock(&s->lock);
    return f;
}

void spool_give(struct spool *s, struct segment_file *f, bool sent, const struct err *e)
{
    char path[PATH_MAX];
    if (sent) {
        segment_path(s, f, path);
        unlink(path);
    }
    pthread_mutex_lock(&s->lock);
    s->sends += sent;
    s->failures += !sent;
    s->failing = !sent;
    if (sent) {
        s->first = f->next;
        if (!s->first)
            s->last = &s->first;
        s->done_seq = f->seq;
        s->bytes -= f->bytes;
        s->n_segments--;
        s->sent_rows += f->rows;
        free(f->decision);
        free(f);
    } else {
        snprintf(s->why, sizeof s->why, "%s", e->message);
    }
    pthread_cond_broadcast(&s->sent);
    pthread_mutex_unlock(&s->lock);
}

int spool_read(struct spool *s, const struct segment_file *f, uint8_t **bytes, size_t *n,
               struct err *e)
{
    char path[PATH_MAX];
    struct stat st;
    segment_path(s, f, path);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    *n = 0;
    *bytes = NULL;
    if (fd < 0 || fstat(fd, &st)) {
        int code = set_spool_error(s, "read", e);
        if (fd >= 0)
            close(fd);
        return code;
    }
    int code = 0;
    size_t size = (size_t)st.st_size;
    if (f->is_cut && f->cut < size)
        size = (size_t)f->cut;
    *bytes = malloc(size + 1);
    if (!*bytes)
        code = err_set(e, "no memory to send %zu bytes", size);
    for (ssize_t got; !code && *n < size; *n += (size_t)got)
        if ((got = pread(fd, *bytes + *n, size - *n, (off_t)*n)) <= 0)
            code = set_spool_error(s, "read", e);
    close(fd);
    if (code) {
        free(*bytes);
        *bytes = NULL;
    }
    return code;
}

int spool_append_decision(struct spool *s, struct segment_file *f, uint64_t whole,
                          struct str record, struct err *e)
{
    char path[PATH_MAX];
    struct head head = {(uint32_t)record.n, RECORD_DECISION,
                        hash_stable(record.p, record.n, f->batch ^ RECORD_DECISION)};
    segment_path(s, f, path);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    int code = 0;
    // Overwrites what a crash left after the complete records.
    if (fd < 0 || ftruncate(fd, (off_t)whole) || !write_spool_at(fd, &head, sizeof head, whole) ||
        !write_spool_at(fd, record.p, record.n, whole + sizeof head) || fdatasync(fd))
        code = set_spool_error(s, "write", e);
    else
        f->is_cut = false; // it is truncated now
    if (fd >= 0)
        close(fd);
    return code;
}

void spool_flush(struct spool *s, int64_t nanos, struct budget *budget)
{
    int64_t until = budget_now() + nanos;
    budget_rest(budget);
    if (budget_lock(budget, &s->lock))
        return;
    uint64_t target = s->next_seq - 1;
    if (s->open && s->open->seq == target && !s->open->durable)
        target--;
    while (s->done_seq < target && !s->failing && !s->stopping && budget_now() < until &&
           (!budget || budget_check(budget) == BUDGET_OK)) {
        int64_t look = budget_now() + LOOK_NANOS;
        s->flush = true;
        pthread_cond_signal(&s->work);
        spool_wait_until(&s->sent, &s->lock, budget && look < until ? look : until);
    }
    pthread_mutex_unlock(&s->lock);
}

int64_t spool_lag(struct spool *s, int64_t at)
{
    const struct segment_file *f = s->first;
    return f && f->bytes && at > f->first ? at - f->first : 0;
}

// --- reading ---

enum record spool_next(struct unpack *b, uint64_t batch, struct unpack *record)
{
    struct head head;
    if ((size_t)(b->end - b->p) < sizeof head)
        return RECORD_END;
    memcpy(&head, b->p, sizeof head);
    if (head.length > (size_t)(b->end - b->p) - sizeof head ||
        (head.kind != RECORD_PUTS && head.kind != RECORD_DECISION) ||
        head.hash != hash_stable(b->p + sizeof head, head.length, batch ^ head.kind))
        return RECORD_END;
    *record = (struct unpack){b->p + sizeof head, b->p + sizeof head + head.length, false};
    b->p = record->end;
    return (enum record)head.kind;
}

// The tenant of the first row; empty if there is none.
static struct str first_tenant(struct str rows, size_t at)
{
    struct unpack b = {(const uint8_t *)rows.p, (const uint8_t *)rows.p + rows.n, false};
    unpack_bytes(&b, at);
    return unpack_str(&b);
}

// The size of a string in a row.
static size_t string_size(size_t n)
{
    size_t bytes = n + 1;
    for (; n >= 128; n >>= 7)
        bytes++;
    return bytes;
}

bool spool_next_put(struct unpack *record, struct spool_put *put)
{
    uint32_t bytes[N_TABLES];
    if (record->p == record->end)
        return false;
    struct str day = unpack_bytes(record, sizeof put->day);
    if (day.n == sizeof put->day)
        memcpy(&put->day, day.p, sizeof put->day);
    for (int t = 0; t < N_TABLES; t++) {
        put->n[t] = row_u32(record);
        bytes[t] = row_u32(record);
    }
    for (int t = 0; t < N_TABLES; t++)
        put->rows[t] = unpack_bytes(record, bytes[t]);
    // These rows are indexed by counting; the tenant is at the end of each.
    put->tenant = first_tenant(put->rows[T_PROFILES], PROFILE_ROW);
    size_t tenant = string_size(put->tenant.n);
    if (put->rows[T_SAMPLES].n != (size_t)put->n[T_SAMPLES] * (SAMPLE_ROW + tenant) ||
        put->rows[T_PROFILES].n != (size_t)put->n[T_PROFILES] * (PROFILE_ROW + tenant))
        unpack_fail(record);
    return !record->bad;
}
