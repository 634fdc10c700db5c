// Writes to the program's descriptors without raising signals.
#pragma once

#include <stdint.h>

// Writing to a pipe without a reader (SIGPIPE) or beyond the file size limit (SIGXFSZ) raises a
// signal that kills the process. Between these two calls both are blocked in the calling thread, so
// writes fail instead. Signals raised meanwhile are discarded.
struct process_write_signals {
    uint64_t mask;   // the caller's signal mask
    uint64_t raised; // the signals to discard: those that were not pending before
};
struct process_write_signals process_hold_write_signals(void);
void process_release_write_signals(struct process_write_signals held);
