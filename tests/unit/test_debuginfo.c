#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/debuginfo.h"
#include "store_profiles.h"

#define SECOND INT64_C(1000000000)

static const struct str TENANT = {"anonymous", 9};
static const struct profile_shape SHAPE = {300, 2000, 24, 120, 0x555500000000};

struct fixture {
    char dir[64];
    struct store *store;
    struct debuginfo *d;
    struct str file; // an ELF file
    char id[2 * ELF_BUILD_ID_MAX + 1];
};

static void open_files(struct fixture *f, size_t total, int64_t lifetime)
{
    struct err e;
    const struct debuginfo_options options = {.data = f->dir,
                                              .store = f->store,
                                              .file_limit = 1 << 20,
                                              .total_limit = total,
                                              .part_lifetime = lifetime};
    debuginfo_close(f->d);
    f->d = debuginfo_open(&options, &e);
    if (!f->d)
        fail_msg("%s", e.message);
}

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    struct err e;
    snprintf(f->dir, sizeof f->dir, "/tmp/kiln-debuginfo-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    const struct store_options options = {.commit_nanos = -1, .maintain_nanos = -1};
    f->store = store_open(f->dir, &options, &e);
    assert_non_null(f->store);
    struct stat st;
    int fd = open(LIBRARY, O_RDONLY);
    assert_true(fd >= 0 && fstat(fd, &st) == 0);
    char *bytes = malloc((size_t)st.st_size);
    assert_int_equal(read(fd, bytes, (size_t)st.st_size), st.st_size);
    close(fd);
    f->file = (struct str){bytes, (size_t)st.st_size};
    struct elf *elf = elf_open(LIBRARY, ELF_OWN_PROCESS, &e);
    assert_non_null(elf);
    assert_true(elf_build_id_text(elf, f->id) > 4);
    elf_free(elf);
    *state = f;
    return 0;
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    return remove(path);
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    debuginfo_close(f->d);
    store_close(f->store);
    nftw(f->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    free((char *)f->file.p);
    free(f);
    return 0;
}

// The status of a part; 0: it was taken.
static int put(struct fixture *f, const char *id, uint64_t offset, uint64_t size, struct str bytes,
               enum debuginfo_state *state)
{
    struct err e = {""};
    struct debuginfo_put p = {
        .tenant = TENANT, .build_id = str_from(id), .offset = offset, .size = size, .bytes = bytes};
    int status = debuginfo_put(f->d, &p, &e);
    if (status)
        assert_true(e.message[0]);
    else if (state)
        *state = p.state;
    return status;
}

static size_t n_parts(const struct fixture *f)
{
    char path[128];
    size_t n = 0;
    snprintf(path, sizeof path, "%s/debuginfo/anonymous/parts", f->dir);
    DIR *directory = opendir(path);
    for (struct dirent *entry; directory && (entry = readdir(directory));)
        n += entry->d_name[0] != '.';
    if (directory)
        closedir(directory);
    return n;
}

static struct str first_bytes(const struct fixture *f, size_t n)
{
    return (struct str){f->file.p, n};
}

static void test_parts_expire(void **state)
{
    struct fixture *f = *state;
    open_files(f, 10 << 20, SECOND / 5);
    assert_int_equal(put(f, f->id, 0, f->file.n, first_bytes(f, 100), NULL), 0);
    assert_int_equal(n_parts(f), 1);
    for (int i = 0; i < 1000 && n_parts(f); i++)
        usleep(10000);
    assert_int_equal(n_parts(f), 0);
    assert_int_equal(put(f, f->id, 100, f->file.n, str_from_to(f->file, 100, f->file.n), NULL),
                     409);
}

static void test_a_file_takes_the_place_of_its_part(void **state)
{
    struct fixture *f = *state;
    enum debuginfo_state was;
    open_files(f, 10 << 20, 0);
    assert_int_equal(put(f, f->id, 0, 1 << 20, first_bytes(f, 100), NULL), 0);
    assert_int_equal(put(f, f->id, 0, f->file.n, f->file, &was), 0);
    assert_int_equal(was, DEBUGINFO_STORED);
    assert_int_equal(n_parts(f), 0);
    // What was begun before a stop is gone.
    assert_int_equal(put(f, "abcd", 0, 1 << 20, first_bytes(f, 100), NULL), 0);
    assert_int_equal(n_parts(f), 1);
    open_files(f, 10 << 20, 0);
    assert_int_equal(n_parts(f), 0);
}

static uint64_t stored_bytes(const struct fixture *f, const char *below)
{
    char path[300];
    struct stat st;
    uint64_t bytes = 0;
    snprintf(path, sizeof path, "%s/debuginfo/anonymous/%s", f->dir, below);
    DIR *directory = opendir(path);
    for (struct dirent *entry; directory && (entry = readdir(directory));) {
        char name[600];
        snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
        bytes += stat(name, &st) == 0 && S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
    }
    if (directory)
        closedir(directory);
    return bytes;
}

// An upload may neither begin small and grow, nor may many that begin at once exceed the total.
static void test_room_is_checked_for_each_part(void **state)
{
    struct fixture *f = *state;
    enum { SIZE = 100000, TOTAL = 250000 };
    char *zeros = calloc(1, SIZE), id[16];
    enum debuginfo_state was;
    open_files(f, TOTAL, 0);
    for (int i = 0; i < 20; i++) {
        snprintf(id, sizeof id, "%04x", i);
        assert_int_equal(put(f, id, 0, 8, first_bytes(f, 4), NULL), 0);
        assert_int_equal(put(f, id, 4, SIZE, (struct str){zeros, SIZE - 5}, NULL), 400);
    }
    assert_true(stored_bytes(f, "parts") <= 80);
    int refused = 0;
    for (int i = 0; i < 20; i++) {
        snprintf(id, sizeof id, "%04x", i);
        assert_int_equal(put(f, id, 0, SIZE, first_bytes(f, 4), NULL), 0);
    }
    for (int i = 0; i < 20; i++) {
        snprintf(id, sizeof id, "%04x", i);
        int status = put(f, id, 4, SIZE, (struct str){zeros, SIZE - 5}, NULL);
        assert_true(status == 0 || status == 413);
        refused += status == 413;
    }
    assert_int_equal(refused, 18);
    assert_true(stored_bytes(f, "parts") <= TOTAL);
    // A file that is complete does not wait for them.
    assert_true(f->file.n < SIZE);
    assert_int_equal(put(f, f->id, 0, f->file.n, f->file, &was), 0);
    assert_int_equal(was, DEBUGINFO_STORED);
    // Files that were removed leave room again.
    open_files(f, f->file.n + 10, 0);
    assert_int_equal(put(f, "abcd", 0, 20, first_bytes(f, 4), NULL), 413);
    assert_true(debuginfo_remove(f->d, TENANT, str_from(f->id)));
    assert_int_equal(put(f, "abcd", 0, 20, first_bytes(f, 4), NULL), 0);
    free(zeros);
}

// However many services and days there are, a new file reads none of them.
static void test_an_upload_loads_no_symbols(void **state)
{
    struct fixture *f = *state;
    struct arena *arena = arena_new(0);
    struct err e;
    open_files(f, 10 << 20, 0);
    for (int i = 0; i < 20; i++) {
        char service[16];
        snprintf(service, sizeof service, "s%d", i % 10);
        struct store_label labels[] = {{STR("__name__"), STR("process_cpu")},
                                       {STR("service_name"), str_from(service)}};
        struct store_put p = {.tenant = TENANT,
                              .labels = labels,
                              .n_labels = 2,
                              .time = (20000 + i / 10) * 86400 * SECOND,
                              .profile = profile_make(arena, &SHAPE, PROFILE_CPU, (uint64_t)i)};
        assert_int_equal(store_put(f->store, &p, 1, &e), 0);
    }
    struct store_counters before, after;
    store_counters(f->store, &before);
    assert_int_equal(put(f, f->id, 0, f->file.n, f->file, NULL), 0);
    store_counters(f->store, &after);
    assert_int_equal(after.cache_bytes, before.cache_bytes);
    arena_free(arena);
}

// This program: where its code is, and its build id.
static void find_program(struct model_mapping *m, char id[2 * ELF_BUILD_ID_MAX + 1])
{
    struct err e;
    char line[600];
    unsigned long start, limit, offset, address = (unsigned long)(uintptr_t)find_program;
    FILE *f = fopen("/proc/self/maps", "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        char *end, *at = line;
        start = strtoul(at, &end, 16);
        limit = strtoul(end + 1, &end, 16);
        offset = strtoul(end + 6, &end, 16);
        if (start <= address && address < limit)
            *m = (struct model_mapping){.start = start, .limit = limit, .offset = offset};
    }
    fclose(f);
    assert_true(m->limit > m->start);
    struct elf *elf = elf_open("/proc/self/exe", ELF_OWN_PROCESS, &e);
    assert_non_null(elf);
    assert_true(elf_build_id_text(elf, id) > 4);
    elf_free(elf);
}

static int name_within(struct fixture *f, const struct model_profile *symbols, size_t limit)
{
    struct store_stacks stacks = {.symbols = symbols};
    struct arena *arena = arena_new(limit);
    struct arena_trap trap;
    struct err e;
    if (ARENA_TRY(arena, trap)) {
        arena_free(arena);
        return -1;
    }
    int code = debuginfo_name(f->d, TENANT, &stacks, arena, &e);
    if (!code)
        assert_true(stacks.symbols->n_functions > 100);
    arena_try_end(arena);
    arena_free(arena);
    return code;
}

// With every amount of memory, names are found or it is an error; a sanitizer sees what is left.
static void test_names_within_little_memory(void **state)
{
    struct fixture *f = *state;
    struct arena *arena = arena_new(0);
    struct model_builder b;
    struct model_mapping m = {0};
    char id[2 * ELF_BUILD_ID_MAX + 1], path[300], own[400] = "";
    find_program(&m, id);
    // As a file of this machine.
    assert_true(readlink("/proc/self/exe", own, sizeof own - 1) > 0);
    snprintf(path, sizeof path, "%s/.build-id", f->dir);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/.build-id/%.2s", f->dir, id);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/.build-id/%.2s/%s.debug", f->dir, id, id + 2);
    assert_int_equal(symlink(own, path), 0);
    const struct str directory = str_from(f->dir);
    const struct debuginfo_options options = {
        .data = f->dir, .store = f->store, .directories = &directory, .n_directories = 1};
    struct err e;
    f->d = debuginfo_open(&options, &e);
    assert_non_null(f->d);
    model_build(&b, arena);
    m.build_id = model_build_string(&b, str_from(id));
    uint32_t mapping = model_build_mapping(&b, m);
    for (uint64_t i = 0; i < 3000 && m.start + i * 64 < m.limit; i++)
        model_build_location(&b, mapping, m.start + i * 64, NULL, 0);
    int failures = 0;
    for (size_t limit = 32 << 10; name_within(f, b.p, limit); limit += limit / 8) {
        failures++;
        assert_true(limit < 100 << 20);
    }
    assert_true(failures > 5);
    arena_free(arena);
}

