// The unwind tables that handlers read. The module list is rebuilt when objects are loaded or
// unloaded, tables are built when handlers request them, and old ones are freed when no handler
// reads them any more.
#include "capture/tables.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "capture/heap_tables.h"
#include "capture/thread.h"
#include "process/sandbox.h"

// Keeps a snapshot from being freed while code other than a handler reads it.
static pthread_mutex_t snapshot_lock = PTHREAD_MUTEX_INITIALIZER;
// Held while new tables are built, for CPU or heap samples.
static pthread_mutex_t refresh_lock = PTHREAD_MUTEX_INITIALIZER;
// Held while asking the loader which objects are loaded.
static pthread_mutex_t loader_lock = PTHREAD_MUTEX_INITIALIZER;

static bool wait_until_outside(_Atomic uint32_t *inside, uint64_t begin)
{
    while (atomic_load(inside)) {
        if (process_now_ns() - begin > 1000000000u)
            return false;
        process_sleep_ns(100000);
    }
    return true;
}

// Waits until each thread was seen outside of its handler once; then no handler reads a replaced
// snapshot. Returns false after a timeout: a thread was stopped inside, or gets no CPU time.
static bool wait_for_readers(void)
{
    uint64_t begin = process_now_ns();
    EACH_SLOT(t)
    if (!wait_until_outside(&t->inside, begin))
        return false;
    for (uint32_t i = 0; heap_tables.scratches && i < heap_tables.n_scratches; i++)
        if (!wait_until_outside(&heap_tables.scratches[i].busy, begin))
            return false;
    return true;
}

// Frees a replaced snapshot, now or later when no handler reads it.
static void retire_snapshot(const struct unwind_snapshot *old)
{
    enum { MOST = 16 };
    static const struct unwind_snapshot *retired[MOST];
    static unsigned n;
    bool free_now = wait_for_readers();
    if (!free_now && n < MOST)
        retired[n++] = old; // if there are more, they are leaked
    for (; free_now && n > 0; n--)
        unwind_snapshot_free((struct unwind_snapshot *)retired[n - 1]);
    if (free_now)
        unwind_snapshot_free((struct unwind_snapshot *)old);
}

// When to search for code that no module explains, mostly JIT code. It may stay unexplained, so the
// pause doubles with each search that finds nothing.
enum { LEAST_PAUSE_MS = 20, MOST_PAUSE_MS = 5000 };
static struct {
    uint64_t last, pause; // ns
} search = {.pause = LEAST_PAUSE_MS * UINT64_C(1000000)};

static bool search_is_due(void)
{
    return process_now_ns() - search.last >= search.pause;
}

static void end_search(uint64_t begin, bool found)
{
    search.last = process_now_ns();
    uint64_t least = (search.last - begin) * 50; // at most 2 % of a CPU
    if (least < LEAST_PAUSE_MS * UINT64_C(1000000))
        least = LEAST_PAUSE_MS * UINT64_C(1000000);
    search.pause = found ? least : search.pause * 2;
    if (search.pause > MOST_PAUSE_MS * UINT64_C(1000000))
        search.pause = MOST_PAUSE_MS * UINT64_C(1000000);
}

// Hold our loader lock, so that a fork never sees a half-built table. Release it after each table,
// so that a fork need not wait for all.
static void build_wanted_tables(const struct unwind_snapshot *snapshot, bool all)
{
    bool built;
    do {
        pthread_mutex_lock(&loader_lock);
        built = unwind_snapshot_build_table(snapshot, all);
        pthread_mutex_unlock(&loader_lock);
    } while (built);
}

