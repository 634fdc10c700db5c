#include "model/stream.h"

// Ranges of decoded samples, and the number of samples from which threads pay off.
enum { RANGE = 1 << 14, WORTH_THREADS = 100000 };

const struct model_profile *model_decode_samples(const struct model_profile *p, struct arena *arena)
{
    if (!p->stream)
        return p;
    struct model_profile *to = model_profile_derive(p, arena);
    to->stream = NULL;
    p->stream->decode(p->stream, to);
    return to;
}

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
    struct model_window *windows[PARALLEL_MOST]; // by worker
};

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
    v->visit(v->context, worker, &p, (*window)->first);
    return true;
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
    v->visit(v->context, worker, &p, first);
    return true;
}

void model_each_window(const struct model_profile *p, struct arena *arena, unsigned what,
                       void (*visit)(void *context, struct parallel_worker *worker,
                                     const struct model_profile *window, size_t first),
                       void *context)
{
    unsigned n = model_window_workers(p);
    struct window_visit v = {.p = p, .what = what, .visit = visit, .context = context};
    if (p->stream) {
        parallel_run(arena, n, p->stream->n_windows, visit_encoded_window, &v);
    } else if (p->n_samples) {
        v.range = n == 1                     ? p->n_samples
                  : p->n_samples < RANGE * n ? (p->n_samples + n - 1) / n
                                             : RANGE;
        parallel_run(arena, n, (p->n_samples + v.range - 1) / v.range, visit_range, &v);
    }
}
