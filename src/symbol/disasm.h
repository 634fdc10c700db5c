// Machine code as text, by objdump: found, run and read as pprof does it.
#pragma once

#include "base/arena.h"
#include "base/str.h"

struct disasm_tool {
    char path[4096]; // empty: there is none
    bool is_llvm;
    bool is_known; // it was asked which objdump it is
    const char *tools;
};

// tools is pprof's -tools: entries separated by commas, each a directory, or name:directory for
// one tool. Empty: PATH; it must outlive tool. llvm-objdump is preferred to GNU's. Asking a program
// which it is takes as long as disassembling a function: that is done only when it has failed.
void disasm_find(struct disasm_tool *tool, const char *tools);

struct disasm_inst {
    uint64_t addr;
    struct str text, function, file; // empty: unknown
    uint32_t line;
};

struct disasm_range {
    const char *binary;
    uint64_t start, end; // the file's own addresses
    bool intel_syntax;
    // The answer: instructions in the order of the output, or why there are none (NULL: fine).
    struct disasm_inst *insts;
    size_t n;
    const char *error;
};

// Disassembles all ranges, several at a time, except those that have an error already. Answers
// live in arena.
// If the tool turns out to be unfit (LLVM's before 8, or no objdump), the next one takes its place.
void disasm_run(struct disasm_tool *tool, struct disasm_range *ranges, size_t n,
                struct arena *arena);

// What objdump printed; the pieces point into output. *n instructions.
struct disasm_inst *disasm_parse(struct str output, struct arena *arena, size_t *n);
// Whether `objdump --version` printed this: 1 GNU's, 2 LLVM's of an age that is fit for use.
int disasm_kind(struct str version);
