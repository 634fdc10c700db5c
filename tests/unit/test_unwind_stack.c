#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <errno.h>
#include <gnu/libc-version.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "unwind/lookup.h"

static struct unwind_snapshot *snapshot;

static int set_up(void **state)
{
    struct err e;
    snapshot = unwind_snapshot_build(NULL, &e);
    if (!snapshot)
        return -1;
    while (unwind_snapshot_build_table(snapshot, true))
        ;
    return 0;
}

static int tear_down(void **state)
{
    unwind_snapshot_free(snapshot);
    unwind_snapshot_free(NULL);
    return 0;
}

static struct unwind_stack_bounds own_bounds(void)
{
    pthread_attr_t attr;
    void *lo;
    size_t n;
    pthread_getattr_np(pthread_self(), &attr);
    pthread_attr_getstack(&attr, &lo, &n);
    pthread_attr_destroy(&attr);
    return (struct unwind_stack_bounds){.lo = (uintptr_t)lo, .hi = (uintptr_t)lo + n};
}

static void modules_are_described(void **state)
{
    size_t n;
    const struct unwind_module *m = unwind_snapshot_modules(snapshot, &n);
    assert_true(n >= 3);
    for (size_t i = 0; i < n; i++) {
        assert_true(m[i].start < m[i].end);
        assert_true(i == 0 || m[i - 1].end <= m[i].start);
        assert_true(m[i].path[0] == '/' || m[i].path[0] == '[');
    }
    const struct unwind_module *own = unwind_snapshot_find(snapshot, (uintptr_t)own_bounds);
    // A function of libc that no sanitizer replaces.
    const struct unwind_module *libc =
        unwind_snapshot_find(snapshot, (uintptr_t)gnu_get_libc_version);
    assert_non_null(own);
    assert_non_null(libc);
    assert_true(own != libc);
    assert_non_null(strstr(libc->path, "libc"));
    assert_int_equal(libc->n_build_id, 20);
    assert_true(step_table(libc)->n_fdes > 1000);
    assert_null(unwind_snapshot_find(snapshot, 0));
    assert_null(unwind_snapshot_find(snapshot, UINTPTR_MAX));
    assert_null(unwind_snapshot_find(snapshot, own->end));
    assert_true(unwind_snapshot_bytes(snapshot) > 10000);
}

static void tables_are_shared(void **state)
{
    struct err e;
    struct unwind_snapshot *next = unwind_snapshot_build(snapshot, &e);
    assert_non_null(next);
    const struct unwind_module *a = unwind_snapshot_find(snapshot, (uintptr_t)own_bounds);
    const struct unwind_module *b = unwind_snapshot_find(next, (uintptr_t)own_bounds);
    assert_non_null(step_table(a));
    assert_ptr_equal(a->table, b->table);
    assert_false(unwind_snapshot_stale(next));
    unwind_snapshot_free(snapshot);
    snapshot = next;
    assert_true(step_table(b)->n_rows > 0); // still there
}

#if __has_attribute(noclone)
#define ONE_COPY __attribute__((noinline, noclone))
#else
#define ONE_COPY __attribute__((noinline))
#endif

static uintptr_t caller_of_here;

static ONE_COPY size_t here(struct unwind_stack_bounds bounds, uintptr_t *pcs, size_t max,
                            struct unwind_cache *cache, enum unwind_end *why)
{
    struct unwind_regs regs;
    unwind_regs_here(&regs);
    caller_of_here = (uintptr_t)__builtin_extract_return_addr(__builtin_return_address(0));
    return unwind_stack(snapshot, &regs, bounds, pcs, max, cache, why);
}

static void walks_are_the_same(void **state)
{
    uintptr_t a[64], b[64];
    static struct unwind_cache cache;
    enum unwind_end why;
    errno = 4711;
    size_t n = 0;
    for (int way = 0; way < 5; way++) { // bounds known or not, cache cold, warm or none
        size_t got = here(way < 3 ? own_bounds() : (struct unwind_stack_bounds){0}, b, 64,
                          way ? &cache : NULL, &why);
        assert_int_equal(why, UNWIND_END_ROOT);
        if (way == 0) {
            n = got;
            memcpy(a, b, sizeof a);
        }
        assert_int_equal(got, n);
        assert_int_equal(b[1], caller_of_here - 1);
        // a compiler may make several calls of the one above
        b[1] = a[1];
        assert_memory_equal(a, b, n * sizeof *a);
    }
    assert_true(n > 4);
    assert_in_range(a[0], (uintptr_t)here, (uintptr_t)here + 400);
    errno = 4711;
    size_t got = here((struct unwind_stack_bounds){0}, b, 3, NULL, &why);
    assert_int_equal(errno, 4711);
    assert_int_equal(got, 3);
    assert_int_equal(why, UNWIND_END_TRUNCATED);
    assert_int_equal(here(own_bounds(), b, 0, NULL, &why), 0);
    assert_int_equal(here(own_bounds(), b, n, NULL, &why), n);
    assert_int_equal(why, UNWIND_END_ROOT); // it just fits
}

