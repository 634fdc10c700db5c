#include "symbol/symbol_parallel.h"

#include <string.h>

#include "base/hash.h"
#include "model/parallel.h"

enum { WORTH_THREADS = 1000, TASKS_PER_THREAD = 8 };

struct found {
    struct symbol_frame *frames;
    int n;
};

// The texts that one thread found, each once.
struct text_copies {
    const char **items;
    size_t n, cap;
    struct hash_table index;
};

struct lookups {
    const uint64_t *addrs;
    size_t n, n_tasks;
    struct symbol_file *files[PARALLEL_MOST]; // by worker
    struct text_copies texts[PARALLEL_MOST];
    struct found *found;
};

static const char *copy_text(struct text_copies *texts, struct arena *arena, const char *text)
{
    if (!text)
        return NULL;
    size_t n = strlen(text);
    uint64_t hash = hash_bytes(text, n, 0);
    for (struct hash_probe at = hash_find(&texts->index, hash); hash_hit(&texts->index, &at);
         hash_next(&texts->index, &at))
        if (strcmp(texts->items[at.item], text) == 0)
            return texts->items[at.item];
    texts->items = arena_push(arena, texts->items, texts->n, &texts->cap, sizeof *texts->items);
    hash_add(&texts->index, arena, hash, (uint32_t)texts->n);
    return texts->items[texts->n++] = arena_copy(arena, text, n);
}

static bool look_up_slice(void *context, struct parallel_worker *worker, size_t task)
{
    struct lookups *l = context;
    struct text_copies *texts = &l->texts[worker->index];
    struct symbol_frame frames[SYMBOL_FRAMES_MAX];
    if (!texts->index.slots)
        hash_init(&texts->index, worker->arena, 256);
    for (size_t i = l->n * task / l->n_tasks; i < l->n * (task + 1) / l->n_tasks; i++) {
        struct found *found = &l->found[i];
        found->n = symbol_lookup(l->files[worker->index], l->addrs[i], frames, SYMBOL_FRAMES_MAX);
        found->frames = arena_array(worker->arena, (size_t)found->n + 1, sizeof *found->frames);
        for (int k = 0; k < found->n; k++) {
            struct symbol_frame *to = &found->frames[k];
            *to = frames[k];
            to->name = copy_text(texts, worker->arena, frames[k].name);
            to->shown = frames[k].shown == frames[k].name
                            ? to->name
                            : copy_text(texts, worker->arena, frames[k].shown);
            to->file = copy_text(texts, worker->arena, frames[k].file);
        }
    }
    return true;
}

// Opens the file once more. Returns NULL if it is not the same any more.
static struct symbol_file *open_again(struct symbol_file *file,
                                      const struct symbol_options *options)
{
    struct err ignored;
    char id[2][2 * ELF_BUILD_ID_MAX + 1];
    struct symbol_file *again = symbol_open(elf_path(symbol_elf(file)), options, &ignored);
    if (!again)
        return NULL;
    size_t n = elf_build_id_text(symbol_elf(file), id[0]);
    if (elf_build_id_text(symbol_elf(again), id[1]) == n && n && memcmp(id[0], id[1], n) == 0)
        return again;
    symbol_free(again);
    return NULL;
}

void symbol_lookup_parallel(struct symbol_file *file, const struct symbol_options *options,
                            const uint64_t *addrs, size_t n, symbol_each_fn *call, void *ctx,
                            struct arena *arena)
{
    unsigned threads = n >= WORTH_THREADS || parallel_is_explicit() ? parallel_threads() : 1;
    struct lookups *l = arena_alloc(arena, sizeof *l);
    *l = (struct lookups){.addrs = addrs, .n = n, .files = {file}};
    unsigned n_files = 1;
    while (n_files < threads && (l->files[n_files] = open_again(file, options)))
        n_files++;
    if (n_files == 1) {
        struct symbol_frame frames[SYMBOL_FRAMES_MAX];
        for (size_t i = 0; i < n; i++)
            call(ctx, i, frames, symbol_lookup(file, addrs[i], frames, SYMBOL_FRAMES_MAX));
        return;
    }
    struct arena_trap trap;
    struct err e;
    bool failed = ARENA_TRY(arena, trap);
    if (failed) {
        arena_caught(arena, &e);
    } else {
        l->found = arena_array(arena, n + 1, sizeof *l->found);
        l->n_tasks =
            n < (size_t)n_files * TASKS_PER_THREAD ? n : (size_t)n_files * TASKS_PER_THREAD;
        parallel_run(arena, n_files, l->n_tasks, look_up_slice, l);
        arena_try_end(arena);
    }
    for (unsigned i = 1; i < PARALLEL_MOST && l->files[i]; i++)
        symbol_free(l->files[i]);
    if (failed)
        arena_fail(arena, "%s", e.message);
    for (size_t i = 0; i < n; i++)
        call(ctx, i, l->found[i].frames, l->found[i].n);
}
