#include "unwind/table.h"

#include "process/memory.h"

#define ROWS_MAX (UINT32_MAX / 8)

struct builder {
    const struct eh_input *in;
    struct unwind_rules *rules;
    struct unwind_table *table;
    uint64_t base, end;
    uint32_t cap_rows;
    uint32_t bucket;       // the index is complete up to this bucket
    uint32_t pending;      // offset of the row that is not written yet
    uint16_t pending_rule; // its rule; a later row at the same offset replaces it
    uint32_t written_rule; // rule of the last written row; UINT32_MAX: none
    uint64_t floor;        // addresses below it have rows already
    struct eh_cies cies;
    struct cfi_program program;
};

// The start address of an FDE and its offset in the section.
struct place {
    uint64_t begin, offset;
};

static bool grow_table(struct builder *b)
{
    uint32_t cap = b->cap_rows * 2;
    size_t bytes = sizeof *b->table + ((size_t)b->table->n_index + cap) * sizeof(uint32_t);
    if (cap > ROWS_MAX)
        return false;
    struct unwind_table *t = process_remap(b->table, b->table->mapped, bytes);
    if (!t)
        return false;
    t->mapped = bytes;
    b->table = t;
    b->cap_rows = cap;
    return true;
}

// Writes the pending row unless it repeats the previous row's rule.
static bool flush_row(struct builder *b)
{
    if (b->pending_rule == b->written_rule)
        return true;
    struct unwind_table *t = b->table;
    if (t->n_rows == b->cap_rows) {
        if (!grow_table(b))
            return false;
        t = b->table;
    }
    while (b->bucket < b->pending >> t->shift)
        t->index[++b->bucket] = t->n_rows;
    t->index[t->n_index + t->n_rows++] = b->pending << 16 | b->pending_rule;
    b->written_rule = b->pending_rule;
    return true;
}

// Rows must be emitted in the order of their addresses.
static bool emit_row(struct builder *b, uint64_t address, uint16_t rule)
{
    uint32_t offset = (uint32_t)(address - b->base);
    if (offset != b->pending && !flush_row(b))
        return false;
    b->pending = offset;
    b->pending_rule = rule;
    return true;
}

// Adds the rows of one FDE between floor and end. Returns false if out of memory.
static bool add_fde(struct builder *b, const struct eh_fde *fde)
{
    if (fde->end <= b->floor || fde->begin >= b->end)
        return true;
    struct cfi_program *p = &b->program;
    uint64_t end = fde->end < b->end ? fde->end : b->end;
    eh_program(b->in, fde, p);
    b->table->n_fdes++;
    for (;;) {
        uint64_t until = end;
        enum cfi_next next = cfi_run(p, &until);
        uint64_t from = p->location > b->floor ? p->location : b->floor;
        if (next != CFI_ROW)
            until = end;
        if (from < until && from < end) {
            uint16_t rule = next == CFI_BAD ? UNWIND_RULE_UNSUPPORTED
                                            : unwind_rules_add(b->rules, &p->state, b->in->frame.p,
                                                               b->in->frame.n, fde->cie->signal);
            if (!emit_row(b, from, rule))
                return false;
        }
        if (next != CFI_ROW)
            break;
        p->location = until;
    }
    b->floor = end;
    return end == b->end || emit_row(b, end, UNWIND_RULE_NONE);
}

// Heapsort: in place and without recursion.
static void sift_down(struct place *a, size_t root, size_t n)
{
    for (size_t child; (child = 2 * root + 1) < n; root = child) {
        if (child + 1 < n && a[child + 1].begin > a[child].begin)
            child++;
        if (a[root].begin >= a[child].begin)
            return;
        struct place t = a[root];
        a[root] = a[child];
        a[child] = t;
    }
}

static void sort_places(struct place *a, size_t n)
{
    for (size_t i = n / 2; i-- > 0;)
        sift_down(a, i, n);
    for (size_t i = n; i-- > 1;) {
        struct place t = a[0];
        a[0] = a[i];
        a[i] = t;
        sift_down(a, 0, i);
    }
}

