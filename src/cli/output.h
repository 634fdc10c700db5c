// Where a finished report goes: standard output, a file, a picture made by dot, a viewer.
#pragma once

#include "cli/view.h"

// in_shell: viewers stay open while the shell goes on, and binary output goes to a file.
int output_report(struct report *r, const struct view_command *command, const char *output,
                  bool in_shell, struct err *e);

// Begins text for the file called name, or for standard output if name is empty; output_end
// finishes what it began.
int output_begin(struct out *out, const char *name, struct err *e);
int output_end(struct out *out, const char *name, struct err *e);
// Whether a file of that name can be written, before work that would be for nothing. -1 with e
// filled.
int output_check(const char *name, struct err *e);

// Opens a new file named prefix, a number, suffix; *name (in arena) is what it is called.
int output_new_file(struct arena *arena, const char *prefix, const char *suffix, char **name,
                    struct err *e);
