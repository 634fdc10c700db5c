#include "harness.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <ucontext.h>
#include <unwind.h>

#ifdef WITH_LIBUNWIND
#define UNW_LOCAL_ONLY
#include <libunwind.h>
#endif

#include "stepper.h"
#include "unwind/unwind.h"

#define DEPTH 512
#define SHOWN 6

struct list {
    size_t n;
    bool cut;
    uintptr_t pc[DEPTH];
};

enum difference {
    SAME,
    OURS_LONGER,  // the oracle gave up first
    OURS_SHORTER, // ours did
    OTHER_FRAME,
    OURS_COMPLETE,  // ours reached the root, the oracle did not
    NOT_LOADED_YET, // in an object that came after the snapshot
    ORACLE_CRASHED, // libgcc reads what it is told to, wherever that is
    ORACLE_WRONG,   // by the calls and returns that were seen, ours is right
    ORACLE_LOOPS,
    BOTH_WRONG, // by the calls and returns that were seen
    DIFFERENCES
};

struct example {
    struct list ours, theirs, truth; // truth: root first
    enum unwind_end why;
};

static struct unwind_snapshot *snapshot;
static struct unwind_cache cache;
static bool lazy; // no tables: every rule comes straight from .eh_frame
static _Atomic long asked, taken;
static enum harness_oracle oracle;
static long counts[DIFFERENCES], ends[UNWIND_END_COUNT], frames, libunwind_taken, libunwind_same;
static struct example examples[SHOWN];
static int n_examples;
static long totals[DIFFERENCES], total_libunwind, total_libunwind_same;
static int passed, failed;
static uint64_t ns_ours, ns_theirs;
static uint64_t total_ours, total_theirs;
static bool use_libunwind, timed;
static uintptr_t run_begin, run_end;
static volatile long errno_changed;

static uint64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

// The bounds of the calling thread's stack, asked for outside of handlers.
static _Thread_local struct unwind_stack_bounds bounds;

static void learn_bounds(void)
{
    pthread_attr_t attr;
    void *lo;
    size_t n;
    if (bounds.hi)
        return;
    pthread_getattr_np(pthread_self(), &attr);
    pthread_attr_getstack(&attr, &lo, &n);
    pthread_attr_destroy(&attr);
    bounds = (struct unwind_stack_bounds){(uintptr_t)lo, (uintptr_t)lo + n};
}

struct gcc_walk {
    struct list *list;
    uintptr_t from; // the interrupted pc: frames before are the handler's
    bool found;
    unsigned n;
};

static _Unwind_Reason_Code on_frame(struct _Unwind_Context *context, void *data)
{
    struct gcc_walk *w = data;
    int exact = 0;
    uintptr_t pc = _Unwind_GetIPInfo(context, &exact);
    if (w->n++ == 2 * DEPTH) { // it may not even find the way out of the handler
        w->list->cut = true;
        return _URC_END_OF_STACK;
    }
    if (!w->found && !(exact && pc == w->from))
        return _URC_NO_REASON;
    w->found = true;
    if (pc == 0)
        return _URC_NO_REASON;
    if (w->list->n == DEPTH) {
        w->list->cut = true;
        return _URC_END_OF_STACK;
    }
    w->list->pc[w->list->n++] = exact ? pc : pc - 1;
    return _URC_NO_REASON;
}

#ifdef WITH_LIBUNWIND
static void by_libunwind(struct list *list, ucontext_t *uc)
{
    unw_cursor_t cursor;
    list->n = 0;
    list->cut = false;
    if (unw_init_local2(&cursor, uc, UNW_INIT_SIGNAL_FRAME) != 0)
        return;
    bool exact = true;
    do {
        unw_word_t pc;
        if (unw_get_reg(&cursor, UNW_REG_IP, &pc) != 0 || pc == 0 || list->n == DEPTH)
            break;
        list->pc[list->n++] = exact ? pc : pc - 1;
        exact = unw_is_signal_frame(&cursor) > 0;
    } while (unw_step(&cursor) > 0);
}
#endif

static enum difference compare(const struct list *ours, const struct list *theirs)
{
    size_t n = ours->n < theirs->n ? ours->n : theirs->n;
    if (memcmp(ours->pc, theirs->pc, n * sizeof *ours->pc) != 0)
        return OTHER_FRAME;
    if (ours->n == theirs->n)
        return SAME;
    return ours->n > theirs->n ? OURS_LONGER : OURS_SHORTER;
}

#ifdef WITH_LIBUNWIND
// libunwind does not say reliably whether a frame called or was interrupted.
static bool nearly_same(const struct list *ours, const struct list *theirs)
{
    for (size_t i = 0; i < ours->n && i < theirs->n; i++)
        if (ours->pc[i] - theirs->pc[i] + 1 > 2)
            return false;
    return ours->n == theirs->n;
}
#endif

