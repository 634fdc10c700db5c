#include "unwind/lookup.h"

#include <dlfcn.h>

#include "unwind/eh_frame.h"

#define ENTRIES 64
#define LOOKUPS_MAX 128 // per walk, about 1 to 2 ms: a handler must not run for long

// .eh_frame_hdr as all linkers write it: the address of .eh_frame relative to the field, a count,
// and pairs of offsets from the header.
struct header {
    uint8_t version, frame_encoding, count_encoding, table_encoding;
    int32_t frame;
    uint32_t count;
};

struct entry {
    int32_t begin, fde;
};

struct scratch {
    // Must be first: a struct unwind_general with its items, a rule in long form, valid during its
    // step.
    _Alignas(struct unwind_general) uint8_t
        general[sizeof(struct unwind_general) + UNWIND_REGS * sizeof(struct unwind_general_item)];
    struct eh_cie cie;
    struct cfi_program program;
    struct eh_fde fde;
    struct eh_input in, cie_in;
    struct header header;
    union {
        struct entry entries[ENTRIES];
        uint8_t cie_bytes[ENTRIES * sizeof(struct entry)];
    };
    uint8_t fde_bytes[1024];
};
_Static_assert(sizeof(struct scratch) <= UNWIND_SCRATCH, "the public size");

// Entries from lo on that may contain an offset: the first one begins at or before it, unless it is
// the table's first, and the one at hi begins after it. begin and end estimate where they begin.
struct entry_range {
    uint32_t lo, hi;
    int64_t begin, end;
};

// Returns the first of ENTRIES entries to read. Functions are of similar sizes, so interpolation
// takes about half as many reads as bisection; every third read bisects, in case they are
// not.
static uint32_t next_window(const struct entry_range *r, int64_t offset, unsigned read)
{
    uint64_t n = r->hi - r->lo, at = n / 2;
    if (read % 3 != 2 && offset > r->begin && r->end > offset)
        at = (uint64_t)(offset - r->begin) * n / (uint64_t)(r->end - r->begin);
    at = at > ENTRIES / 2 ? at - ENTRIES / 2 : 0;
    return r->lo + (uint32_t)(at < n - ENTRIES ? at : n - ENTRIES);
}

// Finds the last entry that begins at or before offset. Returns 1, 0 if there is none, -1 if the
// table is unreadable.
static int find_header_entry(struct walk *w, struct scratch *s, uintptr_t table,
                             struct entry_range range, int64_t offset, struct entry *found)
{
    struct entry *entries = s->entries;
    uint32_t at, n;
    for (unsigned read = 0;; read++) {
        n = range.hi - range.lo;
        at = range.lo;
        if (n > ENTRIES) {
            at = next_window(&range, offset, read);
            n = ENTRIES;
        }
        if (!step_copy(w, table + at * sizeof *entries, entries, n * sizeof *entries))
            return -1;
        if (n == range.hi - range.lo)
            break;
        if (entries[0].begin > offset) {
            range.hi = at;
            range.end = entries[0].begin;
        } else if (entries[n - 1].begin <= offset) {
            range.lo = at + n - 1;
            range.begin = entries[n - 1].begin;
        } else {
            break;
        }
    }
    while (n > 0 && entries[n - 1].begin > offset)
        n--;
    if (n > 0)
        *found = entries[n - 1];
    return n > 0;
}

// Copies an entry of .eh_frame. Returns its size; 0 if it is unreadable or larger than room, which
// is at least FEW. One read suffices if the entry is small and on one page.
static size_t copy_frame_entry(struct walk *w, uintptr_t at, uint8_t *to, size_t room)
{
    enum { FEW = 128 };
    uint32_t length;
    size_t n = STEP_PAGE - (at & (STEP_PAGE - 1));
    n = n < sizeof length ? sizeof length : n < FEW ? n : FEW;
    if (!step_copy(w, at, to, n))
        return 0;
    __builtin_memcpy(&length, to, sizeof length);
    if (length == 0 || length > room - sizeof length)
        return 0;
    length += sizeof length;
    return length <= n || step_copy(w, at, to, length) ? length : 0;
}

static bool has_expression(const struct cfi_state *state)
{
    bool any = state->cfa_expression;
    for (unsigned i = 0; i < UNWIND_REGS; i++)
        any |= state->how[i] == CFI_EXPRESSION || state->how[i] == CFI_VAL_EXPRESSION;
    return any;
}

// Reads the FDE at this address and its CIE.
static bool lookup_read_fde(struct walk *w, struct scratch *s, uintptr_t at, uintptr_t header)
{
    size_t n = copy_frame_entry(w, at, s->fde_bytes, sizeof s->fde_bytes);
    if (n < 8)
        return false;
    uint32_t back;
    __builtin_memcpy(&back, s->fde_bytes + 4, 4);
    uintptr_t cie_at = at + 4 - back;
    size_t n_cie = back ? copy_frame_entry(w, cie_at, s->cie_bytes, sizeof s->cie_bytes) : 0;
    if (!n_cie)
        return false;
    s->in = (struct eh_input){.frame = {s->fde_bytes, n, at}, .header.address = header};
    s->cie_in = (struct eh_input){.frame = {s->cie_bytes, n_cie, cie_at}};
    // Expressions are stored as offsets in the FDE's copy, so the CIE must have none.
    return eh_fde_parse(&s->in, &s->cie_in, &s->cie, &s->program, &s->fde) &&
           !has_expression(&s->cie.initial);
}

