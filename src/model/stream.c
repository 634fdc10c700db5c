#include "model/stream.h"

#include <pthread.h>

// Ranges of decoded samples, and the number of samples from which threads pay off.
enum { RANGE = 1 << 14, WORTH_THREADS = 100000 };

unsigned model_window_workers(const struct model_profile *p)
{
    bool small = !p->stream && p->n_samples < WORTH_THREADS && !parallel_is_explicit();
    return small ? 1 : parallel_threads();
}

struct window_visit {
    const struct model_profile *p;
    unsigned what;
    size_t range; // samples per window of decoded columns
    void (*visit)(void *context, struct parallel_worker *worker, const struct model_profile *window,
                  size_t first);
    void *context;
    struct window_output *output;                // NULL, or where visit's output goes
    struct model_window *windows[PARALLEL_MOST]; // by worker
};

// --- output in order ---

// A worker writes to one of its buffers. Whichever worker has completed the next window passes the
// buffers on, in the order of the windows.
enum { BUFFERS = 4 };

struct window_buffer {
    struct out text;
    size_t index; // of its window
    bool is_used;
};

struct window_output {
    void (*write)(void *context, struct parallel_worker *worker, const struct model_profile *window,
                  size_t first, struct out *text);
    void (*take)(void *context, struct str text);
    void *context;
    struct arena *arena;  // the caller's; take may use it
    pthread_mutex_t lock; // protects everything below
    pthread_cond_t moved;
    size_t next; // the window to pass on
    bool is_moving, has_failed;
    struct window_buffer **waiting; // by index modulo n_waiting
    size_t n_waiting;
    struct window_buffer buffers[PARALLEL_MOST][BUFFERS];
};

// Returns an unused buffer of the worker, or NULL if another worker failed. There is one soon: the
// buffers in use have lower indices than the window that this worker is about to write.
static struct window_buffer *take_buffer(struct window_output *o, struct parallel_worker *worker)
{
    struct window_buffer *buffer = NULL;
    pthread_mutex_lock(&o->lock);
    while (!o->has_failed && !buffer) {
        for (int i = 0; i < BUFFERS && !buffer; i++)
            if (!o->buffers[worker->index][i].is_used)
                buffer = &o->buffers[worker->index][i];
        if (!buffer)
            pthread_cond_wait(&o->moved, &o->lock);
    }
    if (buffer)
        buffer->is_used = true;
    pthread_mutex_unlock(&o->lock);
    return buffer;
}

static struct window_buffer *next_buffer(const struct window_output *o)
{
    struct window_buffer *buffer = o->waiting[o->next % o->n_waiting];
    return buffer && buffer->index == o->next ? buffer : NULL;
}

// Returns false with e filled if take fails.
static bool take_text(struct window_output *o, struct str text, struct err *e)
{
    struct arena_trap trap;
    if (ARENA_TRY(o->arena, trap)) {
        arena_caught(o->arena, e);
        return false;
    }
    o->take(o->context, text);
    arena_try_end(o->arena);
    return true;
}

// Returns false with e filled if take fails.
static bool pass_on(struct window_output *o, struct window_buffer *done, struct err *e)
{
    struct window_buffer *buffer;
    bool taken = true;
    pthread_mutex_lock(&o->lock);
    o->waiting[done->index % o->n_waiting] = done;
    if (!o->is_moving) {
        o->is_moving = true;
        while (taken && (buffer = next_buffer(o))) {
            pthread_mutex_unlock(&o->lock);
            taken = take_text(o, out_result(&buffer->text), e);
            pthread_mutex_lock(&o->lock);
            o->waiting[o->next % o->n_waiting] = NULL;
            o->next++;
            buffer->is_used = false;
            pthread_cond_broadcast(&o->moved);
        }
        o->is_moving = !taken;
    }
    pthread_mutex_unlock(&o->lock);
    return taken;
}

static bool write_in_order(struct window_visit *v, struct parallel_worker *worker, size_t index,
                           const struct model_profile *window, size_t first)
{
    struct window_output *o = v->output;
    struct window_buffer *buffer = take_buffer(o, worker);
    if (!buffer)
        return false;
    if (!buffer->text.arena)
        out_init_arena(&buffer->text, worker->arena);
    buffer->text.n = 0;
    buffer->index = index;
    struct err e;
    o->write(v->context, worker, window, first, &buffer->text);
    if (!pass_on(o, buffer, &e))
        arena_fail(worker->arena, "%s", e.message);
    return true;
}

// --- windows ---

