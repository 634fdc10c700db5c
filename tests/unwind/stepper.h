// Single steps of the calling thread, from inside the process: SIGTRAP before each instruction.
// x86_64 has a flag for it; on aarch64 the next instruction is replaced by a breakpoint, which
// works on a processor as well as under qemu-user. One thread at a time.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <ucontext.h>

// Begins and ends. A signal handler of the program that wants to be stepped begins on its own.
void stepper_on(void);
void stepper_off(void);

// What the instruction did that was executed before the one that take looks at now.
enum stepper_last {
    STEPPER_UNKNOWN, // the first one, or not told
    STEPPER_CALL,
    STEPPER_RETURN,
    STEPPER_OTHER,
};
// After a call: where it returns to.
enum stepper_last stepper_last(uintptr_t *return_to);

// The handler of SIGTRAP: calls take for each instruction, as long as it returns true. All other
// signals must be blocked in it.
void stepper_trap(ucontext_t *uc, bool (*take)(ucontext_t *uc));