static const struct unwind_module *module_of(const struct unwind_snapshot *s, const void *code)
{
    return unwind_snapshot_find(s, (uintptr_t)code);
}

// A list of modules costs little. Walks read .eh_frame until the tables that they want are built.
static void tables_are_built_when_wanted(void **state)
{
    static struct unwind_cache cache;
    uintptr_t pcs[64];
    enum unwind_end why;
    struct err e;
    struct unwind_snapshot *complete = snapshot;
    snapshot = unwind_snapshot_build(NULL, &e);
    assert_non_null(snapshot);
    assert_true(unwind_snapshot_generation(snapshot) != unwind_snapshot_generation(complete));
    assert_true(unwind_snapshot_same_modules(snapshot, complete));
    const struct unwind_module *own = module_of(snapshot, own_bounds);
    const struct unwind_module *libc = module_of(snapshot, gnu_get_libc_version);
    assert_ptr_equal(own->table, UNWIND_TABLE_PENDING);
    assert_ptr_equal(libc->table, UNWIND_TABLE_PENDING);
    assert_int_equal(unwind_snapshot_take_wants(snapshot), 0);
    assert_false(unwind_snapshot_build_table(snapshot, false));

    size_t n = here(own_bounds(), pcs, 64, &cache, &why);
    assert_int_equal(why, UNWIND_END_ROOT);
    assert_true(n > 4);
    // A few lookups are cheaper than a table.
    assert_int_equal(unwind_snapshot_take_wants(snapshot), 0);
    assert_int_equal(step_most_lookups(own), STEP_LOOKUPS);
    assert_true(step_most_lookups(libc) > STEP_LOOKUPS); // it has thousands of functions
    for (uint32_t i = 0; i < step_most_lookups(libc); i++) {
        memset(&cache, 0, sizeof cache);
        assert_int_equal(here(own_bounds(), pcs, 64, &cache, &why), n);
        assert_int_equal(why, UNWIND_END_ROOT);
    }

    // No scratch, or no system calls: no way.
    struct unwind_stack_bounds confined = own_bounds();
    confined.no_calls = true;
    memset(&cache, 0, sizeof cache);
    assert_int_equal(here(own_bounds(), pcs, 64, NULL, &why), 1);
    assert_int_equal(why, UNWIND_END_PENDING);
    assert_int_equal(here(confined, pcs, 64, &cache, &why), 1);
    assert_int_equal(why, UNWIND_END_PENDING);

    assert_int_equal(unwind_snapshot_take_wants(snapshot), UNWIND_WANTS_TABLES);
    assert_int_equal(unwind_snapshot_take_wants(snapshot), 0);
    while (unwind_snapshot_build_table(snapshot, false))
        ;
    assert_non_null(step_table(own));
    assert_non_null(step_table(libc));
    assert_int_equal(here(own_bounds(), pcs, 64, NULL, &why), n);
    assert_int_equal(why, UNWIND_END_ROOT);
    assert_int_equal(unwind_snapshot_take_wants(snapshot), 0);
    size_t n_modules, pending = 0;
    const struct unwind_module *m = unwind_snapshot_modules(snapshot, &n_modules);
    for (size_t i = 0; i < n_modules; i++)
        pending += m[i].table == UNWIND_TABLE_PENDING;
    assert_true(pending > 0); // nobody has asked for the loader's
    unwind_snapshot_free(snapshot);
    snapshot = complete;
}

