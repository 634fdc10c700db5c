#include "agent/collector/callbacks.h"

#include <pthread.h>

#include "model/builder.h"

enum { NAME_MAX_BYTES = 4096 };

static pthread_mutex_t callbacks_lock = PTHREAD_MUTEX_INITIALIZER;
static struct hooks {
    kiln_frame_hook frame;
    void *frame_context;
    kiln_thread_hook thread;
    void *thread_context;
} hooks;

void callbacks_set_frame(kiln_frame_hook hook, void *context)
{
    pthread_mutex_lock(&callbacks_lock);
    hooks.frame = hook;
    hooks.frame_context = context;
    pthread_mutex_unlock(&callbacks_lock);
}

void callbacks_set_thread(kiln_thread_hook hook, void *context)
{
    pthread_mutex_lock(&callbacks_lock);
    hooks.thread = hook;
    hooks.thread_context = context;
    pthread_mutex_unlock(&callbacks_lock);
}

void callbacks_after_fork_in_child(void)
{
    callbacks_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

struct work {
    struct hooks hooks;
    struct model_profile *p; // a derived profile: copy columns before changing them (own)
    struct arena *arena;
    char *renamed;
};

static const char *string_copy(const struct work *w, uint32_t string)
{
    struct str s = model_str(w->p, string);
    return arena_copy(w->arena, s.p, s.n);
}

static void *own_column(struct work *w, const void *column, size_t n, size_t size)
{
    void *copy = arena_array(w->arena, n + 1, size);
    if (n)
        memcpy(copy, column, n * size);
    return copy;
}

// --- frames ---

// The hook's new name; an empty one is ignored.
static uint32_t new_name(struct work *w, uint32_t old_name)
{
    w->renamed[NAME_MAX_BYTES - 1] = '\0';
    return *w->renamed ? model_intern(w->p->strings, str_from(w->renamed)) : old_name;
}

// Renames functions, and returns which ones to drop; NULL: none.
static bool *call_frame_hook(struct work *w)
{
    struct model_profile *p = w->p;
    bool *drop = arena_array(w->arena, p->n_functions + 1, sizeof *drop), any = false;
    p->functions = own_column(w, p->functions, p->n_functions, sizeof *p->functions);
    for (uint32_t i = 0; i < p->n_functions; i++) {
        struct model_function *f = &p->functions[i];
        w->renamed[0] = '\0';
        struct kiln_frame frame = {sizeof frame, string_copy(w, f->name),
                                   string_copy(w, f->system_name), string_copy(w, f->filename)};
        int verdict = w->hooks.frame(w->hooks.frame_context, &frame, w->renamed, NAME_MAX_BYTES);
        if (verdict == KILN_RENAME)
            f->name = new_name(w, f->name);
        drop[i] = verdict == KILN_DROP;
        any |= drop[i];
    }
    return any ? drop : NULL;
}

// Removes the lines of dropped functions from locations. Returns which locations have none left.
static bool *drop_lines(struct work *w, const bool *drop)
{
    struct model_profile *p = w->p;
    bool *empty = arena_array(w->arena, p->n_locations + 1, sizeof *empty);
    p->locations = own_column(w, p->locations, p->n_locations, sizeof *p->locations);
    p->lines = own_column(w, p->lines, p->n_lines, sizeof *p->lines);
    for (uint32_t i = 0; i < p->n_locations; i++) {
        struct model_location *l = &p->locations[i];
        uint32_t kept = 0;
        for (uint32_t k = 0; k < l->n_lines; k++) {
            struct model_line line = p->lines[l->first_line + k];
            if (!drop[line.function])
                p->lines[l->first_line + kept++] = line;
        }
        empty[i] = l->n_lines && !kept;
        l->n_lines = kept;
    }
    return empty;
}

// A stack that would become empty keeps its weight in [dropped].
static uint32_t add_dropped_location(struct work *w)
{
    struct model_profile *p = w->p;
    struct model_function f = {.id = p->n_functions + 1u,
                               .name = model_intern(p->strings, STR("[dropped]"))};
    f.system_name = f.name;
    p->functions = own_column(w, p->functions, p->n_functions, sizeof *p->functions);
    p->functions[p->n_functions] = f;
    p->lines = own_column(w, p->lines, p->n_lines, sizeof *p->lines);
    p->lines[p->n_lines] = (struct model_line){.function = p->n_functions++};
    p->locations = own_column(w, p->locations, p->n_locations, sizeof *p->locations);
    p->locations[p->n_locations] = (struct model_location){
        .id = p->n_locations + 1u, .mapping = MODEL_NONE, .first_line = p->n_lines++, .n_lines = 1};
    return p->n_locations++;
}

static void drop_frames(struct work *w, const bool *empty)
{
    struct model_profile *p = w->p;
    size_t n = 0;
    for (size_t i = 0; i < p->n_samples; i++)
        n += p->stack_len[i] + 1u;
    uint32_t *frames = arena_array(w->arena, n + 1, sizeof *frames), none = MODEL_NONE;
    uint32_t **stacks = arena_array(w->arena, p->n_samples + 1, sizeof *stacks);
    uint32_t *len = arena_array(w->arena, p->n_samples + 1, sizeof *len);
    for (size_t i = 0; i < p->n_samples; i++) {
        stacks[i] = frames;
        for (uint32_t k = 0; k < p->stack_len[i]; k++)
            if (!empty[model_stack(p, i)[k]])
                *frames++ = model_stack(p, i)[k];
        if (frames == stacks[i] && p->stack_len[i]) {
            if (none == MODEL_NONE)
                none = add_dropped_location(w);
            *frames++ = none;
        }
        len[i] = (uint32_t)(frames - stacks[i]);
    }
    p->stacks = stacks;
    p->stack_len = len;
}

// --- threads ---

// Returns which label sets' samples to drop; renames threads in the others.
static bool *call_thread_hook(struct work *w)
{
    struct model_profile *p = w->p;
    uint32_t thread = model_find_string(p->strings, STR("thread"));
    uint32_t thread_id = model_find_string(p->strings, STR("thread_id"));
    bool *drop = arena_array(w->arena, p->n_label_sets + 1, sizeof *drop);
    p->labels = own_column(w, p->labels, p->n_labels, sizeof *p->labels);
    for (uint32_t i = 0; i < p->n_label_sets; i++) {
        struct model_label *name = NULL;
        uint32_t tid = 0;
        for (uint32_t k = 0; k < p->label_sets[i].n; k++) {
            struct model_label *l = &p->labels[p->label_sets[i].first + k];
            if (l->key == thread && !l->is_number && !name)
                name = l;
            else if (l->key == thread_id && l->is_number)
                tid = (uint32_t)l->number;
        }
        if (!name)
            continue;
        w->renamed[0] = '\0';
        struct kiln_thread asked = {sizeof asked, string_copy(w, name->str), tid};
        int verdict = w->hooks.thread(w->hooks.thread_context, &asked, w->renamed, NAME_MAX_BYTES);
        if (verdict == KILN_RENAME)
            name->str = new_name(w, name->str);
        drop[i] = verdict == KILN_DROP;
    }
    return drop;
}

static void drop_samples(struct work *w, const bool *drop)
{
    struct model_profile *p = w->p;
    size_t kept = 0;
    p->values = own_column(w, p->values, p->n_samples * p->n_types, sizeof *p->values);
    p->stacks = own_column(w, p->stacks, p->n_samples, sizeof *p->stacks);
    p->stack_len = own_column(w, p->stack_len, p->n_samples, sizeof *p->stack_len);
    p->label_set = own_column(w, p->label_set, p->n_samples, sizeof *p->label_set);
    if (p->squares)
        p->squares = own_column(w, p->squares, p->n_samples, sizeof *p->squares);
    for (size_t i = 0; i < p->n_samples; i++) {
        if (drop[p->label_set[i]])
            continue;
        if (p->squares)
            p->squares[kept] = p->squares[i];
        memmove(p->values + kept * p->n_types, p->values + i * p->n_types,
                p->n_types * sizeof *p->values);
        p->stacks[kept] = p->stacks[i];
        p->stack_len[kept] = p->stack_len[i];
        p->label_set[kept++] = p->label_set[i];
    }
    p->n_samples = kept;
}

static void apply_hooks(struct work *w)
{
    w->renamed = arena_alloc(w->arena, NAME_MAX_BYTES);
    if (w->hooks.thread && w->p->label_set)
        drop_samples(w, call_thread_hook(w));
    const bool *drop = w->hooks.frame ? call_frame_hook(w) : NULL;
    if (drop)
        drop_frames(w, drop_lines(w, drop));
}

struct model_profile *callbacks_apply(struct model_profile *p, struct arena *arena, struct err *e)
{
    struct work w = {.arena = arena};
    pthread_mutex_lock(&callbacks_lock);
    w.hooks = hooks;
    pthread_mutex_unlock(&callbacks_lock);
    if (!w.hooks.frame && !w.hooks.thread)
        return p;
    struct arena_trap trap;
    if (ARENA_TRY(arena, trap)) {
        arena_caught(arena, e);
        return NULL;
    }
    w.p = model_profile_derive(p, arena);
    apply_hooks(&w);
    arena_try_end(arena);
    return w.p;
}
