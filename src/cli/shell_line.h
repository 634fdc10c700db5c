// Input lines of the shell: from a terminal with editing, history and completion, or plain lines
// from anything else.
#pragma once

#include "model/profile.h"

struct shell_line;

// Completion knows the functions and sample types of p. Allocates in arena; p must outlive it.
struct shell_line *shell_line_new(const struct model_profile *p, struct arena *arena);
// Returns the next line without its end, valid until the next call; NULL at the end of input.
const char *shell_line_read(struct shell_line *line);
// Saves the history. NULL is allowed.
void shell_line_free(struct shell_line *line);
