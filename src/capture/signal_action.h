// Signal actions of the program. Each distinct action is stored once and never freed, so handlers
// can read one consistently while other threads set new ones.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct signal_action {
    uintptr_t function; // or SIG_DFL, SIG_IGN
    int flags;
    uint64_t mask;
};

// Stores an action and returns its number. If the table is full it returns 0, or, with must,
// overwrites the last entry. Signal-safe.
uint32_t signal_action_keep(const struct signal_action *action, bool must);
// Number 0 is the default action. Signal-safe.
const struct signal_action *signal_action_get(uint32_t number);
