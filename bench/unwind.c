// Figures of the unwind module and their goals.
//
// usage: unwind [OBJECT...]
// Builds the tables of each object, then walks its own stack.
#include <elf.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <unwind.h>

#ifdef WITH_LIBUNWIND
#define UNW_LOCAL_ONLY
#include <libunwind.h>
#endif

#include "unwind/object.h"
#include "unwind/table.h"
#include "unwind/unwind.h"

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static const char *verdict(bool met)
{
    return met ? "met" : "MISSED";
}

static void bench_table(const char *path)
{
    int fd = open(path, O_RDONLY);
    Elf64_Ehdr h;
    if (fd < 0 || pread(fd, &h, sizeof h, 0) != sizeof h || h.e_phentsize != sizeof(Elf64_Phdr)) {
        printf("%-28s not readable\n", path);
        if (fd >= 0)
            close(fd);
        return;
    }
    struct unwind_rules *rules = unwind_rules_new();
    struct object_frames frames;
    if (!rules || object_from_file(&frames, path, 0, NULL, 0) != 0) {
        printf("%-28s no unwind information\n", path);
        close(fd);
        return;
    }
    size_t rows = 0, bytes = 0, fdes = 0, text = 0;
    double best = 1e18;
    for (int round = 0; round < 3; round++) {
        double t0 = now();
        rows = bytes = fdes = text = 0;
        for (unsigned i = 0; i < h.e_phnum; i++) {
            Elf64_Phdr ph;
            if (pread(fd, &ph, sizeof ph, (off_t)(h.e_phoff + i * sizeof ph)) != sizeof ph ||
                ph.p_type != PT_LOAD || !(ph.p_flags & PF_X))
                continue;
            uint64_t base = ph.p_vaddr & ~(uint64_t)4095;
            struct unwind_table *t =
                unwind_table_build(&frames.in, base, ph.p_vaddr + ph.p_memsz, rules);
            if (!t)
                continue;
            rows += t->n_rows;
            fdes += t->n_fdes;
            bytes += unwind_table_bytes(t);
            text += ph.p_memsz;
            unwind_table_free(t);
        }
        double t = now() - t0;
        best = t < best ? t : best;
    }
    bytes += rules->n * sizeof *rules->rule + rules->n_pool;
    const char *name = strrchr(path, '/');
    double per_row = (double)bytes / (double)rows,
           ratio = (double)bytes / (double)frames.in.frame.n, us = best / 1000 / (double)fdes;
    unsigned general = 0, registers = 0;
    for (uint32_t i = 0; i < rules->n; i++)
        if (unwind_rule_kind(rules->rule[i]) == UNWIND_GENERAL) {
            const struct unwind_general *g =
                (void *)(rules->pool + unwind_rule_cfa(rules->rule[i]));
            general++;
            registers |= g->cfa_expression ? 0 : 1u << g->cfa_register;
        }
    printf("%-24.24s %6.1f MB text %7zu FDEs %8zu rows %5u rules (%u long, CFA registers %#x)\n"
           "%-24s %.2f B a row (goal 4.5: %s), %.2f x .eh_frame (goal 0.85: %s), %.3f us an FDE "
           "(goal 1: %s), %.1f ms, %.1f MB\n",
           name ? name + 1 : path, (double)text / 1e6, fdes, rows, rules->n, general, registers, "",
           per_row, verdict(per_row <= 4.5), ratio, verdict(ratio <= 0.85), us, verdict(us <= 1),
           best / 1e6, (double)bytes / 1e6);
    object_frames_fini(&frames);
    unwind_rules_free(rules);
    close(fd);
}

#define DEPTH 256
static struct unwind_snapshot *snapshot;
static struct unwind_cache cache;
static struct unwind_stack_bounds bounds;
static volatile uintptr_t sink;
static uintptr_t pcs[DEPTH];

static _Unwind_Reason_Code on_frame(struct _Unwind_Context *context, void *data)
{
    size_t *n = data;
    if (*n == DEPTH)
        return _URC_END_OF_STACK;
    pcs[(*n)++] = _Unwind_GetIP(context);
    return _URC_NO_REASON;
}

enum way { PLAIN, CACHED, LIBGCC, LIBUNWIND, WAYS };
static double ns_frame[WAYS];

