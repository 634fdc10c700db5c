// Line programs, versions 2 to 5.
#include <stdlib.h>

#include "symbol/dwarf_internal.h"

enum { TABLE_MAX = 1 << 20 };

// Tables of directories and files. Every entry takes at least one byte of the section, so a wrong
// count cannot cause a larger allocation than the section justifies.
static bool grow_line_table(void **array, uint32_t n, uint32_t *cap, size_t element)
{
    if (n < *cap)
        return true;
    uint32_t more = *cap ? *cap * 2 : 32;
    void *p = more <= TABLE_MAX ? realloc(*array, more * element) : NULL;
    if (!p)
        return false;
    *array = p;
    *cap = more;
    return true;
}

static bool read_old_tables(struct dwarf_line_header *h, struct cursor *c)
{
    uint32_t cap = 0;
    while (!c->bad) {
        const char *name = read_string(c);
        if (!*name)
            break;
        if (!grow_line_table((void **)&h->directories, h->n_directories, &cap,
                             sizeof *h->directories))
            return false;
        h->directories[h->n_directories++] = name;
    }
    cap = 0;
    while (!c->bad) {
        const char *name = read_string(c);
        if (!*name)
            break;
        uint64_t directory = read_uleb(c);
        read_uleb(c);
        read_uleb(c);
        if (!grow_line_table((void **)&h->files, h->n_files, &cap, sizeof *h->files))
            return false;
        h->files[h->n_files++] =
            (struct dwarf_file){name, directory > UINT32_MAX ? UINT32_MAX : (uint32_t)directory};
    }
    return !c->bad;
}

// Reads one of the two self-describing tables of version 5.
static bool read_table(struct dwarf_unit *u, struct dwarf_line_header *h, struct cursor *c,
                       bool is_files)
{
    struct {
        uint64_t kind, form;
    } formats[256];
    unsigned n_formats = read_u8(c);
    for (unsigned i = 0; i < n_formats; i++) {
        formats[i].kind = read_uleb(c);
        formats[i].form = read_uleb(c);
        if (formats[i].form > UINT16_MAX)
            return false;
    }
    uint64_t count = read_uleb(c);
    if (n_formats == 0)
        return count == 0 && !c->bad;
    // Forms have the sizes of the line table, not of the unit.
    struct dwarf_unit as = *u;
    as.offset_size = h->offset_size;
    as.version = 5;
    if (h->address_size)
        as.address_size = h->address_size;
    uint32_t cap = 0;
    for (uint64_t i = 0; i < count && !c->bad && c->p < c->end; i++) {
        struct dwarf_file file = {NULL, 0};
        for (unsigned k = 0; k < n_formats; k++) {
            struct dwarf_value v = dwarf_read_value(&as, c, (uint16_t)formats[k].form, 0);
            if (formats[k].kind == DW_LNCT_path)
                file.name = dwarf_string(&as, &v);
            else if (formats[k].kind == DW_LNCT_directory_index)
                file.directory = v.u > UINT32_MAX ? UINT32_MAX : (uint32_t)v.u;
        }
        if (is_files) {
            if (!grow_line_table((void **)&h->files, h->n_files, &cap, sizeof *h->files))
                return false;
            h->files[h->n_files++] = file;
        } else {
            if (!grow_line_table((void **)&h->directories, h->n_directories, &cap,
                                 sizeof *h->directories))
                return false;
            h->directories[h->n_directories++] = file.name;
        }
    }
    return !c->bad;
}

static bool read_line_header(struct dwarf_unit *u, struct dwarf_line_header *h)
{
    struct cursor c = cursor_at(u->d->s.line, u->line_offset);
    h->offset_size = 4;
    uint64_t length = read_u32(&c);
    if (length == UINT32_MAX) {
        h->offset_size = 8;
        length = read_u64(&c);
    }
    if (c.bad || length > (uint64_t)(c.end - c.p))
        return false;
    c = cursor_part(&c, length);
    h->version = read_u16(&c);
    if (h->version < 2 || h->version > 5)
        return false;
    h->address_size = u->address_size;
    if (h->version >= 5) {
        h->address_size = read_u8(&c);
        read_u8(&c); // segment selector size
    }
    uint64_t header = read_sized(&c, h->offset_size);
    if (c.bad || header > (uint64_t)(c.end - c.p))
        return false;
    const uint8_t *program = c.p + header;
    h->min_length = read_u8(&c);
    h->max_ops = h->version >= 4 ? read_u8(&c) : 1;
    read_u8(&c); // default_is_stmt
    h->line_base = (int8_t)read_u8(&c);
    h->line_range = read_u8(&c);
    h->opcode_base = read_u8(&c);
    for (unsigned i = 1; i < h->opcode_base; i++)
        h->lengths[i] = read_u8(&c);
    if (c.bad || c.p > program)
        return false;
    h->program = (struct bytes){program, (size_t)(c.end - program), u->d->s.line.view};
    struct cursor tables = cursor_part(&c, (uint64_t)(program - c.p));
    if (h->version >= 5)
        return read_table(u, h, &tables, false) && read_table(u, h, &tables, true);
    return read_old_tables(h, &tables);
}