// The file with another build id.
static void put_another(struct fixture *f, char *bytes, int number)
{
    struct err e;
    char id[2 * ELF_BUILD_ID_MAX + 1];
    struct elf *elf = elf_open(LIBRARY, ELF_OWN_PROCESS, &e);
    uint8_t old[ELF_BUILD_ID_MAX];
    size_t n = elf_build_id(elf, old);
    memcpy(bytes, f->file.p, f->file.n);
    char *at = memmem(bytes, f->file.n, old, n);
    assert_non_null(at);
    memcpy(at, &number, sizeof number);
    elf_free(elf);
    elf =
        elf_open_bytes((struct bytes){(uint8_t *)bytes, f->file.n, NULL}, "file", ELF_IN_HOST, &e);
    assert_non_null(elf);
    elf_build_id_text(elf, id);
    elf_free(elf);
    assert_int_equal(put(f, id, 0, f->file.n, (struct str){bytes, f->file.n}, NULL), 0);
}

static double cost_of_uploads(struct fixture *f, int from)
{
    struct timespec begin, end;
    char *bytes = malloc(f->file.n);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
    for (int i = 0; i < 10; i++)
        put_another(f, bytes, from + i);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
    free(bytes);
    return (double)(end.tv_sec - begin.tv_sec) * 1e9 + (double)(end.tv_nsec - begin.tv_nsec);
}

