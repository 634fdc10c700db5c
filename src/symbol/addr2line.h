// Formats answers like the command addr2line.
#pragma once

#include <stdio.h>

#include "base/out.h"
#include "symbol/symbol.h"

struct addr2line_options {
    bool addresses; // -a
    bool functions; // -f
    bool inlines;   // -i
    bool basenames; // -s
    bool pretty;    // -p
    bool demangle;  // -C: print demangled names; the file must have been opened with the demangle
                    // mode
};

// Looks up one address and writes the answer. The address is hexadecimal text, with or without 0x.
// Invalid text counts as 0.
void addr2line_answer(struct symbol_file *file, const struct addr2line_options *options,
                      struct str address, struct out *out);
// Answers each line of in. Writes each answer before it reads the next line, so that a program can
// use it interactively. Returns -1 with e filled if writing fails.
int addr2line_run(struct symbol_file *file, const struct addr2line_options *options, FILE *in,
                  struct out *out, struct err *e);