// Both read the same .eh_frame.
static void lookups_equal_tables(void **state)
{
    static struct unwind_cache cache;
    const struct unwind_module *m = module_of(snapshot, gnu_get_libc_version);
    const struct unwind_table *table = step_table(m);
    const struct lookup_code code = {m->start, m->end, m->header, m->n_header};
    size_t compared = 0;
    for (uintptr_t pc = m->start; pc < m->end; pc += 61) {
        struct walk w = {.snapshot = snapshot, .cache = &cache};
        unwind_rule rule = UNWIND_NONE,
                    expected = snapshot->rules[unwind_table_find(table, (uint32_t)(pc - m->start))];
        cache.lookups = 0;
        bool found = lookup_rule(&w, &code, pc, &rule);
        lookup_end(&w);
        if (unwind_rule_kind(expected) == UNWIND_GENERAL) {
            assert_true(!found || rule == STEP_LOOKED_UP);
            continue;
        }
        assert_true(found);
        assert_int_equal(rule, expected);
        compared += rule != UNWIND_NONE;
    }
    assert_true(compared > 10000);
    // Before the first function, and after the last one.
    for (int i = 0; i < 2; i++) {
        struct walk w = {.snapshot = snapshot, .cache = &cache};
        unwind_rule rule = STEP_LOOKED_UP;
        cache.lookups = 0;
        assert_true(lookup_rule(&w, &code, i ? m->end + (1 << 28) : m->start - (1 << 28), &rule));
        assert_int_equal(rule, UNWIND_NONE);
        lookup_end(&w);
    }
}

// Registers that point anywhere: nothing is read that is not there.
static void wild_registers(void **state)
{
    uintptr_t pcs[32];
    enum unwind_end why;
    static const uintptr_t wild[] = {0,
                                     1,
                                     8,
                                     4095,
                                     4096,
                                     0x7fffffffffffu,
                                     1ul << 47,
                                     UINTPTR_MAX,
                                     UINTPTR_MAX - 7,
                                     UINTPTR_MAX & ~7ul};
    uintptr_t text = (uintptr_t)own_bounds;
    for (size_t i = 0; i < sizeof wild / sizeof *wild; i++)
        for (size_t k = 0; k < sizeof wild / sizeof *wild; k++)
            for (uintptr_t pc = text; pc < text + 64; pc++) {
                struct unwind_regs regs;
                for (unsigned r = 0; r < UNWIND_REGS; r++)
                    regs.r[r] = wild[k];
                regs.r[UNWIND_REG_SP] = wild[i];
                regs.r[UNWIND_REG_PC] = pc;
                size_t n = unwind_stack(snapshot, &regs, own_bounds(), pcs, 32, NULL, &why);
                assert_true(n >= 1);
                assert_int_equal(pcs[0], pc);
                regs.r[UNWIND_REG_PC] = wild[k];
                n = unwind_stack(snapshot, &regs, own_bounds(), pcs, 32, NULL, &why);
                assert_int_equal(pcs[0], wild[k]);
            }
}

// From now on every system call but exit, write and rt_sigreturn kills the process.
static bool confine(void)
{
    static struct sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 3, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigreturn, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {sizeof program / sizeof *program, program};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

enum { NO_SECCOMP = 77 };

// Walks in a confined child: from here, and from registers that make every kind of frame ask for
// memory outside the stack. Returns its status.
static int walk_confined(struct unwind_stack_bounds bounds)
{
    static uintptr_t pcs[64];
    static struct unwind_cache cache;
    static uintptr_t elsewhere[64];
    pid_t child = fork();
    if (child == 0) {
        enum unwind_end why = UNWIND_END_COUNT;
        struct unwind_regs regs;
        uintptr_t text = (uintptr_t)own_bounds;
        int bad = 0;
        if (!confine())
            _exit(NO_SECCOMP);
        here(bounds, pcs, 64, &cache, &why);
        // Everything that it needs is on the known stack; aarch64 looks at code as well.
        bad |= why != (bounds.hi ? UNWIND_END_ROOT : UNWIND_END_UNREADABLE);
        for (uintptr_t pc = text; pc < text + 64; pc++) {
            for (unsigned r = 0; r < UNWIND_REGS; r++)
                regs.r[r] = (uintptr_t)&elsewhere[16];
            regs.r[UNWIND_REG_PC] = pc;
            bad |= unwind_stack(snapshot, &regs, bounds, pcs, 64, &cache, &why) < 1;
            bad |= why == UNWIND_END_ROOT;
            // Code without information: its return address cannot be checked.
            regs.r[UNWIND_REG_SP] = regs.r[UNWIND_REG_BP] = (uintptr_t)&regs;
            regs.r[UNWIND_REG_PC] = (uintptr_t)elsewhere;
            bad |= unwind_stack(snapshot, &regs, bounds, pcs, 64, &cache, &why) != 1;
        }
        syscall(SYS_exit_group, bad);
    }
    int status = -1;
    waitpid(child, &status, 0);
    return status;
}

static void confined_threads_make_no_calls(void **state)
{
    struct unwind_stack_bounds known = own_bounds();
    int status = walk_confined(known);
    if (WIFEXITED(status) && WEXITSTATUS(status) == NO_SECCOMP)
        skip(); // qemu-user has none
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGSYS); // so the filter works
    known.no_calls = true;
    assert_int_equal(walk_confined(known), 0);
    assert_int_equal(walk_confined((struct unwind_stack_bounds){.no_calls = true}), 0);
}