// An upload costs the same however many files the tenant has, and others do not wait for the
// counting of them.
static void test_files_are_counted_once(void **state)
{
    struct fixture *f = *state;
    char path[300];
    open_files(f, 1 << 30, 0);
    double few = cost_of_uploads(f, 1);
    snprintf(path, sizeof path, "%s/debuginfo/anonymous/aa", f->dir);
    mkdir(path, 0700);
    for (int i = 0; i < 10000; i++) {
        snprintf(path, sizeof path, "%s/debuginfo/anonymous/aa/%06x.debug", f->dir, i);
        close(open(path, O_WRONLY | O_CREAT, 0600));
    }
    open_files(f, 1 << 30, 0);
    char *bytes = malloc(f->file.n);
    put_another(f, bytes, 100);
    free(bytes);
    double many = cost_of_uploads(f, 200);
    if (many > few * 5)
        fail_msg("10 uploads took %.1f ms, %.1f ms with many files", few / 1e6, many / 1e6);
}

struct counting {
    struct fixture *f;
    int64_t nanos;
    atomic_bool done;
};

static void *put_and_count(void *context)
{
    struct counting *c = context;
    int64_t start = budget_now();
    put(c->f, "abcd", 0, 20, first_bytes(c->f, 4), NULL);
    c->nanos = budget_now() - start;
    c->done = true;
    return NULL;
}

