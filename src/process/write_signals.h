// Writing to the program's descriptors without the signals that writing may raise.
#pragma once

#include <stdint.h>

// A pipe that nobody reads (SIGPIPE) and a limit of file sizes (SIGXFSZ) raise signals that end a
// process. Between these two calls both are blocked in the calling thread, so that writing fails
// instead; those that were raised meanwhile are consumed.
struct process_write_signals {
    uint64_t mask;   // the caller's
    uint64_t raised; // bits of the signals to consume: those that were not pending before
};
struct process_write_signals process_hold_write_signals(void);
void process_release_write_signals(struct process_write_signals held);
