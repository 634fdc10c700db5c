#include "symbol/jitdump.h"

#include <stdlib.h>

enum {
    MAGIC = 0x4A695444,
    VERSION = 1,
    HEADER_SIZE = 40,
    RECORD_SIZE = 16, // of the header of a record
    LOAD_SIZE = RECORD_SIZE + 40,
    MOVE_SIZE = RECORD_SIZE + 48,
    DEBUG_SIZE = RECORD_SIZE + 16,
    ENTRY_SIZE = 16,
    MOVED_MAX = 1 << 16,
    WINDOW = 64 << 10,
};

enum { CODE_LOAD, CODE_MOVE, CODE_DEBUG_INFO };

// Code that was moved to an address of interest. Its name is in the record that loaded it.
struct moved {
    uint64_t index;
    struct str name;
    uint32_t room;
};

struct dump {
    jitdump_read_fn *read;
    void *ctx;
    struct arena *arena;
    struct jit_name *names;
    size_t n;
    // The current window of the file: [at, at + n_window).
    uint8_t *window;
    uint64_t at;
    size_t n_window;
    // The latest line records describe the code that is loaded next.
    uint64_t debug_address;
    uint32_t debug_record;
    // The last line extends to the end of that code. 0: none.
    uint64_t last_address;
    uint32_t last_line;
    size_t n_file;
    char file[JIT_NAME_MAX]; // file of the latest line
    struct moved *moved;     // sorted by index in the second pass
    size_t n_moved, cap_moved;
    bool second_pass;
};

// Returns n bytes at offset, valid until the next call, or NULL at the end of the file.
static const uint8_t *bytes_at(struct dump *d, uint64_t offset, size_t n)
{
    if (offset < d->at || offset - d->at > d->n_window || n > d->n_window - (offset - d->at)) {
        d->at = offset;
        d->n_window = d->read(d->ctx, offset, d->window, WINDOW);
    }
    uint64_t inset = offset - d->at;
    return inset <= d->n_window && n <= d->n_window - inset ? d->window + inset : NULL;
}

// Reads the text at offset, which ends before end, and truncates it if it is too long. Sets *next
// after its NUL. Returns false if there is no NUL.
static bool text_at(struct dump *d, uint64_t offset, uint64_t end, struct str *text, uint64_t *next)
{
    size_t most = end - offset < JIT_NAME_MAX ? (size_t)(end - offset) : JIT_NAME_MAX;
    const uint8_t *p = bytes_at(d, offset, most);
    if (!p)
        return false;
    const uint8_t *nul = memchr(p, 0, most);
    *text = (struct str){(const char *)p, nul ? (size_t)(nul - p) : most};
    *next = offset + text->n + 1;
    if (nul)
        return true;
    // Find the end of a long text.
    for (uint64_t at = offset + most; at < end; at++) {
        p = bytes_at(d, at, 1);
        if (!p || *p == 0) {
            *next = at + 1;
            break;
        }
    }
    p = bytes_at(d, offset, most);
    *text = (struct str){(const char *)p, p ? most : 0};
    return p != NULL && *next <= end && most == JIT_NAME_MAX;
}

