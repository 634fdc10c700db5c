#include <elf.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/hash.h"
#include "symbol/symbol_index.h"
#include "symbol/symbol_index_format.h"

// Node ids count from 1. A parent has a lower id than its children.
struct node {
    uint32_t function, file, parent, line, column;
};

struct bytes_out {
    uint8_t *p;
    size_t n, cap;
};

// All tables live in one arena. Their items are interned by hash and written at the end.
struct writer {
    struct arena *arena;
    struct node *nodes;
    struct index_function *functions;
    uint32_t *files;
    struct index_block *blocks;
    char *strings;
    struct bytes_out rows, packed; // packed: the encoded nodes
    uint32_t *node_blocks;
    size_t n_node_blocks, cap_node_blocks;
    size_t n_nodes, n_functions, n_files, n_blocks, n_strings;
    size_t cap_nodes, cap_functions, cap_files, cap_blocks, cap_strings;
    struct hash_table node_ids, function_ids, file_ids, string_ids;
    uint32_t *string_at; // indexed by the ids in string_ids
    size_t n_string_at, cap_string_at;
    uint64_t base, last_address;
    uint32_t last_node;
    size_t n_rows;
};

static void index_append_char(struct writer *w, char c)
{
    w->strings = arena_push(w->arena, w->strings, w->n_strings, &w->cap_strings, 1);
    w->strings[w->n_strings++] = c;
}

static uint32_t index_add_string(struct writer *w, const char *text)
{
    size_t n = strlen(text);
    uint64_t h = hash_bytes(text, n, 0);
    for (struct hash_probe at = hash_find(&w->string_ids, h); hash_hit(&w->string_ids, &at);
         hash_next(&w->string_ids, &at))
        if (strcmp(w->strings + w->string_at[at.item], text) == 0)
            return w->string_at[at.item];
    uint32_t offset = (uint32_t)w->n_strings;
    for (size_t i = 0; i <= n; i++)
        index_append_char(w, text[i]);
    w->string_at =
        arena_push(w->arena, w->string_at, w->n_string_at, &w->cap_string_at, sizeof *w->string_at);
    w->string_at[w->n_string_at] = offset;
    hash_add(&w->string_ids, w->arena, h, (uint32_t)w->n_string_at++);
    return offset;
}

// Adds a function. Its file is the file of the first frame that refers to it.
static uint32_t index_add_function(struct writer *w, const struct symbol_frame *f, uint32_t file)
{
    struct index_function x = {f->name ? index_add_string(w, f->name) : 0, f->start_line, file};
    uint64_t h = hash_mix(x.name, x.start_line);
    for (struct hash_probe at = hash_find(&w->function_ids, h); hash_hit(&w->function_ids, &at);
         hash_next(&w->function_ids, &at))
        if (w->functions[at.item].name == x.name &&
            w->functions[at.item].start_line == x.start_line)
            return at.item;
    w->functions = arena_push(w->arena, w->functions, w->n_functions, &w->cap_functions, sizeof x);
    w->functions[w->n_functions] = x;
    hash_add(&w->function_ids, w->arena, h, (uint32_t)w->n_functions);
    return (uint32_t)w->n_functions++;
}

static uint32_t index_add_file(struct writer *w, const char *path)
{
    uint32_t x = path ? index_add_string(w, path) : 0;
    uint64_t h = hash_mix(x, 1);
    for (struct hash_probe at = hash_find(&w->file_ids, h); hash_hit(&w->file_ids, &at);
         hash_next(&w->file_ids, &at))
        if (w->files[at.item] == x)
            return at.item;
    w->files = arena_push(w->arena, w->files, w->n_files, &w->cap_files, sizeof x);
    w->files[w->n_files] = x;
    hash_add(&w->file_ids, w->arena, h, (uint32_t)w->n_files);
    return (uint32_t)w->n_files++;
}