static bool visit_window(struct window_visit *v, struct parallel_worker *worker, size_t index,
                         const struct model_profile *window, size_t first)
{
    if (v->output)
        return write_in_order(v, worker, index, window, first);
    v->visit(v->context, worker, window, first);
    return true;
}

static bool visit_encoded_window(void *context, struct parallel_worker *worker, size_t index)
{
    struct window_visit *v = context;
    struct model_window **window = &v->windows[worker->index];
    if (!*window) {
        *window = arena_alloc(worker->arena, sizeof **window);
        (*window)->arena = worker->arena;
    }
    v->p->stream->read(v->p->stream, index, v->what, *window);
    // Mappings, locations, ... may have been replaced since the stream was created.
    struct model_profile p = *v->p;
    p.stream = NULL;
    p.n_samples = (*window)->p.n_samples;
    p.values = (*window)->p.values;
    p.stacks = (*window)->p.stacks;
    p.stack_len = (*window)->p.stack_len;
    p.label_set = (*window)->p.label_set;
    p.label_sets = (*window)->p.label_sets;
    p.labels = (*window)->p.labels;
    p.n_label_sets = (*window)->p.n_label_sets;
    p.n_labels = (*window)->p.n_labels;
    p.squares = (*window)->p.squares;
    return visit_window(v, worker, index, &p, (*window)->first);
}

static bool visit_range(void *context, struct parallel_worker *worker, size_t index)
{
    struct window_visit *v = context;
    size_t first = index * v->range, n = v->p->n_samples - first;
    struct model_profile p = *v->p;
    p.n_samples = n < v->range ? n : v->range;
    p.values += first * p.n_types;
    p.stacks += first;
    p.stack_len += first;
    p.label_set += p.label_set ? first : 0;
    p.squares += p.squares ? first : 0;
    return visit_window(v, worker, index, &p, first);
}

// Tells workers that wait for a buffer if this one fails: its window would never be passed on.
static bool visit_in_order(void *context, struct parallel_worker *worker, size_t index)
{
    const struct window_visit *v = context;
    struct window_output *o = v->output;
    struct arena_trap trap;
    struct err e;
    if (ARENA_TRY(worker->arena, trap)) {
        arena_caught(worker->arena, &e);
        pthread_mutex_lock(&o->lock);
        o->has_failed = true;
        pthread_cond_broadcast(&o->moved);
        pthread_mutex_unlock(&o->lock);
        arena_fail(worker->arena, "%s", e.message);
    }
    bool goes_on = v->p->stream ? visit_encoded_window(context, worker, index)
                                : visit_range(context, worker, index);
    arena_try_end(worker->arena);
    return goes_on;
}

static void visit_windows(struct window_visit *v, struct arena *arena, unsigned n_workers)
{
    const struct model_profile *p = v->p;
    if (p->stream) {
        parallel_run(arena, n_workers, p->stream->n_windows,
                     v->output ? visit_in_order : visit_encoded_window, v);
    } else if (p->n_samples) {
        v->range = n_workers == 1 && !v->output       ? p->n_samples
                   : p->n_samples < RANGE * n_workers ? (p->n_samples + n_workers - 1) / n_workers
                                                      : RANGE;
        parallel_run(arena, n_workers, (p->n_samples + v->range - 1) / v->range,
                     v->output ? visit_in_order : visit_range, v);
    }
}

void model_each_window(const struct model_profile *p, struct arena *arena, unsigned what,
                       void (*visit)(void *context, struct parallel_worker *worker,
                                     const struct model_profile *window, size_t first),
                       void *context)
{
    struct window_visit v = {.p = p, .what = what, .visit = visit, .context = context};
    visit_windows(&v, arena, model_window_workers(p));
}

void model_each_in_order(const struct model_profile *p, struct arena *arena, unsigned what,
                         void (*write)(void *context, struct parallel_worker *worker,
                                       const struct model_profile *window, size_t first,
                                       struct out *text),
                         void (*take)(void *context, struct str text), void *context)
{
    unsigned n = model_window_workers(p);
    struct window_output *output = arena_alloc(arena, sizeof *output);
    output->write = write;
    output->take = take;
    output->context = context;
    output->arena = arena;
    // Each worker has begun one window more than it has buffers.
    output->n_waiting = (size_t)n * (BUFFERS + 1);
    output->waiting = arena_array(arena, output->n_waiting, sizeof *output->waiting);
    pthread_mutex_init(&output->lock, NULL);
    pthread_cond_init(&output->moved, NULL);
    struct window_visit v = {.p = p, .what = what, .context = context, .output = output};
    visit_windows(&v, arena, n);
}
