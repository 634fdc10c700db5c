// What makes a thread tick: a timer on its CPU clock; a perf event of it, if that was asked for;
// or, where it can have neither, the timer of the whole process, whose signal any running thread
// gets. The first says how many periods have passed. The others do not: there the handler asks the
// thread's CPU clock, so that time is conserved with them, too.
#pragma once

#include "capture/thread.h"

// Makes one for an armed thread. -1 with errno: none can be had.
int clock_open(struct capture_thread *t);
// Sets it going: the first tick after so many nanoseconds of its CPU time, if that can be chosen.
int clock_run(struct capture_thread *t, uint64_t first, uint64_t period);
void clock_close(struct capture_thread *t);
// Whether perf events can be had at all.
int clock_check_perf(struct err *e);

// The timer of the process: sees to it that it still runs if it is needed and if the program does
// not want it for itself.
void clock_keep_process(void);
// It would outlive exec, and kill a program that has no handler.
void clock_before_exec(void);
void clock_after_fork_in_child(void);