static uint64_t u64_at(const uint8_t *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static uint32_t u32_at(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

// Names the addresses inside the code.
static void jitdump_name_code(struct dump *d, uint64_t start, uint64_t size, struct str name,
                              bool lines)
{
    for (size_t i = jit_first_at_or_after(d->names, d->n, start);
         i < d->n && d->names[i].address - start < size; i++) {
        struct jit_name *to = &d->names[i];
        jit_set_text(d->arena, &to->name, &to->room, name);
        bool known = lines && to->next_record == d->debug_record;
        jit_set_text(d->arena, &to->file, &to->file_room,
                     known ? to->next_file : (struct str){NULL, 0});
        to->line = known ? to->next_line : 0;
    }
}

static int compare_moved_index(const void *a, const void *b)
{
    const struct moved *x = a, *y = b;
    return (x->index > y->index) - (x->index < y->index);
}

static struct moved *find_moved(struct dump *d, uint64_t index)
{
    struct moved key = {.index = index};
    return d->second_pass && d->n_moved
               ? bsearch(&key, d->moved, d->n_moved, sizeof key, compare_moved_index)
               : NULL;
}

// Sets the next line of all wanted addresses in [low, high). The file is the latest one read.
static void jitdump_set_line(struct dump *d, uint64_t low, uint64_t high, uint32_t line)
{
    struct str file = {d->file, d->n_file};
    for (size_t i = jit_first_at_or_after(d->names, d->n, low);
         i < d->n && d->names[i].address < high; i++) {
        struct jit_name *to = &d->names[i];
        jit_set_text(d->arena, &to->next_file, &to->next_file_room, file);
        to->next_line = line;
        to->next_record = d->debug_record;
    }
}

static void jitdump_read_load(struct dump *d, uint64_t at, uint64_t end)
{
    const uint8_t *p = bytes_at(d, at, LOAD_SIZE);
    if (!p)
        return;
    uint64_t address = u64_at(p + 32), size = u64_at(p + 40), index = u64_at(p + 48), next;
    bool lines = d->debug_record && d->debug_address == address;
    d->debug_address = 0;
    struct moved *moved = find_moved(d, index);
    struct str name;
    size_t first = jit_first_at_or_after(d->names, d->n, address);
    bool asked = first < d->n && d->names[first].address - address < size;
    if ((!asked && !moved) || !text_at(d, at + LOAD_SIZE, end, &name, &next) || name.n == 0)
        return;
    uint64_t code_end = size < UINT64_MAX - address ? address + size : UINT64_MAX;
    if (lines && d->last_address)
        jitdump_set_line(d, d->last_address, code_end, d->last_line);
    jitdump_name_code(d, address, size, name, lines);
    if (moved)
        jit_set_text(d->arena, &moved->name, &moved->room, name);
}

static void jitdump_read_move(struct dump *d, uint64_t at)
{
    const uint8_t *p = bytes_at(d, at, MOVE_SIZE);
    if (!p)
        return;
    uint64_t address = u64_at(p + 40), size = u64_at(p + 48), index = u64_at(p + 56);
    size_t first = jit_first_at_or_after(d->names, d->n, address);
    if (first == d->n || d->names[first].address - address >= size)
        return;
    struct moved *moved = find_moved(d, index);
    if (moved && moved->name.n)
        jitdump_name_code(d, address, size, moved->name, false);
    if (d->second_pass || d->n_moved == MOVED_MAX)
        return;
    d->moved = arena_push(d->arena, d->moved, d->n_moved, &d->cap_moved, sizeof *d->moved);
    d->moved[d->n_moved++] = (struct moved){.index = index};
}

static void jitdump_read_debug_info(struct dump *d, uint64_t at, uint64_t end)
{
    const uint8_t *p = bytes_at(d, at, DEBUG_SIZE);
    if (!p)
        return;
    uint64_t start = u64_at(p + 16), n = u64_at(p + 24), next = at + DEBUG_SIZE;
    uint64_t address = 0;
    uint32_t line = 0;
    d->debug_address = start;
    d->debug_record++;
    d->n_file = 0;
    for (uint64_t i = 0; i < n && next < end; i++) {
        struct str text;
        p = end - next > ENTRY_SIZE ? bytes_at(d, next, ENTRY_SIZE) : NULL;
        if (!p)
            break;
        uint64_t here = u64_at(p);
        uint32_t its_line = u32_at(p + 8);
        if (i > 0 && here > address)
            jitdump_set_line(d, address, here, line);
        if (!text_at(d, next + ENTRY_SIZE, end, &text, &next))
            break;
        // 0xff means the same file as before.
        if (!(text.n == 1 && (uint8_t)text.p[0] == 0xff)) {
            memcpy(d->file, text.p, text.n);
            d->n_file = text.n;
        }
        address = here;
        line = its_line;
    }
    d->last_address = address;
    d->last_line = line;
}

static void jitdump_read_records(struct dump *d, uint64_t at)
{
    const uint8_t *p;
    while ((p = bytes_at(d, at, RECORD_SIZE))) {
        uint32_t kind = u32_at(p), size = u32_at(p + 4);
        if (size < RECORD_SIZE)
            return;
        uint64_t end = at + size;
        if (kind == CODE_LOAD && size > LOAD_SIZE)
            jitdump_read_load(d, at, end);
        else if (kind == CODE_MOVE && size >= MOVE_SIZE)
            jitdump_read_move(d, at);
        else if (kind == CODE_DEBUG_INFO && size >= DEBUG_SIZE)
            jitdump_read_debug_info(d, at, end);
        at = end;
    }
}

static void sort_moved(struct dump *d)
{
    size_t kept = 0;
    qsort(d->moved, d->n_moved, sizeof *d->moved, compare_moved_index);
    for (size_t i = 0; i < d->n_moved; i++)
        if (kept == 0 || d->moved[kept - 1].index != d->moved[i].index)
            d->moved[kept++] = d->moved[i];
    d->n_moved = kept;
}

bool jitdump_read(jitdump_read_fn *read, void *ctx, struct jit_name *names, size_t n,
                  struct arena *arena)
{
    struct dump d = {.read = read, .ctx = ctx, .names = names, .n = n, .arena = arena};
    d.window = arena_alloc(arena, WINDOW);
    const uint8_t *p = bytes_at(&d, 0, HEADER_SIZE);
    if (!p || u32_at(p) != MAGIC || u32_at(p + 4) != VERSION || u32_at(p + 8) < HEADER_SIZE)
        return false;
    uint64_t first = u32_at(p + 8);
    jitdump_read_records(&d, first);
    if (d.n_moved) {
        sort_moved(&d);
        d.second_pass = true;
        d.debug_record++;
        jitdump_read_records(&d, first);
    }
    return true;
}