static void free_line_header(struct dwarf_line_header *h)
{
    for (uint32_t i = 0; h->paths && i < h->n_files; i++)
        free(h->paths[i]);
    free(h->paths);
    free(h->directories);
    free(h->files);
    free(h);
}

struct dwarf_line_header *dwarf_lines(struct dwarf_unit *u)
{
    if (u->lines_read)
        return u->lines;
    u->lines_read = true;
    if (!dwarf_unit_load(u) || !u->has_lines)
        return NULL;
    struct dwarf_line_header *h = calloc(1, sizeof *h);
    if (!h)
        return NULL;
    if (!read_line_header(u, h)) {
        free_line_header(h);
        return NULL;
    }
    h->paths = calloc(h->n_files ? h->n_files : 1, sizeof *h->paths);
    if (!h->paths) {
        free_line_header(h);
        return NULL;
    }
    u->d->memory += sizeof *h + h->n_files * (sizeof *h->files + sizeof *h->paths) +
                    h->n_directories * sizeof *h->directories;
    u->lines = h;
    return h;
}

void dwarf_lines_free(struct dwarf_unit *u)
{
    if (u->lines)
        free_line_header(u->lines);
    free(u->rows);
    free(u->sequences);
    u->lines = NULL;
    u->rows = NULL;
    u->sequences = NULL;
    u->n_rows = u->n_sequences = 0;
    u->lines_read = u->rows_built = false;
    u->line_lookups = 0;
}

// --- programs ---

struct sink {
    // For one address: the row in the sequence with the lowest end after addr.
    uint64_t addr, best_low, best_high;
    struct dwarf_row best;
    bool found;
    // For all addresses: rows and sequences.
    bool failed;
    size_t limit; // maximum bytes of rows, and of sequences
    struct dwarf_row *rows;
    struct dwarf_sequence *sequences;
    uint32_t n_rows, cap_rows, n_sequences, cap_sequences;
};

// The registers of the line machine and the current sequence.
struct machine {
    uint64_t address, low;
    uint32_t line;
    uint16_t file, column;
    uint8_t op_index;
    bool open, gone; // open: has a row. gone: the linker discarded its code.
    uint32_t first;
    struct dwarf_row candidate;
};

static const struct machine initial = {.line = 1, .file = 1};

static void sink_keep_row(struct sink *s, struct dwarf_row row)
{
    if (s->n_rows == s->cap_rows) {
        uint32_t more = s->cap_rows ? s->cap_rows * 2 : 512;
        struct dwarf_row *p = more < UINT32_MAX / 2 && s->n_rows * sizeof *p < s->limit
                                  ? realloc(s->rows, more * sizeof *p)
                                  : NULL;
        if (!p) {
            s->failed = true;
            return;
        }
        s->rows = p;
        s->cap_rows = more;
    }
    s->rows[s->n_rows++] = row;
}

static inline __attribute__((always_inline)) void make_row(struct machine *m, struct sink *s,
                                                           bool keep)
{
    if (m->gone)
        return;
    if (!m->open) {
        m->open = true;
        m->low = m->address;
        m->first = s->n_rows;
    }
    if (!keep) {
        if (m->address <= s->addr)
            m->candidate = (struct dwarf_row){0, m->line, m->file, m->column};
        return;
    }
    uint64_t offset = m->address - m->low;
    struct dwarf_row row = {offset > UINT32_MAX ? UINT32_MAX : (uint32_t)offset, m->line, m->file,
                            m->column};
    // Keep only the last row at an address, and only if it changes something.
    if (s->n_rows > m->first) {
        struct dwarf_row *last = &s->rows[s->n_rows - 1];
        if (last->address == row.address) {
            *last = row;
            return;
        }
        if (last->line == row.line && last->file == row.file && last->column == row.column)
            return;
    }
    sink_keep_row(s, row);
}

