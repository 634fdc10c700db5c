// Loads that a profiler must survive. Each runs in a thread of its own until it is over,
// checks its own results, and counts its rounds. None of them knows of the profiler except
// those of load_kiln.c.
#pragma once

#include <kiln/kiln.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

// The program is also linked without the library, to be run with and without it preloaded.
#pragma weak kiln_start
#pragma weak kiln_stop
#pragma weak kiln_window_begin
#pragma weak kiln_window_write
#pragma weak kiln_window_cancel
#pragma weak kiln_labels_with
#pragma weak kiln_labels_without
#pragma weak kiln_labels_enter
#pragma weak kiln_labels_current
#pragma weak kiln_get_statistics

struct load {
    const char *name;
    void (*round)(struct load *self);
    _Atomic uint64_t rounds;
    _Atomic uint64_t events; // what a round is made of: threads, forks, throws, ...
    const char *event;
    bool needs_kiln;    // calls it
    bool only_if_named; // not among all loads
};

// A list of loads that ends with a NULL name.
extern struct load thread_loads[], signal_loads[], stack_loads[], loader_loads[], process_loads[],
    kiln_loads[], confined_loads[], remap_loads[];

extern const char *soak_folder; // where plugins and helpers are
extern _Atomic bool soak_over;

// Something is wrong: says what and ends the process with status 3.
__attribute__((format(printf, 1, 2), noreturn)) void soak_fail(const char *format, ...);
#define CHECK(good)                                                              \
    do {                                                                         \
        if (!(good))                                                             \
            soak_fail("%s:%d: %s (errno %d)", __FILE__, __LINE__, #good, errno); \
    } while (0)

// Uses CPU time of the calling thread and gives a number that depends on seed and steps only.
uint64_t soak_burn(uint64_t seed, unsigned steps);
// Some hundred microseconds of it, checked against the same computation done before.
void soak_work(void);
unsigned soak_random(void);    // of the calling thread
double soak_cpu_seconds(void); // of the process
