// Files that change on disk while names are looked up in them: a name may be lost, the process not.
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "symbol/mapped_file.h"
#include "symbol/symbol.h"

static char self[4096], path[4096], other[4200];
static uint64_t *boundaries;
static size_t n_boundaries;

static void write_copy(const char *to)
{
    char buffer[65536];
    int from = open(self, O_RDONLY), out = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0700);
    assert_true(from >= 0 && out >= 0);
    for (ssize_t n; (n = read(from, buffer, sizeof buffer)) > 0;)
        assert_int_equal(write(out, buffer, (size_t)n), n);
    close(from);
    close(out);
}

static int setup(void **state)
{
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(n > 0);
    snprintf(path, sizeof path, "/tmp/kiln-view-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    snprintf(other, sizeof other, "%s.other", path);
    struct err e;
    struct symbol_file *file = symbol_open(self, NULL, &e);
    assert_non_null(file);
    boundaries = symbol_boundaries(file, &n_boundaries);
    assert_non_null(boundaries);
    symbol_free(file);
    return 0;
}

static int teardown(void **state)
{
    unlink(path);
    unlink(other);
    free(boundaries);
    return 0;
}

static uint64_t next_address(unsigned *seed)
{
    return boundaries[(size_t)rand_r(seed) % n_boundaries];
}

static void truncate_copy(unsigned *seed)
{
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(truncate(path, st.st_size ? rand_r(seed) % st.st_size : 0), 0);
}

static void overwrite_copy(unsigned *seed)
{
    char garbage[4096];
    struct stat st;
    int fd = open(path, O_WRONLY);
    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &st), 0);
    for (int i = 0; i < 64; i++) {
        for (size_t k = 0; k < sizeof garbage; k++)
            garbage[k] = (char)rand_r(seed);
        (void)!pwrite(fd, garbage, sizeof garbage, st.st_size ? rand_r(seed) % st.st_size : 0);
    }
    close(fd);
}

static void replace_copy(unsigned *seed)
{
    write_copy(other);
    assert_int_equal(rename(other, path), 0);
}

typedef void change_fn(unsigned *seed);
static change_fn *const changes[] = {truncate_copy, overwrite_copy, replace_copy};

// The frames as text; "" for none.
static void look_up(struct symbol_file *file, uint64_t addr, char *text, size_t size)
{
    struct symbol_frame frames[SYMBOL_FRAMES_MAX];
    int n = symbol_lookup(file, addr, frames, SYMBOL_FRAMES_MAX);
    size_t at = 0;
    *text = '\0';
    for (int i = 0; i < n && at < size; i++)
        at += (size_t)snprintf(text + at, size - at, "%s %s:%u\n",
                               frames[i].name ? frames[i].name : "?",
                               frames[i].file ? frames[i].file : "?", frames[i].line);
}

// Right or nothing, while another file answers as before.
static void changed_between_lookups(void **state)
{
    struct err e;
    char want[8192], have[8192];
    struct symbol_file *right = symbol_open(self, NULL, &e);
    for (unsigned round = 0; round < 30; round++) {
        unsigned seed = round + 1;
        write_copy(path);
        struct symbol_file *file = symbol_open(path, NULL, &e);
        assert_non_null(file);
        size_t before = 0;
        for (int i = 0; i < 60; i++) {
            if (i == 20)
                changes[round % 3](&seed);
            uint64_t addr = next_address(&seed);
            look_up(right, addr, want, sizeof want);
            look_up(file, addr, have, sizeof have);
            symbol_rest(file);
            if (i < 20)
                before += *have != '\0';
            if (i < 20 || *have)
                assert_string_equal(have, want);
        }
        assert_true(before > 0);
        symbol_release(file);
        look_up(file, boundaries[n_boundaries / 2], have, sizeof have);
        assert_string_equal(have, "");
        assert_true(symbol_has_changed(file));
        symbol_free(file);
    }
    symbol_free(right);
}

