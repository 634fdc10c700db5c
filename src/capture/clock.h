// The clocks that make a thread tick: a timer on its CPU clock; a perf event, if requested; or, if
// a thread can have neither, the process-wide timer, whose signal goes to any running thread. A
// timer reports how many periods have passed. The other two do not: their handler reads the
// thread's CPU clock, so that CPU time is conserved as well.
#pragma once

#include "capture/thread.h"

// Reads the process's limits to decide how many timers and descriptors to use. Call it at the start
// and now and then.
void clock_read_limits(void);
// Opens a clock for an armed thread. Returns -1 and sets errno; EAGAIN: none is left.
int clock_open(struct capture_thread *t);
// Starts the clock. The first tick comes after `first` nanoseconds of the thread's CPU time; only a
// timer honors that. Returns -1 and sets errno; EBUSY: the program uses the process timer itself.
int clock_run(struct capture_thread *t, uint64_t first, uint64_t period);
// Stops a timer without deleting it. Other clocks keep running.
void clock_stop(const struct capture_thread *t);
// Closes the thread's clock, if any, and sets CLOCK_NONE. Preserves errno.
void clock_close(struct capture_thread *t);
// Returns whether the timer's thread has ended, even if another thread has reused its id.
bool clock_is_dead(const struct capture_thread *t);
// Number of timers and perf events in use.
uint32_t clock_count(void);
// Returns whether a thread recently failed to get a clock.
bool clock_is_scarce(void);
// Checks whether perf events are permitted. Returns -1 and fills e if not.
int clock_check_perf(struct err *e);

// Restarts the process timer if a thread needs it and the program does not use it.
void clock_keep_process(void);
// Stops the process timer: it would survive exec and kill a program that has no handler.
void clock_before_exec(void);
void clock_after_fork_in_child(void);
