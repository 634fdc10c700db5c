// Disassembles code with objdump. Finding, running and parsing it follow pprof.
#pragma once

#include "base/arena.h"
#include "base/str.h"

struct disasm_tool {
    char path[4096]; // empty: no objdump found
    bool is_llvm;
    bool is_known; // its version was queried
    const char *tools;
};

// Finds objdump. tools is pprof's -tools: entries separated by commas, each a directory, or
// name:directory for one tool. If empty, searches PATH. tools must outlive tool. Prefers
// llvm-objdump to GNU objdump. Does not query the version, which takes as long as disassembling a
// function; disasm_run does so after a failure.
void disasm_find(struct disasm_tool *tool, const char *tools);

struct disasm_inst {
    uint64_t addr;
    struct str text, function, file; // empty: unknown
    uint32_t line;
};

struct disasm_range {
    const char *binary;
    uint64_t start, end; // virtual addresses of the file
    bool intel_syntax;
    // Result: instructions in output order, or the error (NULL: success).
    struct disasm_inst *insts;
    size_t n;
    const char *error;
};

// Disassembles all ranges without an error, several at a time. Results live in arena. If the tool
// turns out to be unusable (LLVM before 8, or not objdump), it is replaced by the next one.
void disasm_run(struct disasm_tool *tool, struct disasm_range *ranges, size_t n,
                struct arena *arena);

// Parses objdump's output. Texts point into output. *n is the number of instructions.
struct disasm_inst *disasm_parse(struct str output, struct arena *arena, size_t *n);
// Classifies the output of `objdump --version`: 1 for GNU, 2 for a usable version of LLVM, 0
// otherwise.
int disasm_kind(struct str version);
