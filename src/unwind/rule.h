// Unwind rules: how to get from a frame to its caller. All tables of a process share one dictionary
// of rules, so a table row refers to a rule by a 16-bit number.
//
// The dictionary only grows. Only the thread that builds snapshots writes it; handlers read it
// through a snapshot that was published after the writing.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "unwind/cfi.h"

enum unwind_kind {
    UNWIND_NONE,        // no information
    UNWIND_UNSUPPORTED, // information that we cannot interpret
    UNWIND_ROOT,        // no caller: the outermost frame
    UNWIND_SIGNAL,      // the kernel's signal frame is at the stack pointer
    UNWIND_PLT,         // CFA = sp + 8, or sp + 16 from byte cfa of a PLT entry on
    UNWIND_DEREF,       // CFA = *(bp + cfa): a realigned stack
    UNWIND_GENERAL,     // an unwind_general at pool offset cfa
    UNWIND_SP,          // CFA = sp + cfa
    UNWIND_BP,          // CFA = bp + cfa
};

// Numbers of the predefined rules.
enum {
    UNWIND_RULE_NONE = UNWIND_NONE,
    UNWIND_RULE_UNSUPPORTED = UNWIND_UNSUPPORTED,
    UNWIND_RULE_ROOT = UNWIND_ROOT,
    UNWIND_RULE_SIGNAL = UNWIND_SIGNAL,
};

// A rule is one word, from the lowest bit:
//     kind  8 bits
//     bp    16 bits, signed: slot of the caller's frame pointer
//     saved 16 bits, signed: slot of rbx (x86_64) or of the link register (aarch64)
//     cfa   24 bits, signed: at the top, because it is on the critical path to the next frame
// A slot is an offset from the CFA; 0: the register is unchanged. If its lowest bit is set, the
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

// The three fields, sign-extended for adding to addresses.
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
    uint16_t size; // including items
    uint8_t n;
    uint8_t signal; // signal frame: the caller was interrupted
    uint8_t cfa_expression, cfa_register;
    uint16_t unused;
    int32_t cfa_value;
    struct unwind_general_item {
        uint8_t reg, how; // enum cfi_how
        uint16_t unused;
        int32_t value; // offset, register, or pool offset of an expression
    } item[];
};

#define UNWIND_RULES_MAX 65536
#define UNWIND_POOL_MAX (1 << 20)

struct unwind_rules {
    unwind_rule *rule; // room for UNWIND_RULES_MAX
    uint8_t *pool;     // expressions (u16 length, bytes) and unwind_generals
    _Atomic uint32_t refs;
    uint32_t n, n_pool;
    uint32_t n_hash; // a power of two
    uint16_t *hash;  // rule numbers; 0: empty
};

// Returns a dictionary with one reference; NULL if out of memory.
struct unwind_rules *unwind_rules_new(void);
void unwind_rules_free(struct unwind_rules *rules); // drops one reference
size_t unwind_rules_bytes(const struct unwind_rules *rules);

// Returns the number of the rule for a call frame state, adding it if needed;
// UNWIND_RULE_UNSUPPORTED if there is no room. Expressions are within the n bytes at base. signal:
// the CIE is marked as a signal frame.
uint16_t unwind_rules_add(struct unwind_rules *rules, const struct cfi_state *state,
                          const uint8_t *base, size_t n, bool signal);

// Reduces a state to a short rule, or returns UNWIND_GENERAL. Defined per architecture.
// Signal-safe.
unwind_rule unwind_rule_reduce(const struct cfi_state *state, const uint8_t *base, size_t n,
                               bool signal);