// The longest that another tenant waits while the files of one are counted, as a part of that time.
static double part_of_counting(struct fixture *f)
{
    struct counting c = {.f = f};
    struct err e;
    struct debuginfo_put other = {
        .tenant = STR("other"), .build_id = STR("abcd"), .offset = 5, .size = 20};
    int64_t longest = 0;
    pthread_t thread;
    open_files(f, 1 << 30, 0);
    other.bytes = first_bytes(f, 4);
    assert_int_equal(pthread_create(&thread, NULL, put_and_count, &c), 0);
    while (!c.done) {
        int64_t start = budget_now();
        assert_int_equal(debuginfo_put(f->d, &other, &e), 409);
        longest = budget_now() - start > longest ? budget_now() - start : longest;
    }
    pthread_join(thread, NULL);
    return (double)longest / (double)c.nanos;
}

static void test_others_do_not_wait_for_counting(void **state)
{
    struct fixture *f = *state;
    char path[300];
    open_files(f, 1 << 30, 0);
    assert_int_equal(put(f, f->id, 0, f->file.n, f->file, NULL), 0);
    snprintf(path, sizeof path, "%s/debuginfo/anonymous/aa", f->dir);
    mkdir(path, 0700);
    for (int i = 0; i < 20000; i++) {
        snprintf(path, sizeof path, "%s/debuginfo/anonymous/aa/%06x.debug", f->dir, i);
        close(open(path, O_WRONLY | O_CREAT, 0600));
    }
    // The machine may hold up a thread in one of them.
    double least = 1;
    for (int i = 0; i < 10 && least > 0.4; i++) {
        double part = part_of_counting(f);
        least = part < least ? part : least;
    }
    if (least > 0.4)
        fail_msg("another tenant waited for %.0f %% of the counting", least * 100);
}

