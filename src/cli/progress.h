// A terminal line that shows the progress of a profile once per second.
#pragma once

#include "cli/harvest.h"

struct progress {
    bool wanted, shown;
    double begun, last; // seconds
};

// Shows nothing if standard error is not a terminal, or if quiet.
void progress_begin(struct progress *p, bool quiet);
// How long to wait until the next update, in milliseconds.
int progress_pause(const struct progress *p, bool program_ended);
void progress_show(struct progress *p, const struct harvest_totals *totals);
// Erases the line before other output.
void progress_clear(struct progress *p);