// Without a search table: finds all FDEs and adds them in order.
static bool build_by_walking(struct builder *b)
{
    struct process_buffer places = {.limit = (size_t)1 << 30};
    struct eh_fde fde;
    bool ok = true, sorted = true;
    uint64_t offset = 0, last = 0;
    for (;;) {
        enum eh_entry kind = eh_fde_read(b->in, &b->cies, offset, &fde);
        if (kind == EH_BAD || kind == EH_END) {
            // .debug_frame has no terminator; a zero length is only padding there.
            if (kind == EH_END && b->in->debug_frame && b->in->frame.n >= 4 &&
                offset < b->in->frame.n - 4) {
                offset += 4;
                continue;
            }
            break;
        }
        if (kind == EH_FDE && fde.begin < b->end && fde.end > b->base) {
            struct place *p = process_buffer_add(&places, sizeof *p);
            if (!p) {
                ok = false;
                break;
            }
            *p = (struct place){fde.begin, offset};
            sorted &= fde.begin >= last;
            last = fde.begin;
        }
        offset = fde.next;
    }
    size_t n = places.n / sizeof(struct place);
    struct place *place = (struct place *)places.p;
    if (!sorted)
        sort_places(place, n);
    for (size_t i = 0; ok && i < n; i++)
        if (eh_fde_read(b->in, &b->cies, place[i].offset, &fde) == EH_FDE)
            ok = add_fde(b, &fde);
    process_buffer_fini(&places);
    return ok;
}

static bool is_sorted(const struct eh_table *table)
{
    uint64_t last = 0, begin, fde;
    for (uint64_t i = 0; i < table->count; i++) {
        eh_table_get(table, i, &begin, &fde);
        if (begin < last)
            return false;
        last = begin;
    }
    return true;
}

static bool build_table_rows(struct builder *b)
{
    struct eh_table table;
    if (b->in->debug_frame || b->in->header.n == 0 || !eh_table_open(&b->in->header, &table) ||
        table.count == 0 || !is_sorted(&table))
        return build_by_walking(b);
    for (uint64_t i = 0; i < table.count; i++) {
        uint64_t begin, address;
        struct eh_fde fde;
        eh_table_get(&table, i, &begin, &address);
        if (begin >= b->end)
            break;
        uint64_t offset = address - b->in->frame.address;
        if (eh_fde_read(b->in, &b->cies, offset, &fde) == EH_FDE && fde.begin == begin &&
            !add_fde(b, &fde))
            return false;
    }
    return true;
}

struct unwind_table *unwind_table_build(const struct eh_input *in, uint64_t base, uint64_t end,
                                        struct unwind_rules *rules)
{
    if (end <= base || end - base > UINT32_MAX - (1u << UNWIND_BUCKET_SHIFT) ||
        in->frame.n > INT32_MAX)
        return NULL;
    struct builder *b = process_map(sizeof *b);
    if (!b)
        return NULL;
    // Aim for at least eight rows per bucket: an FDE has about eight rows and takes about 55 bytes.
    uint32_t shift = UNWIND_BUCKET_SHIFT;
    while (shift < UNWIND_BUCKET_SHIFT_MAX && (end - base) >> shift > in->frame.n / 60)
        shift++;
    // One entry per bucket, and one for the end.
    uint32_t n_index = (uint32_t)((end - base - 1) >> shift) + 2;
    uint32_t rows = (uint32_t)(in->frame.n / 8) + 64;
    size_t bytes = sizeof(struct unwind_table) + ((size_t)n_index + rows) * sizeof(uint32_t);
    struct unwind_table *table = process_map(bytes);
    if (!table)
        goto out;
    table->refs = 1;
    table->mapped = bytes;
    table->n_index = n_index;
    table->shift = shift;
    b->in = in;
    b->rules = rules;
    b->table = table;
    b->base = b->floor = base;
    b->end = end;
    b->cap_rows = rows;
    b->written_rule = UINT32_MAX;
    b->pending_rule = UNWIND_RULE_NONE;
    bool ok = build_table_rows(b) && flush_row(b);
    table = b->table;
    if (!ok) {
        unwind_table_free(table);
        table = NULL;
        goto out;
    }
    while (b->bucket < n_index - 1)
        table->index[++b->bucket] = table->n_rows;
    bytes = unwind_table_bytes(table);
    struct unwind_table *shrunk = process_remap(table, table->mapped, bytes);
    if (shrunk) {
        table = shrunk;
        table->mapped = bytes;
    }
out:
    process_unmap(b, sizeof *b);
    return table;
}

void unwind_table_free(struct unwind_table *table)
{
    if (table && atomic_fetch_sub(&table->refs, 1) == 1)
        process_unmap(table, table->mapped);
}