// The callers of the function that is stepped through, root first, as its calls and returns
// tell, from the last stack on that both unwinders agreed upon and followed to its root.
static struct {
    struct list callers;
    uintptr_t pc; // of the instruction before
    enum stepper_last last;
    bool known;
} truth;

static void truth_step(uintptr_t pc)
{
    if (timed) {
        truth.known = false;
        return;
    }
    struct list *l = &truth.callers;
    uintptr_t return_to;
    truth.last = stepper_last(&return_to);
    switch (truth.last) {
    case STEPPER_CALL:
        truth.known = truth.known && l->n < DEPTH;
        if (truth.known)
            l->pc[l->n++] = return_to - 1;
        break;
    case STEPPER_RETURN: // signal frames are entered where they return to
        truth.known = truth.known && l->n > 0 && pc - l->pc[l->n - 1] <= 1;
        l->n -= truth.known;
        break;
    case STEPPER_UNKNOWN:
        truth.known = false;
        break;
    default:
        break;
    }
    truth.pc = pc;
}

static bool is_truth(const struct list *list)
{
    const struct list *l = &truth.callers;
    if (list->n != l->n + 1)
        return false;
    for (size_t i = 0; i < l->n; i++)
        if (l->pc[l->n - 1 - i] != list->pc[i + 1])
            return false;
    return list->pc[0] == truth.pc;
}

// libgcc changes a frame of its own when it goes on behind an exception, and then loses its way.
static bool ends_in_root(const struct list *list)
{
    return truth.known && list->n && list->pc[list->n - 1] == truth.callers.pc[0];
}

static void learn_truth(const struct list *list)
{
    struct list *l = &truth.callers;
    l->n = list->n - 1;
    for (size_t i = 0; i < l->n; i++)
        l->pc[l->n - 1 - i] = list->pc[i + 1];
    truth.known = true;
}

static sigjmp_buf oracle_crash;
static volatile sig_atomic_t in_oracle;

static void on_crash(int number)
{
    if (in_oracle)
        siglongjmp(oracle_crash, 1);
    signal(number, SIG_DFL);
}

static void take(ucontext_t *uc)
{
    static struct list ours, theirs; // one handler at a time
    struct unwind_regs regs;
    enum unwind_end why;
    int old = errno;
    errno = 7777;
    if (lazy)
        memset(cache.word, 0, sizeof cache.word);
    uint64_t t0 = now();
    unwind_regs_from_ucontext(&regs, uc);
    ours.n = unwind_stack(snapshot, &regs, bounds, ours.pc, DEPTH, &cache, &why);
    uint64_t t1 = now();
    if (errno != 7777)
        errno_changed++;
    theirs.n = 0;
    theirs.cut = false;
    truth_step(regs.r[UNWIND_REG_PC]);
    enum difference d = SAME;
    if (oracle != ORACLE_ROOT) {
        struct gcc_walk w = {.list = &theirs, .from = regs.r[UNWIND_REG_PC]};
        volatile bool crashed = true;
        if (sigsetjmp(oracle_crash, 0) == 0) {
            in_oracle = 1;
            _Unwind_Backtrace(on_frame, &w);
            crashed = false;
        }
        in_oracle = 0;
        ns_theirs += now() - t1;
        ns_ours += t1 - t0;
        d = compare(&ours, &theirs);
        if (theirs.cut && d != SAME)
            d = ORACLE_LOOPS;
        if (crashed)
            d = ORACLE_CRASHED;
        if (d == OURS_LONGER && why == UNWIND_END_ROOT)
            d = OURS_COMPLETE;
        if (d == OTHER_FRAME && ends_in_root(&ours) && !ends_in_root(&theirs))
            d = OURS_COMPLETE;
        if (d == OURS_SHORTER && why == UNWIND_END_UNKNOWN_PC && oracle == ORACLE_LIBGCC_LOADER)
            d = NOT_LOADED_YET;
        bool right = truth.known && is_truth(&ours);
        if (right && d != SAME)
            d = ORACLE_WRONG;
        else if (truth.known && !right && d == SAME && why != UNWIND_END_ROOT)
            d = BOTH_WRONG;
        else if (d == SAME && why == UNWIND_END_ROOT)
            learn_truth(&ours);
    } else {
        d = OURS_SHORTER;
        for (size_t i = 0; i < ours.n; i++)
            if (ours.pc[i] >= run_begin && ours.pc[i] < run_end && why == UNWIND_END_ROOT)
                d = SAME;
        if (truth.known)
            d = is_truth(&ours) ? SAME : OTHER_FRAME;
        else if (d == SAME && truth.last == STEPPER_UNKNOWN)
            learn_truth(&ours);
    }
#ifdef WITH_LIBUNWIND
    if (use_libunwind && oracle == ORACLE_LIBGCC && taken % 16 == 0) {
        static struct list other;
        by_libunwind(&other, uc);
        libunwind_taken++;
        libunwind_same += nearly_same(&ours, &other);
    }
#endif
    counts[d]++;
    ends[why]++;
    frames += (long)ours.n;
    if ((d < OURS_COMPLETE || d == BOTH_WRONG) && d != SAME && n_examples < SHOWN) {
        examples[n_examples].ours = ours;
        examples[n_examples].theirs = theirs;
        examples[n_examples].truth.n = 0;
        if (truth.known)
            examples[n_examples].truth = truth.callers;
        examples[n_examples++].why = why;
    }
    taken++;
    errno = old;
}

