// kiln check: decides whether one set of profiles is worse than another beyond noise and budget
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

// Reads the budgets from a YAML file, or returns the defaults if file is empty. Returns NULL and
// fills e on failure.
struct check_budget *check_budget_read(const char *file, struct arena *arena, struct err *e);
// Allowed growth of the whole program, relative to its baseline value.
double check_budget_total(const struct check_budget *b, struct str type);
// The i-th type with a budget, those for the whole program first; empty: there are no more.
struct str check_budget_type(const struct check_budget *b, size_t i, bool *is_total);
struct check_allowance check_budget_function(const struct check_budget *b, struct str type,
                                             struct str function);

// --- results ---

enum check_verdict { CHECK_PASSED, CHECK_UNDECIDED, CHECK_FAILED };

struct check_item {
    struct str type, unit;
    struct str function;       // empty: the whole program, or all functions if reason is set
    struct str moved_from;     // another function whose moved cost is part of the change; or empty
    struct diff_change change; // means of a profile
    double budget;             // allowed growth, relative to change.before
    enum check_verdict verdict;
    size_t needed;      // if undecided: profiles per side that would probably decide; 0: unknown,
                        // SIZE_MAX: no number would
    const char *reason; // why nothing could be compared; NULL: something was
};

struct check {
    struct arena *arena;
    size_t n_profiles[2];
    const struct stats_cell *times; // CPU times of struct check_runs, or NULL
    // Recorded samples of the first compared type.
    double events[2];
    bool is_heap; // the first compared type is of allocations
    double level; // of the false discovery rate
    struct check_item *items;
    size_t n, cap;
    size_t n_by_verdict[3];
    size_t n_improved; // functions
    struct str *types; // that were compared
    size_t n_types, cap_types;
    const char *picture;
};

enum check_verdict check_outcome(const struct check *c);

enum check_format { CHECK_TEXT, CHECK_JSON, CHECK_JUNIT, CHECK_MARKDOWN };
void check_write(const struct check *c, enum check_format format, const struct terminal *t,
                 struct out *out);

// --- sources of profiles ---

enum { CHECK_RUNS = 10 }; // the default

struct check_runs {
    struct diff_sides cpu, heap; // heap only if requested
    bool is_command;
    // Of commands, by run, baseline first: CPU time in nanoseconds, which the kernel measures more
    // precisely than sampling; largest resident set in bytes, NULL if unknown.
    struct stats_cell *times, *peaks;
};

// Runs both commands of the call, alternating.
int check_run_commands(struct call *call, struct check_runs *runs, struct err *e);
// Loads merged profiles of time slices from a server.
int check_load_server(struct call *call, struct diff_sides *sides, struct err *e);
