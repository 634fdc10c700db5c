#if defined(__aarch64__)
#include "stepper.h"

#include <stddef.h>
#include <sys/mman.h>

enum { STEP = 0xd42a2000, ON = 0xd42a2020, OFF = 0xd42a2040 }; // brk #0x5100 and so on
enum { SIGRETURN = 139, MOV_X8_SIGRETURN = 0xd2801168, SVC = 0xd4000001 };

// Where execution can go from one instruction on. A group that was not hit is kept below the
// groups of a signal handler, which runs in between.
#define PLACES 8
#define GROUPS 8
struct group {
    unsigned n;
    uint32_t *at[PLACES];
    uint32_t was[PLACES];
};
static struct group groups[GROUPS];
static unsigned n_groups;
static enum stepper_last last;
static uintptr_t called_at;

__asm__(".text; .globl stepper_on, stepper_off\n"
        "stepper_on: .cfi_startproc; brk #0x5101; ret; .cfi_endproc\n"
        "stepper_off: .cfi_startproc; brk #0x5102; ret; .cfi_endproc\n");

static void patch(uint32_t *at, uint32_t code)
{
    // Not by functions of libraries: the breakpoint may be in there.
    register uintptr_t page __asm__("x0") = (uintptr_t)at & -(uintptr_t)4096;
    register long size __asm__("x1") = 4096;
    register long access __asm__("x2") = PROT_READ | PROT_WRITE | PROT_EXEC;
    register long number __asm__("x8") = 226; // mprotect
    __asm__ volatile("svc #0" : "+r"(page) : "r"(size), "r"(access), "r"(number) : "memory");
    *(volatile uint32_t *)at = code;
    __asm__ volatile("dc cvau, %0; dsb ish; ic ivau, %0; dsb ish; isb" : : "r"(at) : "memory");
}

static void remove_all(void)
{
    for (unsigned g = n_groups; g-- > 0;)
        for (unsigned i = groups[g].n; i-- > 0;)
            patch(groups[g].at[i], groups[g].was[i]);
}

static void insert_all(void)
{
    for (unsigned g = 0; g < n_groups; g++)
        for (unsigned i = 0; i < groups[g].n; i++) {
            groups[g].was[i] = *groups[g].at[i];
            patch(groups[g].at[i], STEP);
        }
}

static bool has(const struct group *g, const uint32_t *at)
{
    for (unsigned i = 0; i < g->n; i++)
        if (g->at[i] == at)
            return true;
    return false;
}

static void add(struct group *g, uint32_t *at)
{
    if (g->n < PLACES && !has(g, at))
        g->at[g->n++] = at;
}

static ptrdiff_t field(uint32_t op, unsigned low, unsigned bits)
{
    return (int32_t)(op << (32 - low - bits)) >> (32 - bits);
}

static bool holds(unsigned condition, uint64_t pstate)
{
    bool n = pstate >> 31 & 1, z = pstate >> 30 & 1, c = pstate >> 29 & 1, v = pstate >> 28 & 1;
    bool is[] = {z, c, n, v, c && !z, n == v, n == v && !z, true};
    return is[condition >> 1] != ((condition & 1) && condition != 15);
}

static uint64_t strip(uint64_t address)
{
    register uint64_t x30 __asm__("x30") = address;
    __asm__("hint #7" : "+r"(x30));
    return x30;
}

// The target of a branch that is taken or may be taken; 0: no branch.
static uint32_t *branch(uint32_t *pc, uint32_t op, const mcontext_t *m, bool *taken)
{
    uint64_t reg = (op & 31) == 31 ? 0 : m->regs[op & 31];
    *taken = true;
    if ((op & 0x7c000000) == 0x14000000) // b, bl
        return pc + field(op, 0, 26);
    if ((op & 0xff000000) == 0x54000000) { // b.cond
        *taken = holds(op & 15, m->pstate);
        return pc + field(op, 5, 19);
    }
    if ((op & 0x7e000000) == 0x34000000) { // cbz, cbnz
        *taken = ((op >> 31 ? reg : (uint32_t)reg) == 0) != (op >> 24 & 1);
        return pc + field(op, 5, 19);
    }
    if ((op & 0x7e000000) == 0x36000000) { // tbz, tbnz
        unsigned bit = (op >> 31) << 5 | (op >> 19 & 31);
        *taken = (reg >> bit & 1) == (op >> 24 & 1);
        return pc + field(op, 5, 14);
    }
    return NULL;
}

