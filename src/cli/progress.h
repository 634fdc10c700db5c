// A line on the terminal that tells once a second how a profile grows.
#pragma once

#include "cli/harvest.h"

struct progress {
    bool wanted, shown;
    double begun, last; // seconds
};

// Nothing is ever shown if standard error is no terminal, or quiet.
void progress_begin(struct progress *p, bool quiet);
// How long to wait before the next look, in milliseconds.
int progress_pause(const struct progress *p, bool program_ended);
void progress_show(struct progress *p, const struct harvest_totals *totals);
// Takes the line away, before something else is written.
void progress_clear(struct progress *p);