static uint32_t index_add_node(struct writer *w, const struct symbol_frame *f, uint32_t parent)
{
    uint32_t file = index_add_file(w, f->file);
    struct node x = {index_add_function(w, f, file), file, parent, f->line, f->column};
    uint64_t h = hash_bytes(&x, sizeof x, 0);
    for (struct hash_probe at = hash_find(&w->node_ids, h); hash_hit(&w->node_ids, &at);
         hash_next(&w->node_ids, &at))
        if (memcmp(&w->nodes[at.item], &x, sizeof x) == 0)
            return at.item + 1;
    w->nodes = arena_push(w->arena, w->nodes, w->n_nodes, &w->cap_nodes, sizeof x);
    w->nodes[w->n_nodes] = x;
    hash_add(&w->node_ids, w->arena, h, (uint32_t)w->n_nodes);
    return (uint32_t)++w->n_nodes;
}

static void index_put_byte(struct writer *w, struct bytes_out *to, uint8_t byte)
{
    to->p = arena_push(w->arena, to->p, to->n, &to->cap, 1);
    to->p[to->n++] = byte;
}

static void index_put_uleb(struct writer *w, struct bytes_out *to, uint64_t x)
{
    for (; x >= 0x80; x >>= 7)
        index_put_byte(w, to, (uint8_t)(x | 0x80));
    index_put_byte(w, to, (uint8_t)x);
}

static void index_put_sleb(struct writer *w, struct bytes_out *to, int64_t x)
{
    for (;; x >>= 7) {
        bool last = x >= -64 && x < 64;
        index_put_byte(w, to, (uint8_t)((x & 0x7f) | (last ? 0 : 0x80)));
        if (last)
            return;
    }
}

static void pack_nodes(struct writer *w)
{
    for (size_t i = 0; i < w->n_nodes; i++) {
        const struct node *n = &w->nodes[i];
        const struct index_function *f = &w->functions[n->function];
        if (i % INDEX_BLOCK_NODES == 0) {
            w->node_blocks = arena_push(w->arena, w->node_blocks, w->n_node_blocks,
                                        &w->cap_node_blocks, sizeof *w->node_blocks);
            w->node_blocks[w->n_node_blocks++] = (uint32_t)w->packed.n;
        }
        index_put_uleb(w, &w->packed, (uint64_t)n->function << 1 | (n->file != f->file));
        if (n->file != f->file)
            index_put_uleb(w, &w->packed, n->file);
        index_put_sleb(w, &w->packed, (int64_t)n->line - (int64_t)f->start_line);
        index_put_uleb(w, &w->packed, n->column);
        index_put_uleb(w, &w->packed, n->parent ? i + 1 - n->parent : 0);
        if (w->packed.n > UINT32_MAX - 64)
            arena_fail(w->arena, "the index would be larger than 4 GiB");
    }
}

static void index_add_row(struct writer *w, uint64_t address, uint32_t node)
{
    if (w->n_rows && node == w->last_node)
        return;
    if (w->n_rows % INDEX_BLOCK_ROWS == 0) {
        w->blocks = arena_push(w->arena, w->blocks, w->n_blocks, &w->cap_blocks, sizeof *w->blocks);
        w->blocks[w->n_blocks++] = (struct index_block){(uint32_t)address, (uint32_t)w->rows.n};
        w->last_address = address;
        w->last_node = 0;
    }
    index_put_uleb(w, &w->rows, address - w->last_address);
    index_put_sleb(w, &w->rows, (int64_t)node - (int64_t)w->last_node);
    w->last_address = address;
    w->last_node = node;
    w->n_rows++;
    if (w->rows.n > UINT32_MAX - 64 || w->n_strings > UINT32_MAX - (1u << 20))
        arena_fail(w->arena, "the index would be larger than 4 GiB");
}

static bool is_in_code_section(struct symbol_file *file, uint64_t address, bool or_end)
{
    const struct elf_section *sections;
    size_t n = elf_sections(symbol_elf(file), &sections);
    for (size_t i = 0; i < n; i++)
        if ((sections[i].flags & SHF_EXECINSTR) && address >= sections[i].addr &&
            address - sections[i].addr < sections[i].size + or_end)
            return true;
    return false;
}

