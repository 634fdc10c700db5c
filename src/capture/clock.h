// What makes a thread tick: a timer on its CPU clock; a perf event of it, if that was asked for;
// or, where it can have neither, the timer of the whole process, whose signal any running thread
// gets. The first says how many periods have passed. The others do not: there the handler asks the
// thread's CPU clock, so that time is conserved with them, too.
#pragma once

#include "capture/thread.h"

// How many timers and descriptors may be used, by the process's limits: at the start, and now and
// then.
void clock_read_limits(void);
// Opens one for an armed thread. -1 with errno; EAGAIN: none is left.
int clock_open(struct capture_thread *t);
// Sets it going: the first tick after so many nanoseconds of its CPU time, if that can be chosen.
// -1 with errno; EBUSY: the program uses the timer of the process itself.
int clock_run(struct capture_thread *t, uint64_t first, uint64_t period);
// Stops a timer; the thread keeps it.
void clock_stop(const struct capture_thread *t);
// Closes it: then the thread has none.
void clock_close(struct capture_thread *t);
// Whether it is the timer of a thread that has ended, although there is one with its id.
bool clock_is_dead(const struct capture_thread *t);
// Timers and perf events in use.
uint32_t clock_count(void);
// A thread could not get one.
bool clock_is_scarce(void);
// Whether perf events can be had at all.
int clock_check_perf(struct err *e);

// The timer of the process: sees to it that it still runs if it is needed and if the program does
// not want it for itself.
void clock_keep_process(void);
// It would outlive exec, and kill a program that has no handler.
void clock_before_exec(void);
void clock_after_fork_in_child(void);
