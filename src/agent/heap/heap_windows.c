// Heap profiles for the C interface: everything so far, or the difference since a window was
// opened.
#include "agent/heap/heap_windows.h"

#include <pthread.h>

#include "agent/agent.h"
#include "agent/heap/heap_source.h"
#include "model/transform.h"

enum { WINDOWS = 16 };

struct window {
    struct arena *arena; // NULL: not open yet
    struct model_profile *base;
    int number;
    bool reserved;
};

static struct window windows[WINDOWS];
static pthread_mutex_t heap_windows_lock = PTHREAD_MUTEX_INITIALIZER;

// --- fork ---

void heap_windows_before_fork(void)
{
    pthread_mutex_lock(&heap_windows_lock);
}

void heap_windows_after_fork_in_parent(void)
{
    pthread_mutex_unlock(&heap_windows_lock);
}

// The child closes windows that a thread of the parent was about to open.
void heap_windows_after_fork_in_child(void)
{
    for (int i = 0; i < WINDOWS; i++)
        windows[i].reserved = windows[i].arena;
    pthread_mutex_unlock(&heap_windows_lock);
}

// --- profiles ---

struct model_profile *heap_profile(struct arena *arena, struct err *e)
{
    const struct heap_source *source = heap_source();
    if (source)
        return source->snapshot(arena, e);
    err_set(e, "heap profiling is not available: preload or link libkiln_malloc.so, or have an "
               "allocator call kiln_heap_allocated, and call kiln_heap_start");
    return NULL;
}

// Reserves a slot; -1: none is left.
static int reserve_heap_window(void)
{
    static uint32_t opened;
    int found = -1;
    pthread_mutex_lock(&heap_windows_lock);
    for (int i = 0; i < WINDOWS && found < 0; i++)
        if (!windows[i].reserved)
            found = i;
    if (found >= 0)
        windows[found] =
            (struct window){.reserved = true, .number = window_number(&opened, found, WINDOWS)};
    pthread_mutex_unlock(&heap_windows_lock);
    return found;
}

static void free_heap_window(int place)
{
    pthread_mutex_lock(&heap_windows_lock);
    windows[place] = (struct window){0};
    pthread_mutex_unlock(&heap_windows_lock);
}

int heap_window_open(struct err *e)
{
    int place = reserve_heap_window();
    if (place < 0)
        return err_set(e, "%d windows of the heap are open already", WINDOWS);
    struct arena *arena = arena_new(0);
    struct model_profile *base = arena ? heap_profile(arena, e) : NULL;
    if (!arena)
        err_set(e, "no memory for a heap profile");
    if (!base) {
        arena_free(arena);
        free_heap_window(place);
        return -1;
    }
    pthread_mutex_lock(&heap_windows_lock);
    windows[place].arena = arena;
    windows[place].base = base;
    int number = windows[place].number;
    pthread_mutex_unlock(&heap_windows_lock);
    return number;
}

static struct window take_heap_window(int window)
{
    struct window w = {0};
    pthread_mutex_lock(&heap_windows_lock);
    int place = window % WINDOWS;
    if (window >= 0 && windows[place].arena && windows[place].number == window) {
        w = windows[place];
        windows[place] = (struct window){0};
    }
    pthread_mutex_unlock(&heap_windows_lock);
    return w;
}

// Either profile may lack the types that jemalloc does not always count.
static struct model_profile *subtract_heap_profiles(struct model_profile *now,
                                                    struct model_profile *base, bool all,
                                                    struct arena *arena, struct err *e)
{
    double minus[4] = {-1, -1, -1, -1};
    struct model_profile *both[] = {now, base};
    if (model_make_compatible(both, 2, arena, e))
        return NULL;
    for (uint32_t i = 0; !all && i < both[1]->n_types && i < 4; i++)
        if (str_starts(model_str(both[1], both[1]->types[i].type), STR("inuse_")))
            minus[i] = 0;
    both[1] = model_scale(both[1], minus, arena);
    return model_merge(both, 2, arena, e);
}

static struct model_profile *try_to_subtract_profiles(struct model_profile *now,
                                                      struct model_profile *base, bool all,
                                                      struct arena *arena, struct err *e)
{
    struct arena_trap trap;
    if (ARENA_TRY(arena, trap)) {
        arena_caught(arena, e);
        return NULL;
    }
    struct model_profile *p = subtract_heap_profiles(now, base, all, arena, e);
    if (p) {
        p->time_nanos = base->time_nanos + base->duration_nanos;
        p->duration_nanos = now->time_nanos + now->duration_nanos - p->time_nanos;
    }
    arena_try_end(arena);
    return p;
}

struct model_profile *heap_difference(struct model_profile *now, struct model_profile *base,
                                      struct arena *arena, struct err *e)
{
    return try_to_subtract_profiles(now, base, true, arena, e);
}

struct model_profile *heap_progress(struct model_profile *now, struct model_profile *base,
                                    struct arena *arena, struct err *e)
{
    return try_to_subtract_profiles(now, base, false, arena, e);
}

struct model_profile *heap_window_close(int window, struct arena *arena, struct err *e)
{
    struct window w = take_heap_window(window);
    if (!w.arena) {
        err_set(e, "heap window %d is not open", window);
        return NULL;
    }
    arena_adopt(arena, w.arena);
    struct model_profile *now = heap_profile(arena, e);
    return now ? heap_difference(now, w.base, arena, e) : NULL;
}

void heap_window_cancel(int window)
{
    struct window w = take_heap_window(window);
    arena_free(w.arena);
}