static void test_files_have_a_limit(void **state)
{
    struct fixture *f = *state;
    char *bytes = malloc(f->file.n);
    struct err e;
    const struct debuginfo_options options = {.data = f->dir,
                                              .store = f->store,
                                              .file_limit = 1 << 20,
                                              .total_limit = 1 << 30,
                                              .files_limit = 3};
    f->d = debuginfo_open(&options, &e);
    assert_non_null(f->d);
    assert_int_equal(put(f, f->id, 0, f->file.n, f->file, NULL), 0);
    assert_int_equal(put(f, f->id, 0, f->file.n, f->file, NULL), 0); // the same again
    put_another(f, bytes, 1);
    put_another(f, bytes, 2);
    assert_int_equal(put(f, "abcd", 0, 20, first_bytes(f, 4), NULL), 413);
    assert_true(debuginfo_remove(f->d, TENANT, str_from(f->id)));
    put_another(f, bytes, 3);
    free(bytes);
}

// A tenant's name may begin with a dot.
static void test_a_tenant_with_a_dot(void **state)
{
    struct fixture *f = *state;
    const struct str tenant = STR(".hidden");
    struct err e = {""};
    char path[300];
    struct stat st;
    struct debuginfo_put whole = {
        .tenant = tenant, .build_id = STR(""), .size = f->file.n, .bytes = f->file};
    struct debuginfo_put part = {
        .tenant = tenant, .build_id = STR("abcd"), .size = 1000, .bytes = first_bytes(f, 100)};
    open_files(f, 10 << 20, 0);
    assert_int_equal(debuginfo_put(f->d, &whole, &e), 0);
    snprintf(path, sizeof path, "%s/backup", f->dir);
    assert_int_equal(debuginfo_backup(f->d, path, &e), 0);
    snprintf(path, sizeof path, "%s/backup/.hidden/%.2s/%s.debug", f->dir, f->id, f->id + 2);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(debuginfo_put(f->d, &part, &e), 0);
    snprintf(path, sizeof path, "%s/debuginfo/.hidden/parts/left", f->dir);
    close(open(path, O_WRONLY | O_CREAT, 0600)); // of a server that was killed
    open_files(f, 10 << 20, 0);
    assert_int_not_equal(stat(path, &st), 0);
}

struct crowd {
    struct fixture *f;
    int number, refused;
};

// Parts of files of its own, and the same whole file as everybody.
static void *crowd_put(void *arg)
{
    struct crowd *c = arg;
    char id[16];
    for (int i = 0; i < 30; i++) {
        snprintf(id, sizeof id, "%04x%02x", c->number, i);
        c->refused += put(c->f, id, 0, 1000, first_bytes(c->f, 100), NULL) != 0;
        int status = put(c->f, c->f->id, 0, c->f->file.n, c->f->file, NULL);
        c->refused += status && status != 409;
        c->refused += put(c->f, id, 100, 1000, first_bytes(c->f, 500), NULL) != 0;
        if (i % 10 == 9)
            debuginfo_remove(c->f->d, TENANT, str_from(c->f->id));
    }
    return NULL;
}

static void test_many_threads(void **state)
{
    enum { THREADS = 2 };
    struct fixture *f = *state;
    struct crowd crowd[THREADS];
    pthread_t threads[THREADS];
    open_files(f, 10 << 20, 40 * SECOND);
    for (int i = 0; i < THREADS; i++) {
        crowd[i] = (struct crowd){f, i, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, crowd_put, &crowd[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(crowd[i].refused, 0);
    }
    assert_int_equal(n_parts(f), 30 * THREADS);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_parts_expire),
        TEST(test_a_file_takes_the_place_of_its_part),
        TEST(test_room_is_checked_for_each_part),
        TEST(test_an_upload_loads_no_symbols),
        TEST(test_names_within_little_memory),
        TEST(test_files_are_counted_once),
        TEST(test_others_do_not_wait_for_counting),
        TEST(test_files_have_a_limit),
        TEST(test_a_tenant_with_a_dot),
        TEST(test_many_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