// From now on process_vm_readv fails as in old containers (EPERM) and other kernels (ENOSYS).
static bool forbid_copies(uint32_t error)
{
    struct sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {sizeof program / sizeof *program, program};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

// Bytes of an object up to the last page that can be read, and beyond.
static bool copies_at_the_edge(void)
{
    static _Alignas(65536) char p[3 * 65536];
    char *end = p + 2 * 65536;
    char to[64];
    struct walk w;
    memset(&w, 0, sizeof w);
    if (mprotect(end, 65536, PROT_NONE) != 0)
        return false;
    memset(p + 65530, 'x', 8);
    bool ok = step_copy(&w, (uintptr_t)p + 65530, to, 8) && memcmp(to, "xxxxxxxx", 8) == 0 &&
              step_copy(&w, (uintptr_t)end - 64, to, 64) &&
              !step_copy(&w, (uintptr_t)end - 63, to, 64) &&
              !step_copy(&w, (uintptr_t)end, to, 1) && !step_copy(&w, 0, to, 8) &&
              !step_copy(&w, UINTPTR_MAX - 8, to, 8) && !step_copy(&w, UINTPTR_MAX - 7, to, 8);
    return mprotect(end, 65536, PROT_READ | PROT_WRITE) == 0 && ok;
}

// Stacks are complete without a table and without process_vm_readv.
static void lookups_where_copies_are_forbidden(void **state)
{
    static const uint32_t errors[] = {EPERM, ENOSYS};
    static struct unwind_cache cache;
    uintptr_t pcs[64];
    enum unwind_end why;
    struct err e;
    void *foreign = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(foreign, MAP_FAILED);
    assert_true(copies_at_the_edge());
    struct unwind_snapshot *complete = snapshot;
    size_t n = here(own_bounds(), pcs, 64, &cache, &why);
    snapshot = unwind_snapshot_build(NULL, &e);
    assert_non_null(snapshot);
    int status[2] = {-1, -1};
    for (int i = 0; i < 2; i++) {
        pid_t child = fork();
        if (child == 0) {
            if (!forbid_copies(errors[i]))
                _exit(NO_SECCOMP);
            struct walk w;
            memset(&w, 0, sizeof w);
            // Another thread may unmap what is in no object.
            if (unwind_finds_objects() && step_copy(&w, (uintptr_t)foreign, pcs, 8))
                _exit(2);
            _exit(!copies_at_the_edge() || here(own_bounds(), pcs, 64, &cache, &why) != n ||
                  why != UNWIND_END_ROOT);
        }
        waitpid(child, &status[i], 0);
    }
    munmap(foreign, 4096);
    unwind_snapshot_free(snapshot);
    snapshot = complete;
    if (WIFEXITED(status[0]) && WEXITSTATUS(status[0]) == NO_SECCOMP)
        skip(); // qemu-user has none
    assert_int_equal(status[0], 0);
    assert_int_equal(status[1], 0);
}

// A word that begins on the last page there is.
static void the_edge_of_memory(void **state)
{
    char *p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(p, MAP_FAILED);
    mprotect(p + 4096, 4096, PROT_NONE);
    struct unwind_stack_bounds unknown = {0};
    struct walk w;
    memset(&w, 0, sizeof w);
    w.bounds = &unknown;
    uintptr_t value;
    // A page that nobody has touched is not read: the program may be the one to provide it.
    assert_false(step_load(&w, (uintptr_t)p + 4088, &value));
    *(volatile char *)p = 1;
    for (int i = 1; i < 8; i++)
        assert_false(step_load(&w, (uintptr_t)p + 4096 - (uintptr_t)i, &value));
    assert_true(step_load(&w, (uintptr_t)p + 4088, &value));
    assert_false(step_load(&w, (uintptr_t)p + 4096, &value));
    volatile uintptr_t nothing = 0;
    assert_false(step_load(&w, nothing, &value));
    assert_false(step_load(&w, nothing + 8, &value));
    munmap(p, 8192);
    w.next_page = 0;
    memset(w.pages, 0, sizeof w.pages);
    assert_false(step_load(&w, (uintptr_t)p, &value));
}

// Words of the stack may look like calls; what is in no object may be JIT code.
static void stacks_are_not_code(void **state)
{
    struct unwind_stack_bounds known = own_bounds(), unknown = {0};
    uintptr_t place = (uintptr_t)&known;
    struct walk w;
    memset(&w, 0, sizeof w);
    w.snapshot = snapshot;
    w.bounds = &known;
    assert_false(step_may_be_jit(&w, place));
    assert_false(step_may_be_jit(&w, known.hi - 1));
    w.bounds = &unknown;
    w.near = place - 256;
    assert_false(step_may_be_jit(&w, place));
    void *elsewhere = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(elsewhere, MAP_FAILED);
    if (unwind_finds_objects())
        assert_true(step_may_be_jit(&w, (uintptr_t)elsewhere));
    munmap(elsewhere, 4096);
}

static bool evaluate(uintptr_t *result, const uint8_t *p, size_t n)
{
    static uintptr_t memory[2] = {0x1234, 0x5678};
    struct unwind_stack_bounds unknown = {0};
    struct walk w;
    struct unwind_regs regs;
    memset(&w, 0, sizeof w);
    w.bounds = &unknown;
    for (unsigned i = 0; i < UNWIND_REGS; i++)
        regs.r[i] = (uintptr_t)&memory[0];
    return step_expression(&w, &regs, ~(uint64_t)2, p, n, true, 100, result);
}
#define EVALUATE(result, ...) \
    evaluate(&(result), (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}))

