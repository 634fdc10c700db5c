// What the profiler does when the program confines itself with seccomp: see process/sandbox.h.
#pragma once

struct confine_hooks {
    // No thread may open files any more; called while it still may.
    void (*last_chance_to_write)(void);
    // The process may end without being able to ask another thread to write.
    void (*write_regularly)(void);
};
void confine_set_hooks(const struct confine_hooks *hooks);