static void end_sequence(struct machine *m, struct sink *s, bool keep)
{
    uint64_t low = m->low, high = m->address;
    bool valid = !m->gone && m->open && low < high;
    if (valid && !keep) {
        if (high > s->addr && (!s->found || high < s->best_high)) {
            s->found = true;
            s->best_low = low;
            s->best_high = high;
            s->best = m->candidate;
        }
    } else if (valid) {
        if (s->n_sequences == s->cap_sequences) {
            uint32_t more = s->cap_sequences ? s->cap_sequences * 2 : 64;
            struct dwarf_sequence *p =
                more * sizeof *p <= s->limit ? realloc(s->sequences, more * sizeof *p) : NULL;
            if (!p) {
                s->failed = true;
                return;
            }
            s->sequences = p;
            s->cap_sequences = more;
        }
        s->sequences[s->n_sequences++] =
            (struct dwarf_sequence){low, high, m->first, s->n_rows - m->first};
    } else if (m->open && keep) {
        s->n_rows = m->first;
    }
    *m = initial;
}

static inline void advance_address(struct machine *m, const struct dwarf_line_header *h,
                                   uint64_t by)
{
    if (h->max_ops <= 1) {
        m->address += by * h->min_length;
        return;
    }
    uint64_t ops = m->op_index + by;
    m->address += h->min_length * (ops / h->max_ops);
    m->op_index = (uint8_t)(ops % h->max_ops);
}

static void run_extended_opcode(struct machine *m, struct sink *s, struct cursor *c,
                                uint8_t address_size, bool keep)
{
    uint64_t n = read_uleb(c);
    if (n == 0 || !cursor_has(c, n))
        return;
    struct cursor x = cursor_part(c, n);
    cursor_skip(c, n);
    switch (read_u8(&x)) {
    case 1:
        end_sequence(m, s, keep);
        break;
    case 2: {
        uint64_t size = (uint64_t)(x.end - x.p);
        if (size != 4 && size != 8)
            size = address_size;
        m->address = read_sized(&x, (unsigned)size);
        m->op_index = 0;
        m->gone = m->address == (size == 4 ? UINT32_MAX : UINT64_MAX);
        break;
    }
    }
    // DW_LNE_define_file (3) and discriminators (4) do not affect results.
}

enum { STEP_BYTES = 16 }; // of a line program, in the time of a step of dwarf_work

// Compiled twice: with a constant keep, the machine stays in registers.
static inline __attribute__((always_inline)) void
run_line_program(struct dwarf *d, const struct dwarf_line_header *h, struct sink *s, bool keep)
{
    size_t check = 0; // bytes of the program until the next call of dwarf_work
    struct cursor c = cursor_at(h->program, 0);
    struct machine m = initial;
    const uint8_t range = h->line_range ? h->line_range : 1;
    const uint8_t base = h->opcode_base;
    const uint64_t const_add = (uint64_t)(255 - base) / range;
    struct {
        uint8_t address;
        int16_t line;
    } special[256];
    for (unsigned i = 0; i + base < 256; i++) {
        special[i].address = (uint8_t)(i / range);
        special[i].line = (int16_t)(h->line_base + (int)(i % range));
    }
    while (c.p < c.end && !s->failed) {
        if ((size_t)(c.p - h->program.p) >= check) {
            check = (size_t)(c.p - h->program.p) + WORK_STEPS * STEP_BYTES;
            s->failed |= !dwarf_work(d, WORK_STEPS);
        }
        uint8_t op = read_u8(&c);
        if (op >= base) {
            advance_address(&m, h, special[op - base].address);
            m.line += (uint32_t)(int32_t)special[op - base].line;
            make_row(&m, s, keep);
            continue;
        }
        switch (op) {
        case 0:
            run_extended_opcode(&m, s, &c, h->address_size, keep);
            break;
        case 1:
            make_row(&m, s, keep);
            break;
        case 2:
            advance_address(&m, h, read_uleb(&c));
            break;
        case 3:
            m.line += (uint32_t)read_sleb(&c);
            break;
        case 4:
            m.file = (uint16_t)read_uleb(&c);
            break;
        case 5:
            m.column = (uint16_t)read_uleb(&c);
            break;
        case 6:  // negate_stmt
        case 7:  // basic_block
        case 10: // prologue_end
        case 11: // epilogue_begin
            break;
        case 8:
            advance_address(&m, h, const_add);
            break;
        case 9:
            m.address += read_u16(&c);
            m.op_index = 0;
            break;
        default: // 12 is set_isa; the others are unknown
            for (unsigned i = 0; i < h->lengths[op]; i++)
                read_uleb(&c);
        }
    }
}

static void run_for_address(struct dwarf *d, const struct dwarf_line_header *h, struct sink *s)
{
    run_line_program(d, h, s, false);
}

static void run_for_all(struct dwarf *d, const struct dwarf_line_header *h, struct sink *s)
{
    run_line_program(d, h, s, true);
}

static int compare_sequence_ends(const void *a, const void *b)
{
    const struct dwarf_sequence *x = a, *y = b;
    return (x->high > y->high) - (x->high < y->high);
}