static void index_build_tables(struct writer *w, struct symbol_file *file, const uint64_t *addrs,
                               size_t n)
{
    struct symbol_frame frames[SYMBOL_FRAMES_MAX];
    hash_init(&w->node_ids, w->arena, n / 2 + 64);
    hash_init(&w->function_ids, w->arena, 1024);
    hash_init(&w->file_ids, w->arena, 256);
    hash_init(&w->string_ids, w->arena, 1024);
    index_append_char(w, '\0'); // reserve offset 0: no string
    for (size_t i = 0; i < n; i++) {
        uint32_t node = 0;
        // Behind the code, another named object may begin.
        int depth = is_in_code_section(file, addrs[i], false)
                        ? symbol_lookup(file, addrs[i], frames, SYMBOL_FRAMES_MAX)
                        : 0;
        for (int k = depth; k-- > 0;)
            node = index_add_node(w, &frames[k], node);
        index_add_row(w, addrs[i] - w->base, node);
    }
    pack_nodes(w);
}

static void index_write_parts(const struct writer *w, struct symbol_file *file, struct out *out)
{
    struct index_header h = {.version = INDEX_VERSION, .base = w->base};
    memcpy(h.magic, INDEX_MAGIC, sizeof h.magic);
    _Static_assert(sizeof h.build_id == ELF_BUILD_ID_MAX, "a build id fits");
    h.build_id_size = (uint32_t)elf_build_id(symbol_elf(file), h.build_id);
    const void *parts[INDEX_PARTS] = {w->blocks,    w->rows.p, w->node_blocks, w->packed.p,
                                      w->functions, w->files,  w->strings};
    h.sizes[INDEX_BLOCKS] = w->n_blocks * sizeof *w->blocks;
    h.sizes[INDEX_ROWS] = w->rows.n;
    h.sizes[INDEX_NODE_BLOCKS] = w->n_node_blocks * sizeof *w->node_blocks;
    h.sizes[INDEX_NODES] = w->packed.n;
    h.sizes[INDEX_FUNCTIONS] = w->n_functions * sizeof *w->functions;
    h.sizes[INDEX_FILES] = w->n_files * sizeof *w->files;
    h.sizes[INDEX_STRINGS] = w->n_strings;
    out_write(out, &h, sizeof h);
    for (int i = 0; i < INDEX_PARTS; i++)
        out_write(out, parts[i], h.sizes[i]);
}

// Keeps only the boundaries inside executable sections, and the ends of those.
static size_t keep_code(struct symbol_file *file, uint64_t *addrs, size_t n)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (is_in_code_section(file, addrs[i], true))
            addrs[kept++] = addrs[i];
    return kept;
}

int symbol_index_write(struct symbol_file *file, struct out *out, struct err *e)
{
    size_t n;
    uint64_t *addrs = symbol_boundaries(file, &n);
    if (!addrs)
        return err_set(e, "%s: no memory for its index", elf_path(symbol_elf(file)));
    n = keep_code(file, addrs, n);
    struct arena *arena = arena_new(0);
    int result = -1;
    if (n == 0 || addrs[n - 1] - addrs[0] > UINT32_MAX) {
        err_set(e, "%s: %s", elf_path(symbol_elf(file)),
                n ? "the code spans more than 4 GiB" : "no code to index");
    } else if (!arena) {
        err_set(e, "%s: no memory for its index", elf_path(symbol_elf(file)));
    } else {
        struct writer w = {.arena = arena, .base = addrs[0]};
        struct arena_trap trap;
        if (ARENA_TRY(arena, trap)) {
            arena_caught(arena, e);
        } else {
            index_build_tables(&w, file, addrs, n);
            index_write_parts(&w, file, out);
            arena_try_end(arena);
            result = 0;
        }
    }
    arena_free(arena);
    free(addrs);
    return result;
}