static bool take_step(ucontext_t *uc)
{
    if (taken < asked)
        take(uc);
    return taken < asked;
}

static void on_trap(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)info;
    stepper_trap(context, take_step);
}

static void on_tick(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)info;
    static atomic_flag busy = ATOMIC_FLAG_INIT;
    if (taken < asked && bounds.hi && !atomic_flag_test_and_set(&busy)) { // a thread that we know
        take(context);
        atomic_flag_clear(&busy);
    }
}

void harness_step_on(void)
{
    learn_bounds();
    if (taken < asked && !timed)
        stepper_on();
}

void harness_step_off(void)
{
    stepper_off();
}

bool harness_done(void)
{
    return taken >= asked;
}

void harness_refresh(void)
{
    struct err e;
    // Without tables the first list of modules must do: walks ask the loader about new objects.
    lazy = getenv("HARNESS_LAZY") != NULL;
    if (lazy && snapshot && unwind_finds_objects())
        return;
    struct unwind_snapshot *next = unwind_snapshot_build(snapshot, &e);
    if (!next) {
        fprintf(stderr, "%s\n", e.message);
        exit(1);
    }
    unwind_snapshot_free(snapshot);
    snapshot = next;
    while (!lazy && unwind_snapshot_build_table(snapshot, true))
        ;
}

static void install(int number, void (*handler)(int, siginfo_t *, void *))
{
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigfillset(&action.sa_mask);
    sigdelset(&action.sa_mask, SIGSEGV);
    sigdelset(&action.sa_mask, SIGBUS);
    sigaction(number, &action, NULL);
    struct sigaction crash = {.sa_handler = on_crash, .sa_flags = SA_NODEFER};
    sigaction(SIGSEGV, &crash, NULL);
    sigaction(SIGBUS, &crash, NULL);
}

static void show_list(const char *who, const struct list *l)
{
    printf("    %s:", who);
    for (size_t i = 0; i < l->n && i < 24; i++) {
        Dl_info info;
        const char *file = "?";
        if (dladdr((void *)l->pc[i], &info) && info.dli_fname) {
            file = strrchr(info.dli_fname, '/');
            file = file ? file + 1 : info.dli_fname;
            printf(
                " %s:%s+%#lx", file, info.dli_sname ? info.dli_sname : "",
                (long)(l->pc[i] - (uintptr_t)(info.dli_sname ? info.dli_saddr : info.dli_fbase)));
        } else {
            printf(" %#lx", (long)l->pc[i]);
        }
    }
    printf("\n");
}

