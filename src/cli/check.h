// kiln check: whether one set of profiles is worse than another beyond noise and budget
// (docs/check.md).
#pragma once

#include "cli/commands.h"
#include "cli/diff.h"
#include "cli/terminal.h"

// --- budgets ---

struct check_allowance {
    double growth; // of a function, relative to its own baseline value
    double share;  // growth below this share of the program's baseline is ignored
};

struct check_budget;

// The budgets in a YAML file, or the defaults if file is empty. NULL with e filled.
struct check_budget *check_budget_read(const char *file, struct arena *arena, struct err *e);
// Growth of the whole program that is allowed, relative to its baseline value.
double check_budget_total(const struct check_budget *b, struct str type);
// The types that have a budget for the whole program, one by one; empty: there are no more.
struct str check_budget_type(const struct check_budget *b, size_t i);
struct check_allowance check_budget_function(const struct check_budget *b, struct str type,
                                             struct str function);

// --- results ---

enum check_verdict { CHECK_PASSED, CHECK_UNDECIDED, CHECK_FAILED };

struct check_item {
    struct str type, unit;
    struct str function;       // empty: the whole program, or all functions if reason is set
    struct str moved_from;     // another function, whose cost is part of the change; or empty
    struct diff_change change; // means of a profile
    double budget;             // growth that is allowed, relative to change.before
    enum check_verdict verdict;
    size_t needed;      // undecided: profiles per side that would probably decide; 0: unknown,
                        // SIZE_MAX: no number would
    const char *reason; // why nothing could be compared; NULL: something was
};

struct check {
    struct arena *arena;
    size_t n_profiles[2];
    const struct stats_cell *times; // CPU times of struct check_runs, or NULL
    // Of the first type that was compared: samples that were recorded; it is allocations.
    double events[2];
    bool is_heap;
    double level; // of the false discovery rate
    struct check_item *items;
    size_t n, cap;
    size_t n_by_verdict[3];
    size_t n_improved; // functions
    const char *picture;
};

enum check_verdict check_outcome(const struct check *c);

enum check_format { CHECK_TEXT, CHECK_JSON, CHECK_JUNIT, CHECK_MARKDOWN };
void check_write(const struct check *c, enum check_format format, const struct terminal *t,
                 struct out *out);

// --- where profiles come from ---

enum { CHECK_RUNS = 10 }; // the default

struct check_runs {
    struct diff_sides cpu, heap; // heap only if asked for
    bool is_command;
    // Of commands, by run, the baseline's first: CPU time in nanoseconds, which the kernel knows
    // better than any sampling; the largest resident set in bytes, NULL if it is unknown.
    struct stats_cell *times, *peaks;
};

// Runs both commands of the call, interleaved.
int check_run_commands(struct call *call, struct check_runs *runs, struct err *e);
// Merged profiles of time slices from a server.
int check_load_server(struct call *call, struct diff_sides *sides, struct err *e);
