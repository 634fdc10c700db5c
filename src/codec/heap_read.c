#include "codec/heap_read.h"

#include <stdio.h>

#include "codec/journal.h"
#include "model/builder.h"

// Allocation functions between the program and kiln's hooks. google/pprof drops the same frames.
static const char drop_frames[] =
    "malloc|calloc|realloc|reallocarray|memalign|aligned_alloc|(__)?posix_memalign|valloc|pvalloc|"
    "operator new(\\[\\])?(\\(.*\\))?|_Zn[wa]m.*|"
    "(std::__new_allocator|__gnu_cxx::new_allocator|std::allocator|std::allocator_traits)<.*>::"
    "allocate(\\(.*\\))?|"
    "__rdl_alloc.*|__rdl_realloc|__rust_alloc.*|__rust_realloc|"
    "(<)?alloc::alloc::.*|std::alloc::.*|"
    "(<)?alloc::raw_vec::.*|hashbrown::raw::alloc.*";

struct reader {
    struct arena *arena;
    const void *const *blocks;
    size_t n_blocks;
    const struct heap_head *head;
    const struct codec_heap_process *process;
    struct model_builder b;
    size_t budget; // remaining bytes of stack records; stops an index that names records repeatedly
    uint32_t n_modules;
    uint32_t mapping[HEAP_MODULES]; // mapping index + 1; 0 means not built yet
};

// Returns the record with this number if at least bytes of it are in its block. Sets *left to the
// bytes from there to the end of the block.
static const void *heap_record_at(const struct reader *r, uint32_t number, size_t bytes,
                                  size_t *left)
{
    size_t block = (number >> HEAP_PLACES) + 1;
    size_t at = (size_t)(number & ((1u << HEAP_PLACES) - 1)) * 8;
    if (number == 0 || block >= r->n_blocks || at > HEAP_BLOCK || bytes > HEAP_BLOCK - at)
        return NULL;
    *left = HEAP_BLOCK - at;
    return (const char *)r->blocks[block] + at;
}

static const struct module_record *module_at(const struct reader *r, uint32_t module)
{
    size_t left;
    if (module >= r->n_modules)
        return NULL;
    const struct module_record *m =
        heap_record_at(r, atomic_load(&r->head->modules[module]), sizeof *m, &left);
    if (!m)
        return NULL;
    left -= sizeof *m;
    return m->n_path <= left && m->n_build_id <= left - m->n_path && m->start < m->end ? m : NULL;
}

static uint32_t heap_mapping_of(struct reader *r, uint32_t module)
{
    const struct module_record *m = module_at(r, module);
    if (!m)
        return MODEL_NONE;
    if (!r->mapping[module]) {
        const uint8_t *id = (const uint8_t *)m->text + m->n_path;
        struct model_mapping made = {
            .start = m->start,
            .limit = m->end,
            .offset = m->file_offset,
            .file = model_build_string(&r->b, (struct str){m->text, m->n_path}),
            .build_id = model_build_string(&r->b, str_from(arena_hex(r->arena, id, m->n_build_id))),
        };
        r->mapping[module] = model_build_mapping(&r->b, made) + 1;
    }
    return r->mapping[module] - 1;
}

// Finds the module of a pc that the process did not resolve. Searches the newest module first
// because it may reuse the addresses of an unloaded one.
static uint32_t heap_find_module(const struct reader *r, uint64_t pc)
{
    for (uint32_t i = r->n_modules; i-- > 0;) {
        const struct module_record *m = module_at(r, i);
        if (m && pc >= m->start && pc < m->end)
            return i;
    }
    return HEAP_NO_MODULE;
}

static int64_t objects_from_parts(int64_t parts)
{
    int64_t rest = parts % HEAP_OBJECT;
    return parts / HEAP_OBJECT + (rest >= HEAP_OBJECT / 2) - (rest <= -HEAP_OBJECT / 2);
}

static void heap_add_stack(struct reader *r, uint32_t number)
{
    uint32_t frames[HEAP_MAX_FRAMES + 1];
    size_t left, n = 0;
    const struct heap_stack *s = heap_record_at(r, number, sizeof *s, &left);
    if (!s || s->n > HEAP_MAX_FRAMES || s->n * (size_t)10 > left - sizeof *s ||
        r->budget < sizeof *s + s->n * (size_t)10)
        return;
    r->budget -= sizeof *s + s->n * (size_t)10;
    // Read the live counters first: the writer updates them last.
    int64_t live_objects = atomic_load(&s->live_objects), live_bytes = atomic_load(&s->live_bytes);
    int64_t values[4] = {objects_from_parts((int64_t)atomic_load(&s->alloc_objects)),
                         (int64_t)atomic_load(&s->alloc_bytes), objects_from_parts(live_objects),
                         live_bytes};
    if (!(values[0] | values[1] | values[2] | values[3]))
        return;
    const _Atomic uint16_t *modules = (const _Atomic uint16_t *)(s->pcs + s->n);
    for (uint16_t i = 0; i < s->n; i++) {
        uint32_t module = atomic_load(&modules[i]);
        if (module == HEAP_UNRESOLVED)
            module = heap_find_module(r, s->pcs[i]);
        frames[n++] = model_build_location(&r->b, heap_mapping_of(r, module), s->pcs[i], NULL, 0);
    }
    if (s->n == 0)
        frames[n++] = model_build_named_location(&r->b, STR("[stacks not kept]"));
    else if (s->truncated)
        frames[n++] = model_build_named_location(&r->b, STR("[truncated]"));
    if (r->process && r->process->name) {
        model_build_label(&r->b, STR("process"), str_from(r->process->name));
        model_build_number_label(&r->b, STR("process_id"), r->process->pid, STR(""));
    }
    model_build_sample(&r->b, frames, n, values);
}