// Runs the program up to pc.
static unwind_rule run_program_to(struct scratch *s, uintptr_t pc)
{
    struct cfi_program *p = &s->program;
    eh_program(&s->in, &s->fde, p);
    for (;;) {
        uint64_t until = 0;
        enum cfi_next next = cfi_run(p, &until);
        if (next == CFI_BAD)
            return UNWIND_UNSUPPORTED;
        if (next == CFI_LAST || pc < until)
            return unwind_rule_reduce(&p->state, s->fde_bytes, s->in.frame.n, s->cie.signal);
        p->location = until;
    }
}

// Builds the long form. It supports no expressions, which would have to be in the pool.
static bool make_general_rule(struct scratch *s)
{
    const struct cfi_state *state = &s->program.state;
    struct unwind_general *g = (struct unwind_general *)s->general;
    if (has_expression(state) || state->cfa_register >= UNWIND_REGS)
        return false;
    g->n = 0;
    g->signal = s->cie.signal;
    g->cfa_expression = 0;
    g->cfa_register = state->cfa_register;
    g->cfa_value = state->cfa_value;
    for (unsigned reg = 0; reg < UNWIND_REGS; reg++)
        if (state->how[reg] != CFI_SAME)
            g->item[g->n++] = (struct unwind_general_item){
                .reg = (uint8_t)reg, .how = state->how[reg], .value = state->value[reg]};
    return true;
}

static bool lookup_find_rule(struct walk *w, struct scratch *s, const struct lookup_code *code,
                             uintptr_t pc, unwind_rule *rule)
{
    struct header *h = &s->header;
    struct entry entry;
    if (code->n_header < sizeof *h || !step_copy(w, code->header, h, sizeof *h) ||
        h->version != 1 || h->count_encoding != 0x03 || h->table_encoding != 0x3b ||
        h->count > (code->n_header - sizeof *h) / sizeof entry)
        return false;
    // In these encodings the address of .eh_frame takes four bytes, which struct header assumes.
    if (h->frame_encoding != 0x1b && h->frame_encoding != 0x03 && h->frame_encoding != 0x3b)
        return false;
    *rule = UNWIND_NONE;
    struct entry_range all = {0, h->count, (int64_t)(code->start - code->header),
                              (int64_t)(code->end - code->header)};
    int found = find_header_entry(w, s, code->header + sizeof *h, all, (int64_t)(pc - code->header),
                                  &entry);
    if (found <= 0)
        return found == 0;
    uintptr_t at = code->header + (uintptr_t)(intptr_t)entry.fde;
    if (!lookup_read_fde(w, s, at, code->header))
        return false;
    if (pc < s->fde.begin || pc >= s->fde.end)
        return true;
    *rule = run_program_to(s, pc);
    if (unwind_rule_kind(*rule) != UNWIND_GENERAL)
        return true;
    *rule = STEP_LOOKED_UP;
    return make_general_rule(s);
}

bool lookup_rule(struct walk *w, const struct lookup_code *code, uintptr_t pc, unwind_rule *rule)
{
    struct unwind_cache *cache = w->cache;
    if (!cache || w->pid == STEP_NO_CALLS || (cache->looking && !w->looking) ||
        cache->lookups == LOOKUPS_MAX)
        return false;
    cache->lookups++;
    cache->looking = true;
    w->looking = 1;
    __asm__ volatile("" : : : "memory");
    return lookup_find_rule(w, (struct scratch *)cache->scratch, code, pc, rule);
}

void lookup_end(struct walk *w)
{
    if (!w->looking)
        return;
    __asm__ volatile("" : : : "memory");
    w->cache->looking = false;
    w->looking = 0;
}

#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 35)
__typeof__(_dl_find_object) _dl_find_object __attribute__((weak));

// _dl_find_object is made for unwinders: lock-free and async-signal-safe.
bool lookup_object(uintptr_t pc, struct lookup_code *code)
{
    struct dl_find_object o;
    if (!_dl_find_object || _dl_find_object((void *)pc, &o) != 0 || !o.dlfo_eh_frame)
        return false;
    code->start = (uintptr_t)o.dlfo_map_start;
    code->end = (uintptr_t)o.dlfo_map_end;
    code->header = (uintptr_t)o.dlfo_eh_frame;
    code->n_header = code->header < code->end ? code->end - code->header : 0;
    return true;
}
bool unwind_finds_objects(void)
{
    return _dl_find_object;
}

bool lookup_no_object(uintptr_t pc)
{
    struct dl_find_object o;
    return _dl_find_object && _dl_find_object((void *)pc, &o) != 0;
}
#else
bool unwind_finds_objects(void)
{
    return false;
}

bool lookup_no_object(uintptr_t pc)
{
    (void)pc;
    return false;
}

bool lookup_object(uintptr_t pc, struct lookup_code *code)
{
    (void)pc, (void)code;
    return false;
}
#endif
