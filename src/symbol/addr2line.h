// Answers as the command addr2line gives them.
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
    bool demangle;  // -C: shown names; the file was opened with the mode to use
};

// One address, as hexadecimal text with or without 0x. What is no number counts as 0.
void addr2line_answer(struct symbol_file *file, const struct addr2line_options *options,
                      struct str address, struct out *out);
// One answer for each line of in. Each is written out before the next line is read, so that a
// program can hold a conversation.
int addr2line_run(struct symbol_file *file, const struct addr2line_options *options, FILE *in,
                  struct out *out, struct err *e);
