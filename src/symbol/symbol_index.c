#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "symbol/symbol_index.h"
#include "symbol/mapped_file.h"
#include "symbol/symbol_index_format.h"

struct symbol_index {
    struct bytes image;
    bool mapped;
    struct index_header h;
    struct bytes part[INDEX_PARTS];
};

static int check_index_header(struct symbol_index *x, const char *name, struct err *e)
{
    if (x->image.n < sizeof x->h || memcmp(x->image.p, INDEX_MAGIC, 8) != 0)
        return err_set(e, "%s: not a symbol index", name);
    memcpy(&x->h, x->image.p, sizeof x->h);
    if (x->h.version != INDEX_VERSION)
        return err_set(e, "%s: unsupported version %u of the symbol index; expected %u", name,
                       x->h.version, INDEX_VERSION);
    uint64_t at = sizeof x->h;
    for (int i = 0; i < INDEX_PARTS; i++) {
        uint64_t size = x->h.sizes[i];
        if (size > x->image.n - at)
            return err_set(e, "%s: the symbol index ends within part %d", name, i);
        x->part[i] = (struct bytes){x->image.p + at, size, NULL};
        at += size;
    }
    if (x->h.build_id_size > sizeof x->h.build_id)
        return err_set(e, "%s: the build id is too long", name);
    return 0;
}

struct symbol_index *symbol_index_open_bytes(struct bytes image, const char *name, struct err *e)
{
    struct symbol_index *x = calloc(1, sizeof *x);
    if (!x) {
        err_set(e, "%s: no memory", name);
        return NULL;
    }
    x->image = image;
    if (check_index_header(x, name, e) != 0) {
        symbol_index_free(x);
        return NULL;
    }
    return x;
}

struct symbol_index *symbol_index_open(const char *path, struct err *e)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0) {
        err_set(e, "%s: %s", path, strerror(errno));
        if (fd >= 0)
            close(fd);
        return NULL;
    }
    size_t size = (size_t)st.st_size;
    void *p = size ? mapped_file_open(fd, size) : NULL;
    close(fd);
    if (!p) {
        err_set(e, "%s: cannot be mapped", path);
        return NULL;
    }
    struct symbol_index *x = symbol_index_open_bytes((struct bytes){p, size, NULL}, path, e);
    if (x)
        x->mapped = true;
    else
        mapped_file_close(p, size);
    return x;
}

void symbol_index_free(struct symbol_index *x)
{
    if (!x)
        return;
    if (x->mapped)
        mapped_file_close(x->image.p, x->image.n);
    free(x);
}

struct bytes symbol_index_build_id(const struct symbol_index *x)
{
    return (struct bytes){x->h.build_id, x->h.build_id_size, NULL};
}

static bool read_index_item(struct bytes part, uint64_t i, void *item, size_t size)
{
    if (i >= part.n / size)
        return false;
    memcpy(item, part.p + i * size, size);
    return true;
}

// Returns the node of the last row at or before offset; 0 if nothing is known there.
static uint32_t find_row_node(const struct symbol_index *x, uint64_t offset)
{
    struct index_block block;
    size_t low = 0, high = x->part[INDEX_BLOCKS].n / sizeof block;
    while (low < high) {
        size_t middle = (low + high) / 2;
        read_index_item(x->part[INDEX_BLOCKS], middle, &block, sizeof block);
        if (block.address <= offset)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0 || !read_index_item(x->part[INDEX_BLOCKS], low - 1, &block, sizeof block))
        return 0;
    struct cursor c = cursor_at(x->part[INDEX_ROWS], block.rows);
    uint64_t address = block.address, node = 0, found = 0;
    for (int i = 0; i < INDEX_BLOCK_ROWS && c.p < c.end; i++) {
        address += read_uleb(&c);
        node += (uint64_t)read_sleb(&c);
        if (c.bad || address > offset)
            break;
        found = node;
    }
    return found > UINT32_MAX ? 0 : (uint32_t)found;
}

struct node {
    struct index_function function;
    uint32_t file, line, column, parent;
};

// Reads node id, counting from 1. Skips the nodes before it in its block (up to 15).
static bool read_index_node(const struct symbol_index *x, uint32_t id, struct node *node)
{
    uint32_t at;
    if (!read_index_item(x->part[INDEX_NODE_BLOCKS], (id - 1) / INDEX_BLOCK_NODES, &at, sizeof at))
        return false;
    struct cursor c = cursor_at(x->part[INDEX_NODES], at);
    for (uint32_t skip = (id - 1) % INDEX_BLOCK_NODES; skip; skip--) {
        int numbers = read_uleb(&c) & 1 ? 4 : 3;
        while (numbers--)
            read_uleb(&c);
    }
    uint64_t function = read_uleb(&c);
    if (!read_index_item(x->part[INDEX_FUNCTIONS], function >> 1, &node->function,
                         sizeof node->function))
        return false;
    node->file = function & 1 ? (uint32_t)read_uleb(&c) : node->function.file;
    node->line = node->function.start_line + (uint32_t)read_sleb(&c);
    node->column = (uint32_t)read_uleb(&c);
    uint64_t up = read_uleb(&c);
    if (c.bad || up >= id)
        return false;
    node->parent = up ? id - (uint32_t)up : 0;
    return true;
}

int symbol_index_lookup(const struct symbol_index *x, uint64_t vaddr, struct symbol_frame *frames,
                        int max)
{
    int n = 0;
    if (vaddr < x->h.base)
        return 0;
    struct node node;
    for (uint32_t id = find_row_node(x, vaddr - x->h.base); id && n < max; id = node.parent) {
        if (!read_index_node(x, id, &node))
            break;
        uint32_t file = 0;
        read_index_item(x->part[INDEX_FILES], node.file, &file, sizeof file);
        const char *name =
            node.function.name ? bytes_string(x->part[INDEX_STRINGS], node.function.name) : NULL;
        frames[n++] =
            (struct symbol_frame){.name = name,
                                  .shown = name,
                                  .file = file ? bytes_string(x->part[INDEX_STRINGS], file) : NULL,
                                  .line = node.line,
                                  .column = node.column,
                                  .start_line = node.function.start_line,
                                  .is_inlined = node.parent != 0};
    }
    return n;
}