static size_t walk(enum way way)
{
    size_t n = 0;
    struct unwind_regs regs;
    switch (way) {
    case PLAIN:
    case CACHED:
        unwind_regs_here(&regs);
        n = unwind_stack(snapshot, &regs, bounds, pcs, DEPTH, way == CACHED ? &cache : NULL, NULL);
        break;
    case LIBGCC:
        _Unwind_Backtrace(on_frame, &n);
        break;
    default: {
#ifdef WITH_LIBUNWIND
        unw_context_t context;
        unw_cursor_t cursor;
        unw_getcontext(&context);
        unw_init_local(&cursor, &context);
        do {
            unw_word_t pc;
            unw_get_reg(&cursor, UNW_REG_IP, &pc);
            pcs[n++] = pc;
        } while (n < DEPTH && unw_step(&cursor) > 0);
#endif
    }
    }
    return n;
}

static __attribute__((noinline)) void measure(void)
{
    for (int round = 0; round < 5; round++)
        for (enum way way = PLAIN; way < WAYS; way++) {
            int times = way <= CACHED ? 20000 : 1500;
            size_t n = walk(way);
            double t0 = now();
            for (int i = 0; i < times; i++)
                sink += walk(way);
            double ns = (now() - t0) / times / (double)(n ? n : 1);
            if (round == 0 || ns < ns_frame[way])
                ns_frame[way] = ns;
        }
}

// Forty functions with distinct frame sizes.
static int (*volatile next_function)(int);
#define FRAME(i)                                                    \
    static __attribute__((noinline)) int frame_##i(int n)           \
    {                                                               \
        volatile char room[8 * i + 1];                              \
        room[i] = (char)n;                                          \
        int result = n == 0 ? (measure(), 0) : chain[n - 1](n - 1); \
        return result + room[i];                                    \
    }
#define TEN(M, t) M(t##0) M(t##1) M(t##2) M(t##3) M(t##4) M(t##5) M(t##6) M(t##7) M(t##8) M(t##9)
static int (*chain[40])(int);
TEN(FRAME, 1)
TEN(FRAME, 2)
TEN(FRAME, 3)
TEN(FRAME, 4)
#define NAME(i) frame_##i,
static void fill_chain(void)
{
    int (*all[])(int) = {TEN(NAME, 1) TEN(NAME, 2) TEN(NAME, 3) TEN(NAME, 4)};
    memcpy(chain, all, sizeof all);
}

int main(int argc, char **argv)
{
    struct err e;
    for (int i = 1; i < argc; i++)
        bench_table(argv[i]);
    double t0 = now();
    snapshot = unwind_snapshot_build(NULL, &e);
    double t1 = now();
    if (!snapshot) {
        fprintf(stderr, "%s\n", e.message);
        return 1;
    }
    while (unwind_snapshot_build_table(snapshot, true))
        ;
    double tables = now();
    struct unwind_snapshot *again = unwind_snapshot_build(snapshot, &e);
    double t2 = now();
    size_t n;
    unwind_snapshot_modules(snapshot, &n);
    printf("snapshot of this process: %zu modules, %zu KB, list %.2f ms, tables %.2f ms, list "
           "again %.2f ms\n",
           n, unwind_snapshot_bytes(snapshot) / 1024, (t1 - t0) / 1e6, (tables - t1) / 1e6,
           (t2 - tables) / 1e6);
    unwind_snapshot_free(again);
    pthread_attr_t attr;
    void *lo;
    size_t size;
    pthread_getattr_np(pthread_self(), &attr);
    pthread_attr_getstack(&attr, &lo, &size);
    pthread_attr_destroy(&attr);
    bounds = (struct unwind_stack_bounds){(uintptr_t)lo, (uintptr_t)lo + size};
    fill_chain();
    next_function = chain[39];
    next_function(39);
    printf("ns a frame, warm, 45 frames: table %.1f, with cache %.1f, libgcc %.1f", ns_frame[PLAIN],
           ns_frame[CACHED], ns_frame[LIBGCC]);
#ifdef WITH_LIBUNWIND
    printf(", libunwind %.1f", ns_frame[LIBUNWIND]);
#endif
    double ratio = ns_frame[LIBGCC] / ns_frame[CACHED];
    printf("\nwith cache / libgcc: 1/%.1f (goal 1/12: %s)\n", ratio, verdict(ratio >= 12));
    unwind_snapshot_free(snapshot);
    return 0;
}