static int refresh_modules(unsigned wants, struct err *e)
{
    const struct unwind_snapshot *old = atomic_load(&capture_state.snapshot);
    uint64_t begin = process_now_ns();
    pthread_mutex_lock(&loader_lock);
    bool stale = !old || unwind_snapshot_stale(old);
    bool searching = !stale && (wants & UNWIND_WANTS_MODULES) && search_is_due();
    struct unwind_snapshot *fresh = stale || searching ? unwind_snapshot_build(old, e) : NULL;
    pthread_mutex_unlock(&loader_lock);
    if (!fresh)
        return stale || searching ? -1 : 0;
    if (searching) {
        bool found = !unwind_snapshot_same_modules(old, fresh);
        end_search(begin, found);
        if (!found) {
            unwind_snapshot_free(fresh);
            return 0;
        }
    }
    capture_hold();
    atomic_store(&capture_state.snapshot, fresh);
    retire_snapshot(old);
    capture_release();
    return 1;
}

static int refresh_locked(struct err *e)
{
    const struct unwind_snapshot *snapshot = atomic_load(&capture_state.snapshot);
    unsigned wants = snapshot ? unwind_snapshot_take_wants(snapshot) : 0;
    int result = refresh_modules(wants, e);
    if (wants & UNWIND_WANTS_TABLES)
        build_wanted_tables(atomic_load(&capture_state.snapshot), false);
    return result;
}

// Checking thousands of objects takes long and holds the loader's lock. Use one SHAREth of a CPU.
enum { SHARE = 20 };
static _Atomic uint64_t next_refresh; // on the monotonic clock

uint64_t capture_next_refresh(void)
{
    return atomic_load(&next_refresh);
}

static int refresh_rate_limited(void)
{
    if (process_now_ns() < atomic_load(&next_refresh))
        return 0;
    uint64_t cpu = process_thread_cpu_ns(0);
    int result = tables_refresh(NULL);
    atomic_store(&next_refresh, process_now_ns() + (process_thread_cpu_ns(0) - cpu) * SHARE);
    return result;
}

int tables_refresh(struct err *e)
{
    pthread_mutex_lock(&refresh_lock);
    int result = refresh_locked(e);
    pthread_mutex_unlock(&refresh_lock);
    return result;
}

bool tables_stale(const struct unwind_snapshot *snapshot)
{
    pthread_mutex_lock(&loader_lock);
    bool stale = unwind_snapshot_stale(snapshot);
    pthread_mutex_unlock(&loader_lock);
    return stale;
}

void tables_complete(void)
{
    pthread_mutex_lock(&refresh_lock);
    const struct unwind_snapshot *snapshot = atomic_load(&capture_state.snapshot);
    if (snapshot)
        build_wanted_tables(snapshot, true);
    pthread_mutex_unlock(&refresh_lock);
}

int capture_heap_refresh(struct err *e)
{
    if (sandbox_scope() == SANDBOX_ALL_THREADS)
        return 0;
    return tables_refresh(e) < 0 ? -1 : 0;
}

void capture_heap_keep_up(void)
{
    if (sandbox_scope() != SANDBOX_ALL_THREADS)
        refresh_rate_limited();
}

void capture_hold(void)
{
    pthread_mutex_lock(&snapshot_lock);
}

void capture_release(void)
{
    pthread_mutex_unlock(&snapshot_lock);
}

void capture_keep_handler(void)
{
    if (atomic_load(&capture_state.running) && sandbox_scope() != SANDBOX_ALL_THREADS)
        handler_keep();
}

bool capture_refresh(void)
{
    if (!atomic_load(&capture_state.running) || sandbox_scope() == SANDBOX_ALL_THREADS)
        return false;
    atomic_store(&capture_state.refresher, (int32_t)syscall(SYS_gettid));
    return refresh_rate_limited() > 0;
}

const struct unwind_snapshot *capture_snapshot(void)
{
    return atomic_load(&capture_state.snapshot);
}

// pthread_mutex_timedlock would use the wall clock.
bool tables_hold_loader(void)
{
    enum { TRIES = 400, TRY_NS = 500000 };
    for (int i = 0; i < TRIES; i++) {
        if (pthread_mutex_trylock(&loader_lock) == 0)
            return true;
        if (sandbox_confines_caller())
            return false;
        process_sleep_ns(TRY_NS);
    }
    return false;
}

void tables_release_loader(void)
{
    pthread_mutex_unlock(&loader_lock);
}

void tables_after_fork_in_child(void)
{
    snapshot_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    refresh_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    loader_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}
