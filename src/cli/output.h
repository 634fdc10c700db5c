// Delivers a report to standard output, a file, an image made by dot, or a viewer.
#pragma once

#include "cli/view.h"

// in_shell: viewers stay open while the shell continues, and binary output goes to a file.
int output_report(struct report *r, const struct view_command *command, const char *output,
                  bool in_shell, struct err *e);

// Begins text output to the file name, or to standard output if name is empty; output_end completes
// it.
int output_begin(struct out *out, const char *name, struct err *e);
int output_end(struct out *out, const char *name, struct err *e);
// Checks whether a file of that name can be written, before expensive work. Returns -1 and fills e
// if not.
int output_check(const char *name, struct err *e);

// Creates a new file named prefix, a number, suffix. *name (in arena) is its name.
int output_new_file(struct arena *arena, const char *prefix, const char *suffix, char **name,
                    struct err *e);
