// Tab completion in the shell.
#pragma once

#include "model/profile.h"

struct shell_completion {
    size_t replace;    // bytes before the cursor that candidates replace
    const char **list; // sorted, distinct
    size_t n;
    bool is_command; // a space follows
};

// Completes the text before the cursor. Allocates in arena.
struct shell_completion shell_complete(const struct model_profile *p, struct str before,
                                       struct arena *arena);
// The length of the longest common prefix of all candidates.
size_t shell_completion_common(const struct shell_completion *c);