static void heap_read_totals(const struct heap_head *head, struct codec_heap_totals *t)
{
    *t = (struct codec_heap_totals){
        .samples = atomic_load(&head->samples),
        .untracked = atomic_load(&head->untracked),
        .untracked_bytes = atomic_load(&head->untracked_bytes),
        .stackless = atomic_load(&head->stackless),
        .nested = atomic_load(&head->nested),
        .unseen = atomic_load(&head->unseen),
        .live = atomic_load(&head->live),
        .peak = atomic_load(&head->peak),
    };
}

static void heap_add_comments(struct reader *r, const struct codec_heap_totals *t)
{
    char text[300];
    int n = snprintf(text, sizeof text, "kiln: heap: %llu samples, at most %lld bytes in use",
                     (unsigned long long)t->samples, (long long)t->peak);
    model_build_comment(&r->b, (struct str){text, (size_t)n});
    if (t->untracked == 0 && t->stackless == 0 && t->nested == 0)
        return;
    n = snprintf(
        text, sizeof text,
        "kiln: heap: tables full: %llu samples, about %llu bytes, are missing from in-use values, "
        "and %llu have no stack; %llu allocations in signal handlers were not sampled",
        (unsigned long long)t->untracked, (unsigned long long)t->untracked_bytes,
        (unsigned long long)t->stackless, (unsigned long long)t->nested);
    model_build_comment(&r->b, (struct str){text, (size_t)n});
}

static struct model_profile *heap_read_image(struct reader *r, struct codec_heap_totals *totals)
{
    model_build(&r->b, r->arena);
    model_build_type(&r->b, STR("alloc_objects"), STR("count"));
    model_build_type(&r->b, STR("alloc_space"), STR("bytes"));
    model_build_type(&r->b, STR("inuse_objects"), STR("count"));
    model_build_type(&r->b, STR("inuse_space"), STR("bytes"));
    struct model_profile *p = r->b.p;
    p->period_type = (struct model_value_type){model_build_string(&r->b, STR("space")),
                                               model_build_string(&r->b, STR("bytes"))};
    p->period = (int64_t)atomic_load(&r->head->interval);
    p->default_type = model_build_string(&r->b, STR("inuse_space"));
    p->drop_frames = model_build_string(&r->b, STR(drop_frames));
    p->time_nanos = r->head->time_nanos;
    uint32_t n = atomic_load(&r->head->n_modules);
    r->n_modules = n < HEAP_MODULES ? n : HEAP_MODULES;
    // The main program becomes the first mapping.
    heap_mapping_of(r, 0);
    for (uint32_t i = 0; i < HEAP_INDEX; i++) {
        uint32_t number = atomic_load(&r->head->index[i]);
        if (number)
            heap_add_stack(r, number);
    }
    heap_read_totals(r->head, totals);
    heap_add_comments(r, totals);
    return p;
}

struct model_profile *codec_read_heap(struct arena *arena, const void *const *blocks, size_t n,
                                      const struct codec_heap_process *process,
                                      struct codec_heap_totals *totals, struct err *e)
{
    struct codec_heap_totals unwanted;
    struct arena_trap trap;
    const struct heap_head *head = n ? blocks[0] : NULL;
    if (!head || head->magic != HEAP_MAGIC) {
        err_set(e, "invalid heap image; the process may use another version of libkiln");
        return NULL;
    }
    if (ARENA_TRY(arena, trap)) {
        arena_caught(arena, e);
        return NULL;
    }
    struct reader *r = arena_alloc(arena, sizeof *r);
    *r = (struct reader){.arena = arena,
                         .blocks = blocks,
                         .n_blocks = n,
                         .head = head,
                         .process = process,
                         .budget = n * HEAP_BLOCK};
    struct model_profile *p = heap_read_image(r, totals ? totals : &unwanted);
    arena_try_end(arena);
    return p;
}

struct model_profile *codec_read_journal_heap(struct arena *arena, const uint8_t *data, size_t n,
                                              struct codec_heap_totals *totals, struct err *e)
{
    struct journal_part part;
    struct journal_block block;
    const void *blocks[HEAP_BLOCKS];
    size_t n_blocks = 0, at = (sizeof part + 63) & ~(size_t)63;
    if (e)
        e->message[0] = '\0';
    if (n < at)
        return NULL;
    memcpy(&part, data, sizeof part);
    if (part.magic != JOURNAL_MAGIC || part.version != JOURNAL_VERSION)
        return NULL;
    for (; n - at >= sizeof block; at += block.size) {
        memcpy(&block, data + at, sizeof block);
        if (block.size < sizeof block || block.size % 64 || block.size > n - at)
            break;
        if (block.kind == JOURNAL_HEAP && n_blocks < HEAP_BLOCKS &&
            block.size >= sizeof block + HEAP_BLOCK)
            blocks[n_blocks++] = data + at + sizeof block;
    }
    if (n_blocks == 0)
        return NULL;
    part.program[sizeof part.program - 1] = '\0';
    struct codec_heap_process process = {part.follow ? part.program : NULL, part.pid};
    struct model_profile *p = codec_read_heap(arena, blocks, n_blocks, &process, totals, e);
    if (p)
        p->duration_nanos =
            part.time_nanos + (int64_t)atomic_load(&part.duration_nanos) - p->time_nanos;
    return p;
}
