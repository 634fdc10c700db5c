// Evaluates DWARF expressions, as far as call frame information uses them.
#include "unwind/step.h"

#define DEPTH 12
#define OPERATIONS 128

struct machine {
    struct walk *walk;
    const struct unwind_regs *regs;
    uint64_t valid;
    const uint8_t *p, *begin, *end;
    unsigned n;
    bool bad;
    uintptr_t stack[DEPTH];
};

static void expression_push(struct machine *m, uintptr_t value)
{
    if (m->n == DEPTH)
        m->bad = true;
    else
        m->stack[m->n++] = value;
}

static uintptr_t expression_pop(struct machine *m)
{
    if (m->n == 0) {
        m->bad = true;
        return 0;
    }
    return m->stack[--m->n];
}

static uintptr_t expression_fixed(struct machine *m, unsigned bytes, bool is_signed)
{
    if ((size_t)(m->end - m->p) < bytes) {
        m->bad = true;
        return 0;
    }
    uintptr_t value = 0;
    for (unsigned i = 0; i < bytes; i++)
        value |= (uintptr_t)*m->p++ << (8 * i);
    unsigned unused = 64 - 8 * bytes;
    return is_signed ? (uintptr_t)((intptr_t)(value << unused) >> unused) : value;
}

static uintptr_t expression_leb(struct machine *m, bool is_signed)
{
    uintptr_t value = 0;
    for (unsigned shift = 0; m->p < m->end && shift < 70;) {
        uint8_t byte = *m->p++;
        if (shift < 64)
            value |= (uintptr_t)(byte & 0x7f) << shift;
        shift += 7;
        if (!(byte & 0x80)) {
            if (is_signed && shift < 64 && (byte & 0x40))
                value |= ~(uintptr_t)0 << shift;
            return value;
        }
    }
    m->bad = true;
    return 0;
}

static void expression_push_reg(struct machine *m, uintptr_t reg)
{
    uintptr_t offset = expression_leb(m, true);
    if (reg >= UNWIND_REGS || !(m->valid >> reg & 1))
        m->bad = true;
    else
        expression_push(m, m->regs->r[reg] + offset);
}

static void expression_deref(struct machine *m, unsigned bytes)
{
    uintptr_t value = 0;
    if (!step_load(m->walk, expression_pop(m), &value) || bytes == 0 || bytes > 8)
        m->bad = true;
    else
        expression_push(m, bytes == 8 ? value : value & (((uintptr_t)1 << (8 * bytes)) - 1));
}

static void expression_jump(struct machine *m, bool taken)
{
    intptr_t distance = (intptr_t)expression_fixed(m, 2, true);
    if (!taken)
        return;
    if (distance < m->begin - m->p || distance > m->end - m->p)
        m->bad = true;
    else
        m->p += distance;
}

static void expression_binary(struct machine *m, uint8_t op)
{
    uintptr_t b = expression_pop(m), a = expression_pop(m), value = 0;
    intptr_t sa = (intptr_t)a, sb = (intptr_t)b;
    switch (op) {
    case 0x1a: // and
        value = a & b;
        break;
    case 0x1b: // div, signed
        if (sb == 0 || (sb == -1 && sa == INTPTR_MIN))
            m->bad = true;
        else
            value = (uintptr_t)(sa / sb);
        break;
    case 0x1c: // minus
        value = a - b;
        break;
    case 0x1d: // mod, unsigned
        if (b == 0)
            m->bad = true;
        else
            value = a % b;
        break;
    case 0x1e: // mul
        value = a * b;
        break;
    case 0x21: // or
        value = a | b;
        break;
    case 0x22: // plus
        value = a + b;
        break;
    case 0x24: // shl
        value = b < 64 ? a << b : 0;
        break;
    case 0x25: // shr
        value = b < 64 ? a >> b : 0;
        break;
    case 0x26: // shra
        value = (uintptr_t)(sa >> (b < 64 ? b : 63));
        break;
    case 0x27: // xor
        value = a ^ b;
        break;
    case 0x29: // eq
        value = a == b;
        break;
    case 0x2a: // ge
        value = sa >= sb;
        break;
    case 0x2b: // gt
        value = sa > sb;
        break;
    case 0x2c: // le
        value = sa <= sb;
        break;
    case 0x2d: // lt
        value = sa < sb;
        break;
    case 0x2e: // ne
        value = a != b;
        break;
    default:
        m->bad = true;
    }
    expression_push(m, value);
}

