// Parses objdump's output. A line is an instruction ("1139: push %rbp"), a source line
// ("/src/a.c:12", from LLVM after "; "), a function ("main():"), or a symbol ("0000000000001139
// <main>:"). Any other line resets source line and function. The order of the checks follows pprof,
// including its quirks: a heading such as "Disassembly of section .text:" counts as a function
// until a blank line.
#include "symbol/disasm.h"

#include <ctype.h>

static bool is_objdump_space(char c)
{
    return c == ' ' || c == '\t' || c == '\f' || c == '\r' || c == '\n';
}

static size_t count_digits(struct str s, bool hex)
{
    size_t n = 0;
    while (n < s.n && (hex ? isxdigit((unsigned char)s.p[n]) : isdigit((unsigned char)s.p[n])))
        n++;
    return n;
}

static bool parse_instruction_line(struct str line, struct disasm_inst *inst)
{
    size_t n = count_digits(line, true), text = n + 1;
    if (n == 0 || text >= line.n || line.p[n] != ':' || !is_objdump_space(line.p[text]))
        return false;
    while (text < line.n && is_objdump_space(line.p[text]))
        text++;
    inst->text = str_from_to(line, text, line.n);
    return str_to_u64(str_from_to(line, 0, n), 16, &inst->addr);
}

// Strips the ";" and the blank that LLVM prepends.
static struct str without_mark(struct str line)
{
    size_t at = line.n > 0 && line.p[0] == ';';
    at += line.n > at && is_objdump_space(line.p[at]);
    return str_from_to(line, at, line.n);
}

static bool parse_source_line(struct str line, struct disasm_inst *at)
{
    struct str s = without_mark(line);
    for (size_t i = s.n; i-- > 0;) {
        struct str digits = str_from_to(s, i + 1, s.n);
        digits.n = s.p[i] == ':' ? count_digits(digits, false) : 0;
        if (digits.n == 0)
            continue;
        uint64_t number;
        if (str_to_u64(digits, 10, &number) && number <= UINT32_MAX) {
            at->file = str_from_to(s, 0, i);
            at->line = (uint32_t)number;
        }
        return true;
    }
    return false;
}

static size_t last_of(struct str s, struct str what)
{
    for (size_t i = s.n; i-- > 0;)
        if (str_starts(str_from_to(s, i, s.n), what))
            return i;
    return SIZE_MAX;
}

static bool parse_function_line(struct str line, struct disasm_inst *at)
{
    struct str s = without_mark(line);
    if (s.n == 0 || is_objdump_space(s.p[0]))
        s = line; // the ";" is part of the name
    size_t end = last_of(s, STR("():"));
    if (end != SIZE_MAX && end > 0 && !is_objdump_space(s.p[0])) {
        at->function = str_from_to(s, 0, end);
        return true;
    }
    end = last_of(line, STR(":"));
    if (end == SIZE_MAX)
        return false;
    size_t from = count_digits(line, true);
    from += from < end && is_objdump_space(line.p[from]);
    at->function = str_from_to(line, from, end);
    return true;
}

struct disasm_inst *disasm_parse(struct str output, struct arena *arena, size_t *n)
{
    struct disasm_inst *insts = NULL, at = {0};
    size_t cap = 0;
    struct str line;
    *n = 0;
    while (str_next_line(&output, &line)) {
        line = str_trim(line);
        if (parse_instruction_line(line, &at)) {
            insts = arena_push(arena, insts, *n, &cap, sizeof *insts);
            insts[(*n)++] = at;
        } else if (!parse_source_line(line, &at) && !parse_function_line(line, &at)) {
            at = (struct disasm_inst){0};
        }
    }
    return insts;
}

int disasm_kind(struct str version)
{
    size_t at = str_find(version, STR("LLVM version "), 0);
    if (at != SIZE_MAX) {
        struct str number = str_from_to(version, at + 13, version.n), rest = number;
        number.n = count_digits(number, false);
        uint64_t major;
        if (str_to_u64(number, 10, &major) && major >= 8)
            return 2;
        struct str line;
        if (str_next_line(&rest, &line) && str_find(line, STR("trunk"), 0) != SIZE_MAX)
            return 2;
    }
    return str_find(version, STR("GNU objdump"), 0) != SIZE_MAX ? 1 : 0;
}
