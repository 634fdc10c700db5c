// What programs want to be done with signals. Each action is kept for good, and once, so that
// handlers read it as a whole while threads set others.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct signal_action {
    uintptr_t function; // or SIG_DFL, SIG_IGN
    int flags;
    uint64_t mask;
};

// Its number. 0: there are too many, unless it must be kept: then it takes the place of another
// one. Signal-safe.
uint32_t signal_action_keep(const struct signal_action *action, bool must);
// Number 0 is the default action.
const struct signal_action *signal_action_get(uint32_t number);
