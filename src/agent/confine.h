// Prepares the profiler when the program confines itself with seccomp: see process/sandbox.h.
#pragma once

struct confine_hooks {
    // Called before a filter after which no thread may open files.
    void (*last_chance_to_write)(void);
    // Called if the process may end without being able to ask another thread to write.
    void (*write_regularly)(void);
};
void confine_set_hooks(const struct confine_hooks *hooks);
