// Runs pieces of work while their stacks are taken at every instruction (x86_64: the trap
// flag) or by a timer, by our unwinder and by libgcc's in the same handler, and counts how
// often they agree.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum harness_oracle {
    ORACLE_LIBGCC,
    ORACLE_LIBGCC_LOADER, // inside the loader: libunwind would wait for its lock for ever, and
                          // objects come and go that no snapshot has
    ORACLE_ROOT, // libgcc cannot follow: ours must reach the function `harness_run` instead
};

// Looks around again: after dlopen.
void harness_refresh(void);

// Runs work for at most contexts stacks: single-stepped, repeating the work as needed.
void harness_run(const char *name, void (*work)(void), enum harness_oracle oracle, long contexts);
// The same, by a timer on the process's CPU time.
void harness_run_timed(const char *name, void (*work)(void), enum harness_oracle oracle,
                       long contexts);
// Runs work again and again until the contexts asked for are there; for threads that the work
// starts: single-steps the calling thread.
void harness_step_on(void);
void harness_step_off(void);
// True once there are enough: long pieces of work stop early.
bool harness_done(void);

// Prints the sums; how many pieces failed.
int harness_finish(void);

// The pieces of work.
void work_c(void);
void work_c_setup(void);
struct work {
    const char *name;
    void (*run)(void);
    enum harness_oracle oracle;
};
extern const struct work work_c_list[], work_plugin_list[];
extern const struct work work_cxx_list[];
void work_no_cfi(void (*callback)(void));
void work_no_cfi_leaf(void);

#ifdef __cplusplus
}
#endif
