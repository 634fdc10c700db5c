// The spool on a disk that fails: whatever spool_sync acknowledges was synced, in the file that it
// is in, and whatever it does not acknowledge is not sent.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/clickhouse.h"

// Which call of each kind fails; 0: none.
static struct {
    int write, truncate, sync;
} fail_at, calls;
static bool short_write;
// By descriptor: bytes that were written and not synced since.
static uint64_t unsynced[1024];

ssize_t __real_pwrite64(int fd, const void *p, size_t n, off_t at);
ssize_t __wrap_pwrite64(int fd, const void *p, size_t n, off_t at);
int __real_ftruncate64(int fd, off_t size);
int __wrap_ftruncate64(int fd, off_t size);
int __wrap_fdatasync(int fd);

ssize_t __wrap_pwrite64(int fd, const void *p, size_t n, off_t at)
{
    if (++calls.write == fail_at.write) {
        if (short_write && n > 1) { // the next one says why
            fail_at.write++;
            n /= 2;
        } else {
            errno = ENOSPC;
            return -1;
        }
    }
    unsynced[fd] += n;
    return __real_pwrite64(fd, p, n, at);
}

int __wrap_ftruncate64(int fd, off_t size)
{
    if (++calls.truncate == fail_at.truncate) {
        errno = EIO;
        return -1;
    }
    return __real_ftruncate64(fd, size);
}

int __wrap_fdatasync(int fd)
{
    if (++calls.sync == fail_at.sync) {
        errno = EIO;
        return -1;
    }
    unsynced[fd] = 0; // no crash follows, so the disk need not do it
    return 0;
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    return remove(path);
}

// A put with one row of a profile, which has this number as its time.
static void make_put(struct put_rows *put, uint64_t number, uint64_t batch, struct arena *arena)
{
    *put = (struct put_rows){.day = 1};
    for (int t = 0; t < N_TABLES; t++)
        out_init_arena(&put->rows[t], arena);
    char row[PROFILE_ROW] = {0};
    memcpy(row + PROFILE_ID_AT - 8, &number, sizeof number);
    out_write(&put->rows[T_PROFILES], row, sizeof row);
    out_write(&put->rows[T_PROFILES], "\1t", 2);
    put->n[T_PROFILES] = 1;
}

struct crowd {
    bool acknowledged[64];
    int n;
};

// One commit of so many requests, as clickhouse.c makes it.
static void commit(struct spool *s, struct crowd *c, int n)
{
    struct arena *arena = arena_new(0);
    struct err e;
    int codes[16] = {0}, first = c->n;
    uint64_t before = spool_begin_commit(s);
    for (int i = 0; i < n; i++) {
        struct segment_file *open;
        struct put_rows put;
        codes[i] = spool_begin(s, &open, &e);
        if (!codes[i]) {
            make_put(&put, (uint64_t)c->n, open->batch, arena);
            codes[i] = spool_append(s, &put, 1, &e);
        }
        c->n++;
    }
    int code = spool_sync(s, before, &e);
    for (int i = 0; i < n; i++)
        c->acknowledged[first + i] = !code && !codes[i];
    for (int i = 0; i < 1024 && !code; i++)
        assert_int_equal(unsynced[i], 0);
    arena_free(arena);
}

// All that is left in the spool's segments.
static void read_all(struct spool *s, bool there[64])
{
    for (struct segment_file *f = s->first; f; f = f->next) {
        uint8_t *bytes;
        size_t n;
        struct err e;
        assert_int_equal(spool_read(s, f, &bytes, &n, &e), 0);
        struct unpack b = {bytes, bytes + n, false}, record;
        while (spool_next(&b, f->batch, &record) == RECORD_PUTS) {
            struct spool_put put;
            while (spool_next_put(&record, &put)) {
                uint64_t number;
                memcpy(&number, put.rows[T_PROFILES].p + PROFILE_ID_AT - 8, sizeof number);
                assert_true(number < 64);
                assert_false(there[number]);
                assert_true(str_eq(put.tenant, STR("t")));
                there[number] = true;
            }
        }
        free(bytes);
    }
}

static void test_faults(void **state)
{
    // Every combination of a write, a truncation and a sync that fail.
    for (int at = 0; at < 9 * 4 * 5 * 2; at++) {
        char dir[] = "/tmp/kiln-spool-XXXXXX";
        struct spool s;
        struct err e;
        struct crowd c = {.n = 0};
        bool there[64] = {false};
        assert_non_null(mkdtemp(dir));
        spool_init(&s);
        assert_int_equal(spool_open(&s, dir, &e), 0);
        memset(unsynced, 0, sizeof unsynced);
        memset(&calls, 0, sizeof calls);
        fail_at.write = at % 9;
        fail_at.truncate = at / 9 % 4;
        fail_at.sync = at / 36 % 5;
        short_write = at / 180;
        for (int i = 0; i < 4; i++)
            commit(&s, &c, 3);
        memset(&fail_at, 0, sizeof fail_at);
        commit(&s, &c, 2);
        assert_true(c.acknowledged[12] && c.acknowledged[13]);
        read_all(&s, there);
        for (int i = 0; i < c.n; i++)
            if (c.acknowledged[i] != there[i])
                fail_msg("faults %d, put %d: acknowledged %d, there %d", at, i, c.acknowledged[i],
                         there[i]);
        uint64_t bytes = 0;
        for (struct segment_file *f = s.first; f; f = f->next)
            bytes += f->bytes;
        assert_int_equal(bytes, s.bytes);
        spool_close(&s);
        nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    }
}

static void test_an_earlier_version_is_refused(void **state)
{
    char dir[] = "/tmp/kiln-spool-XXXXXX", path[100];
    struct err e;
    assert_non_null(mkdtemp(dir));
    for (int i = 0; i < 2; i++) {
        struct spool s;
        spool_init(&s);
        assert_int_equal(spool_open(&s, dir, &e) != 0, i);
        spool_close(&s);
        snprintf(path, sizeof path, "%s/spool/%016x-%016x.rows", dir, 1, 2);
        FILE *f = fopen(path, "w");
        assert_non_null(f);
        fclose(f);
    }
    assert_non_null(strstr(e.message, "earlier version"));
    nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_an_earlier_version_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