static void expressions(void **state)
{
    uintptr_t v;
    assert_true(EVALUATE(v, 0x96)); // nop: what was pushed
    assert_int_equal(v, 100);
    assert_true(EVALUATE(v, 0x23, 0x07)); // plus_uconst
    assert_int_equal(v, 107);
    assert_true(EVALUATE(v, 0x76, 0x08, 0x06)); // breg6 8; deref
    assert_int_equal(v, 0x5678);
    assert_true(EVALUATE(v, 0x92, 0x06, 0x00, 0x94, 0x01)); // bregx; deref_size 1
    assert_int_equal(v, 0x34);
    assert_true(EVALUATE(v, 0x3b, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22)); // as PLT entries do
    assert_int_equal(v, 108);
    assert_true(EVALUATE(v, 0x09, 0xff, 0x11, 0x7e, 0x1e)); // -1 * -2
    assert_int_equal(v, 2);
    assert_true(EVALUATE(v, 0x31, 0x28, 0x01, 0x00, 0x39, 0x96)); // bra over lit9
    assert_int_equal(v, 100);
    assert_false(EVALUATE(v, 0x2f, 0xfd, 0xff));       // a loop without end
    assert_false(EVALUATE(v, 0x13, 0x13));             // nothing left
    assert_false(EVALUATE(v, 0x30, 0x1b));             // by zero
    assert_false(EVALUATE(v, 0x71, 0x00));             // a register that is not known
    assert_false(EVALUATE(v, 0x30, 0x06));             // *0
    assert_false(EVALUATE(v, 0x12, 0x2f, 0xfc, 0xff)); // pushes without end
    assert_false(EVALUATE(v, 0x2f, 0x00, 0x10));       // out of itself
    assert_false(EVALUATE(v, 0xe0));                   // no such operation
    assert_false(EVALUATE(v, 0x0e, 0x01));             // cut off
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(modules_are_described),
        cmocka_unit_test(tables_are_shared),
        cmocka_unit_test(walks_are_the_same),
        cmocka_unit_test(wild_registers),
        cmocka_unit_test(the_edge_of_memory),
        cmocka_unit_test(stacks_are_not_code),
        cmocka_unit_test(expressions),
        cmocka_unit_test(confined_threads_make_no_calls),
        cmocka_unit_test(tables_are_built_when_wanted),
        cmocka_unit_test(lookups_equal_tables),
        cmocka_unit_test(lookups_where_copies_are_forbidden),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
