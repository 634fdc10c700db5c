// Rules: what a row of a table says, how to get from a frame to its caller. All tables of a
// process share one dictionary of them, so a rule is known by 16 bits wherever it occurs.
//
// The dictionary only grows. Its one writer is the thread that builds snapshots; handlers
// read it through a snapshot that was published after the writing.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "unwind/cfi.h"

enum unwind_kind {
    UNWIND_NONE,        // no information
    UNWIND_UNSUPPORTED, // some that we cannot follow
    UNWIND_ROOT,        // there is no caller
    UNWIND_SIGNAL,      // the kernel's signal frame at the stack pointer
    UNWIND_PLT,         // CFA = stack pointer + 8, and 8 more from byte cfa of an entry on
    UNWIND_DEREF,       // CFA = *(frame pointer + cfa): a realigned stack
    UNWIND_GENERAL,     // an unwind_general at offset cfa of the pool
    UNWIND_SP,          // CFA = stack pointer + cfa
    UNWIND_BP,          // CFA = frame pointer + cfa
};

// The numbers of the first rules.
enum {
    UNWIND_RULE_NONE = UNWIND_NONE,
    UNWIND_RULE_UNSUPPORTED = UNWIND_UNSUPPORTED,
    UNWIND_RULE_ROOT = UNWIND_ROOT,
    UNWIND_RULE_SIGNAL = UNWIND_SIGNAL,
};

// A rule is one word, from the lowest bit up:
//     kind  8 bits
//     bp    16 bits, signed: slot of the caller's frame pointer
//     saved 16 bits, signed: slot of rbx (x86_64) or of the link register (aarch64)
//     cfa   24 bits, signed: on top, because the next frame waits for it
// Slots are offsets from the CFA; 0: the register is untouched. With the lowest bit set, the
// rest is an offset from the frame pointer (realigned stacks).
typedef uint64_t unwind_rule;

#define UNWIND_CFA_MAX ((1 << 23) - 1)

static inline unwind_rule unwind_rule_make(enum unwind_kind kind, int32_t cfa, int16_t bp,
                                           int16_t saved)
{
    return (uint64_t)kind | (uint64_t)(uint16_t)bp << 8 | (uint64_t)(uint16_t)saved << 24 |
           (uint64_t)cfa << 40;
}

static inline enum unwind_kind unwind_rule_kind(unwind_rule rule)
{
    return (enum unwind_kind)(rule & 0xff);
}

// The three numbers, to be added to addresses.
static inline uintptr_t unwind_rule_cfa(unwind_rule rule)
{
    return (uintptr_t)((intptr_t)rule >> 40);
}

static inline uintptr_t unwind_rule_bp(unwind_rule rule)
{
    return (uintptr_t)(intptr_t)(int16_t)(rule >> 8);
}

static inline uintptr_t unwind_rule_saved(unwind_rule rule)
{
    return (uintptr_t)(intptr_t)(int16_t)(rule >> 24);
}

// The long form, for the few rows that need it: any register, any expression.
struct unwind_general {
    uint16_t size; // of all of it, items included
    uint8_t n;
    uint8_t signal; // the caller was interrupted
    uint8_t cfa_expression, cfa_register;
    uint16_t unused;
    int32_t cfa_value;
    struct unwind_general_item {
        uint8_t reg, how; // enum cfi_how
        uint16_t unused;
        int32_t value; // offset, register, or offset in the pool of an expression
    } item[];
};

#define UNWIND_RULES_MAX 65536
#define UNWIND_POOL_MAX (1 << 20)

struct unwind_rules {
    unwind_rule *rule; // UNWIND_RULES_MAX of them reserved
    uint8_t *pool;     // expressions (u16 length, bytes) and unwind_generals
    _Atomic uint32_t refs;
    uint32_t n, n_pool;
    uint32_t n_hash; // a power of two
    uint16_t *hash;  // rule numbers; 0: empty
};

// With one reference; NULL without memory.
struct unwind_rules *unwind_rules_new(void);
void unwind_rules_free(struct unwind_rules *rules); // gives one reference back
size_t unwind_rules_bytes(const struct unwind_rules *rules);

// The rule for a state of a call frame program whose section begins at base and ends n bytes
// later. signal: its CIE says so.
uint16_t unwind_rules_add(struct unwind_rules *rules, const struct cfi_state *state,
                          const uint8_t *base, size_t n, bool signal);

// The architecture's: reduces a state to a short rule (kind, offsets), or says UNWIND_GENERAL.
// Signal-safe.
unwind_rule unwind_rule_reduce(const struct cfi_state *state, const uint8_t *base, size_t n,
                               bool signal);