static void build_line_rows(struct dwarf_unit *u, const struct dwarf_line_header *h)
{
    struct sink s = {.limit = u->d->table_limit};
    run_for_all(u->d, h, &s);
    if (s.failed) {
        u->rows_refused = true;
        free(s.rows);
        free(s.sequences);
        return;
    }
    u->rows_built = true;
    bool sorted = true;
    for (uint32_t i = 1; i < s.n_sequences; i++)
        sorted &= s.sequences[i - 1].high <= s.sequences[i].high;
    if (!sorted)
        qsort(s.sequences, s.n_sequences, sizeof *s.sequences, compare_sequence_ends);
    struct dwarf_row *fit = s.n_rows ? realloc(s.rows, s.n_rows * sizeof *fit) : NULL;
    u->rows = fit ? fit : s.rows;
    u->sequences = s.sequences;
    u->n_rows = s.n_rows;
    u->n_sequences = s.n_sequences;
    u->d->memory += s.n_rows * sizeof *fit + s.cap_sequences * sizeof *s.sequences;
}

static bool search_rows(const struct dwarf_unit *u, uint64_t addr, struct dwarf_row *row)
{
    size_t low = 0, high = u->n_sequences;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (u->sequences[middle].high <= addr)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == u->n_sequences || addr < u->sequences[low].low || u->sequences[low].n == 0)
        return false;
    const struct dwarf_sequence *s = &u->sequences[low];
    const struct dwarf_row *rows = u->rows + s->first;
    uint64_t offset = addr - s->low;
    low = 1;
    high = s->n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (rows[middle].address <= offset)
            low = middle + 1;
        else
            high = middle;
    }
    *row = rows[low - 1];
    return true;
}

void dwarf_rows_ready(struct dwarf_unit *u)
{
    const struct dwarf_line_header *h = dwarf_lines(u);
    if (h && !u->rows_built && !u->rows_refused)
        build_line_rows(u, h);
}

bool dwarf_line_at(struct dwarf_unit *u, uint64_t addr, struct dwarf_row *row)
{
    const struct dwarf_line_header *h = dwarf_lines(u);
    if (!h)
        return false;
    if (!u->rows_built && !u->rows_refused && u->line_lookups++ > 0)
        build_line_rows(u, h);
    if (u->rows_built)
        return search_rows(u, addr, row);
    struct sink s = {.addr = addr};
    run_for_address(u->d, h, &s);
    if (!s.found || addr < s.best_low)
        return false;
    *row = s.best;
    return true;
}

// --- paths ---

static bool is_absolute_path(const char *p)
{
    bool letter = (p[0] >= 'a' && p[0] <= 'z') || (p[0] >= 'A' && p[0] <= 'Z');
    return p[0] == '/' || (letter && p[1] == ':' && (p[2] == '/' || p[2] == '\\')) ||
           (p[0] == '\\' && p[1] == '\\' && p[2] && p[2] != '\\');
}

static void append_path(char *path, size_t *n, const char *part)
{
    if (!*part)
        return;
    if (*n && path[*n - 1] == '/')
        part += strspn(part, "/");
    else if (*n && *part != '/')
        path[(*n)++] = '/';
    size_t size = strlen(part);
    memcpy(path + *n, part, size);
    *n += size;
    path[*n] = '\0';
}

const char *dwarf_file_path(struct dwarf_unit *u, uint64_t i)
{
    struct dwarf_line_header *h = dwarf_lines(u);
    if (!h)
        return NULL;
    if (h->version < 5)
        i--; // 0 wraps to an invalid index
    if (i >= h->n_files || !h->files[i].name)
        return NULL;
    const struct dwarf_file *f = &h->files[i];
    if (h->paths[i])
        return h->paths[i];
    const char *name = dwarf_text(u->d, f->name);
    if (is_absolute_path(name))
        return name;
    const struct dwarf_unit *owner = u->skeleton ? u->skeleton : u;
    const char *top = dwarf_string(owner, &owner->comp_dir), *directory = NULL;
    uint64_t at = h->version >= 5 ? f->directory : (uint64_t)f->directory - 1;
    if (at < h->n_directories)
        directory = h->directories[at];
    directory = directory ? dwarf_text(u->d, directory) : "";
    if (!top || is_absolute_path(directory) || (h->version >= 5 && f->directory == 0))
        top = "";
    size_t size = strlen(top) + strlen(directory) + strlen(name) + 3, n = 0;
    char *path = malloc(size);
    if (!path)
        return name;
    path[0] = '\0';
    append_path(path, &n, top);
    append_path(path, &n, directory);
    append_path(path, &n, name);
    h->paths[i] = path;
    u->d->memory += size;
    return path;
}