static bool is_exclusive(uint32_t op, bool load)
{
    bool compare_and_swap = (op & 0x80200000) == 0x00200000;
    return (op & 0x3fc00000) == (load ? 0x08400000 : 0x08000000) && !compare_and_swap;
}

// Nothing may interrupt what happens between an exclusive load and its store: the next
// instructions are those behind them.
static void after_exclusive(struct group *g, uint32_t *pc, const mcontext_t *m)
{
    bool taken;
    uint32_t *end = pc + 1;
    while (end < pc + 32 && !is_exclusive(*end, false))
        end++;
    add(g, end + 1);
    for (uint32_t *p = pc + 1; p < end; p++) {
        uint32_t *to = branch(p, *p, m, &taken);
        if (to && (to < pc || to > end))
            add(g, to);
    }
}

static void next(struct group *g, const mcontext_t *m)
{
    uint32_t *pc = (uint32_t *)m->pc, op = *pc;
    bool taken;
    g->n = 0;
    last = STEPPER_OTHER;
    called_at = m->pc;
    if (is_exclusive(op, true)) {
        after_exclusive(g, pc, m);
        return;
    }
    if ((op & 0xfe000000) == 0xd6000000) { // br, blr, ret, and those that authenticate
        unsigned reg = op >> 5 & 31;
        uint64_t to = m->regs[reg == 31 ? 30 : reg];
        unsigned kind = op >> 21 & 7;
        if (kind == 1)
            last = STEPPER_CALL;
        else if (kind == 2 || reg == 30)
            last = STEPPER_RETURN;
        add(g, (uint32_t *)(op & 0x800 ? strip(to) : to));
        return;
    }
    if (op == SVC && m->regs[8] == SIGRETURN)
        return; // where the signal came, a group waits
    uint32_t *to = branch(pc, op, m, &taken);
    if (to && (op & 0xfc000000) == 0x94000000)
        last = STEPPER_CALL;
    add(g, to && taken ? to : pc + 1);
}

// The return from a handler of the program, as it will be: our own handler returns through the
// same instructions, so there can be no breakpoint.
static bool at_trampoline(ucontext_t *uc, uint32_t *to, bool (*take)(ucontext_t *uc))
{
    mcontext_t *m = &uc->uc_mcontext;
    uint64_t pc = m->pc, x8 = m->regs[8];
    m->pc = (uint64_t)to;
    bool more = take(uc);
    last = STEPPER_OTHER;
    m->pc += 4;
    m->regs[8] = SIGRETURN;
    more = more && take(uc);
    m->pc = pc;
    m->regs[8] = x8;
    return more;
}

enum stepper_last stepper_last(uintptr_t *return_to)
{
    *return_to = called_at + 4;
    return last;
}

void stepper_trap(ucontext_t *uc, bool (*take)(ucontext_t *uc))
{
    mcontext_t *m = &uc->uc_mcontext;
    uint32_t *pc = (uint32_t *)m->pc;
    remove_all();
    for (unsigned g = n_groups; g-- > 0;)
        if (has(&groups[g], pc)) {
            n_groups = g; // it, and those of handlers that were left
            break;
        }
    bool more = true;
    if (*pc == ON) {
        m->pc += 4;
        last = STEPPER_UNKNOWN;
        more = take(uc);
    } else if (*pc == OFF) {
        m->pc += 4;
        insert_all();
        return;
    } else {
        more = take(uc);
    }
    pc = (uint32_t *)m->pc;
    struct group *g = &groups[n_groups];
    if (!more) {
        n_groups = 0;
    } else if (n_groups < GROUPS) {
        next(g, m);
        uint32_t *to = g->n ? g->at[0] : NULL;
        if (to && to[0] == MOV_X8_SIGRETURN && to[1] == SVC) {
            g->n = 0;
            more = at_trampoline(uc, to, take);
        }
        if (!more)
            n_groups = 0;
        else
            n_groups += g->n > 0;
    }
    insert_all();
}

#endif
