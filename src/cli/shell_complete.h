// What the Tab key offers in the shell.
#pragma once

#include "model/profile.h"

struct shell_completion {
    size_t replace;    // bytes before the cursor that candidates stand for
    const char **list; // sorted, distinct
    size_t n;
    bool is_command; // a space follows
};

// For the text before the cursor. Everything lives in arena.
struct shell_completion shell_complete(const struct model_profile *p, struct str before,
                                       struct arena *arena);
// The longest beginning that all candidates share.
size_t shell_completion_common(const struct shell_completion *c);