static void report(const char *name)
{
    long all = 0;
    for (int i = 0; i < DIFFERENCES; i++)
        all += counts[i];
    long bad = counts[OURS_LONGER] + counts[OURS_SHORTER] + counts[OTHER_FRAME];
    // A piece fails when more than one context in 10,000 differs.
    // What glibc says about longjmp is wrong while it works.
    bool ok = all > 0 && bad * 10000 <= all && counts[BOTH_WRONG] * 20 <= all && !errno_changed;
    printf("%s %-28s %8ld %s contexts, %5.1f frames, %ld differ", ok ? "ok  " : "FAIL", name, all,
           timed ? "timed  " : "stepped", all ? (double)frames / (double)all : 0.0, bad);
    if (bad)
        printf(" (longer %ld, shorter %ld, other %ld)", counts[OURS_LONGER], counts[OURS_SHORTER],
               counts[OTHER_FRAME]);
    if (counts[OURS_COMPLETE])
        printf(", %ld complete where libgcc's is not", counts[OURS_COMPLETE]);
    if (libunwind_same != libunwind_taken)
        printf(", libunwind differs on %ld of %ld", libunwind_taken - libunwind_same,
               libunwind_taken);
    if (counts[ORACLE_WRONG])
        printf(", %ld right where libgcc is wrong", counts[ORACLE_WRONG]);
    if (counts[BOTH_WRONG])
        printf(", %ld where both are wrong", counts[BOTH_WRONG]);
    if (counts[ORACLE_CRASHED])
        printf(", %ld where libgcc crashed", counts[ORACLE_CRASHED]);
    if (counts[ORACLE_LOOPS])
        printf(", %ld where libgcc does not end", counts[ORACLE_LOOPS]);
    if (counts[NOT_LOADED_YET])
        printf(", %ld in objects loaded since", counts[NOT_LOADED_YET]);
    for (int i = 1; i < UNWIND_END_COUNT; i++)
        if (ends[i])
            printf(", %s %ld", unwind_end_name(i), ends[i]);
    printf("\n");
    for (int i = 0; i < n_examples && !ok; i++) {
        printf("    ended by: %s\n", unwind_end_name(examples[i].why));
        show_list("ours  ", &examples[i].ours);
        show_list("theirs", &examples[i].theirs);
        show_list("callers, root first", &examples[i].truth);
    }
    *(ok ? &passed : &failed) += 1;
    if (oracle != ORACLE_ROOT) {
        for (int i = 0; i < DIFFERENCES; i++)
            totals[i] += counts[i];
        if (timed) {
            total_ours += ns_ours;
            total_theirs += ns_theirs;
        }
    }
    total_libunwind += libunwind_taken;
    total_libunwind_same += libunwind_same;
}

static void begin(enum harness_oracle o, long contexts, bool by_timer)
{
    timed = by_timer;
    struct gcc_walk w = {.list = &(struct list){0}, .from = 0};
    if (!snapshot || unwind_snapshot_stale(snapshot))
        harness_refresh();
    learn_bounds();
    _Unwind_Backtrace(on_frame, &w); // its own initialization is not for a handler
    use_libunwind = getenv("HARNESS_LIBUNWIND") != NULL;
    oracle = o;
    memset(counts, 0, sizeof counts);
    memset(ends, 0, sizeof ends);
    frames = n_examples = 0;
    libunwind_taken = libunwind_same = 0;
    ns_ours = ns_theirs = 0;
    taken = 0;
    asked = contexts;
}

__attribute__((noinline)) void harness_run(const char *name, void (*work)(void),
                                           enum harness_oracle o, long contexts)
{
    install(SIGTRAP, on_trap);
    run_begin = (uintptr_t)harness_run;
    run_end = run_begin + 0x200;
    begin(o, contexts, false);
    while (taken < asked) {
        long before = taken;
        harness_step_on();
        work();
        harness_step_off();
        if (taken == before)
            break;
    }
    report(name);
}

__attribute__((noinline)) void harness_run_timed(const char *name, void (*work)(void),
                                                 enum harness_oracle o, long contexts)
{
    install(SIGPROF, on_tick);
    run_begin = (uintptr_t)harness_run_timed;
    run_end = run_begin + 0x200;
    begin(o, contexts, true);
    struct itimerval on = {{0, 1000}, {0, 1000}}, off = {{0, 0}, {0, 0}};
    setitimer(ITIMER_PROF, &on, NULL);
    uint64_t deadline = now() + 20000000000u;
    while (taken < asked && now() < deadline)
        work();
    setitimer(ITIMER_PROF, &off, NULL);
    report(name);
}

int harness_finish(void)
{
    // What no snapshot has is not the unwinder's to know; a crash is no answer, nor is an error.
    long same = totals[SAME] + totals[BOTH_WRONG];
    long comparable = same + totals[OURS_LONGER] + totals[OURS_SHORTER] + totals[OTHER_FRAME];
    if (comparable) {
        printf(
            "identical to libgcc: %ld of %ld contexts, %.4f %% (goal 99.99); of others libgcc "
            "did not reach the root on %ld, was wrong on %ld, crashed on %ld, did not end on %ld\n",
            same, comparable, 100.0 * (double)same / (double)comparable, totals[OURS_COMPLETE],
            totals[ORACLE_WRONG], totals[ORACLE_CRASHED], totals[ORACLE_LOOPS]);
        if (total_libunwind)
            printf("identical to libunwind: %ld of %ld\n", total_libunwind_same, total_libunwind);
        if (total_ours)
            printf("time in timed handlers / libgcc's: 1/%.1f (goal 1/4)\n",
                   (double)total_theirs / (double)total_ours);
    }
    printf("%d passed, %d failed\n", passed, failed);
    unwind_snapshot_free(snapshot);
    snapshot = NULL;
    return failed;
}