static void expression_pick(struct machine *m, unsigned index)
{
    if (index >= m->n)
        m->bad = true;
    else
        expression_push(m, m->stack[m->n - 1 - index]);
}

static void expression_execute(struct machine *m, uint8_t op)
{
    if (op >= 0x30 && op <= 0x4f) { // lit0 to lit31
        expression_push(m, op - 0x30u);
        return;
    }
    if (op >= 0x70 && op <= 0x8f) { // breg0 to breg31
        expression_push_reg(m, op - 0x70u);
        return;
    }
    uintptr_t a, b, c;
    switch (op) {
    case 0x03: // addr
    case 0x0e: // const8u
    case 0x0f: // const8s
        expression_push(m, expression_fixed(m, 8, false));
        break;
    case 0x06:
        expression_deref(m, 8);
        break;
    case 0x08: // const1u, and so on up to const4s
    case 0x09:
    case 0x0a:
    case 0x0b:
    case 0x0c:
    case 0x0d:
        expression_push(m, expression_fixed(m, 1u << ((op - 8) >> 1), op & 1));
        break;
    case 0x10: // constu
    case 0x11: // consts
        expression_push(m, expression_leb(m, op & 1));
        break;
    case 0x12: // dup
        expression_pick(m, 0);
        break;
    case 0x13: // drop
        expression_pop(m);
        break;
    case 0x14: // over
        expression_pick(m, 1);
        break;
    case 0x15: // pick
        expression_pick(m, (unsigned)expression_fixed(m, 1, false));
        break;
    case 0x16: // swap
        a = expression_pop(m);
        b = expression_pop(m);
        expression_push(m, a);
        expression_push(m, b);
        break;
    case 0x17: // rot
        a = expression_pop(m);
        b = expression_pop(m);
        c = expression_pop(m);
        expression_push(m, a);
        expression_push(m, c);
        expression_push(m, b);
        break;
    case 0x19: // abs
        a = expression_pop(m);
        expression_push(m, (intptr_t)a < 0 ? 0 - a : a);
        break;
    case 0x1f: // neg
        expression_push(m, 0 - expression_pop(m));
        break;
    case 0x20: // not
        expression_push(m, ~expression_pop(m));
        break;
    case 0x23: // plus_uconst
        a = expression_pop(m);
        expression_push(m, a + expression_leb(m, false));
        break;
    case 0x28: // bra
        a = expression_pop(m);
        expression_jump(m, a != 0);
        break;
    case 0x2f: // skip
        expression_jump(m, true);
        break;
    case 0x92: // bregx
        expression_push_reg(m, expression_leb(m, false));
        break;
    case 0x94: // deref_size
        expression_deref(m, (unsigned)expression_fixed(m, 1, false));
        break;
    case 0x96: // nop
        break;
    default:
        expression_binary(m, op);
    }
}

bool step_expression(struct walk *w, const struct unwind_regs *regs, uint64_t valid,
                     const uint8_t *p, size_t n, bool push_initial, uintptr_t initial,
                     uintptr_t *result)
{
    struct machine m;
    m.walk = w;
    m.regs = regs;
    m.valid = valid;
    m.p = m.begin = p;
    m.end = p + n;
    m.n = 0;
    m.bad = false;
    if (push_initial)
        expression_push(&m, initial);
    for (unsigned i = 0; m.p < m.end && !m.bad; i++) {
        if (i == OPERATIONS)
            return false;
        expression_execute(&m, *m.p++);
    }
    *result = expression_pop(&m);
    return !m.bad;
}