static _Atomic bool stop;

static void *change_all_along(void *arg)
{
    unsigned seed = 7;
    while (!atomic_load(&stop)) {
        write_copy(path);
        for (int i = 0; i < 2; i++) {
            usleep(200 + (unsigned)rand_r(&seed) % 3000);
            changes[rand_r(&seed) % 3](&seed);
        }
    }
    return NULL;
}

static void survive(const struct symbol_options *options)
{
    pthread_t thread;
    atomic_store(&stop, false);
    write_copy(path);
    assert_int_equal(pthread_create(&thread, NULL, change_all_along, NULL), 0);
    size_t opened = 0;
    for (unsigned round = 0, seed = 3; opened < 60 && round < 5000; round++) {
        struct err e;
        struct symbol_file *file = symbol_open(path, options, &e);
        opened += file != NULL;
        if (!file)
            usleep(1000); // the other thread may not run for a while
        for (int i = 0; file && i < 200; i++) {
            char text[8192];
            look_up(file, next_address(&seed), text, sizeof text);
            if (i % 20 == 0)
                symbol_release(file);
        }
        symbol_free(file);
    }
    atomic_store(&stop, true);
    pthread_join(thread, NULL);
    assert_true(opened > 0);
}

static void changed_during_lookups(void **state)
{
    survive(NULL);
}

// The command maps files: pages that have gone read as zeros.
static void mapped_files_are_guarded(void **state)
{
    mapped_file_guard();
    survive(&(struct symbol_options){.own_process = true});
}

// A descriptor that the host closed, and whose number it has used again, is not ours to close.
static void foreign_descriptors_stay_open(void **state)
{
    struct err e;
    uint8_t byte;
    write_copy(path);
    struct file_view *view = file_view_open(path, &e);
    assert_non_null(view);
    assert_true(file_view_copy(view, 0, &byte, 1));
    assert_int_equal(byte, 0x7f);
    int fd = view->fd, null = open("/dev/null", O_RDONLY);
    assert_true(fd >= 0 && null >= 0);
    assert_int_equal(dup2(null, fd), fd);
    file_view_rest(view);
    assert_true(fcntl(fd, F_GETFD) >= 0);
    assert_true(file_view_has_changed(view));
    close(fd);
    close(null);
    file_view_free(view);
}

static void pages_come_and_go(void **state)
{
    struct err e;
    struct file_view *view = file_view_open(self, &e);
    assert_non_null(view);
    assert_int_equal(view->p[0], 0);
    const uint8_t *ready = file_view_fill(view, view->p, 4);
    assert_true(ready >= view->p + 4 && ready <= view->p + view->n);
    assert_memory_equal(view->p, "\177ELF", 4);
    size_t held = view->held;
    assert_true(held > 0 && file_view_memory(view) > held);
    file_view_need(view, view->p, 4);
    assert_int_equal(view->held, held);
    file_view_fill(view, view->p, view->n);
    assert_true(view->held >= view->n);
    int fd = open(self, O_RDONLY);
    uint8_t *all = malloc(view->n);
    assert_int_equal(read(fd, all, view->n), view->n);
    assert_memory_equal(view->p, all, view->n);
    free(all);
    close(fd);
    file_view_forget(view);
    assert_int_equal(view->held, 0);
    assert_int_equal(view->p[0], 0);
    assert_null(file_view_find_nul(view, view->p, view->p + 4));
    assert_false(file_view_has_changed(view));
    file_view_free(view);
    file_view_free(NULL);
    assert_null(file_view_open("/nonexistent", &e));
    assert_null(file_view_open("/", &e));
    assert_null(file_view_open("/dev/zero", &e));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_come_and_go),
        cmocka_unit_test(changed_between_lookups),
        cmocka_unit_test(changed_during_lookups),
        cmocka_unit_test(mapped_files_are_guarded),
        cmocka_unit_test(foreign_descriptors_stay_open),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
