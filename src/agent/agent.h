// The in-process product: one collector that is always on, and windows over it.
//
// A background thread drains the capture module four to ten times a second into distinct stacks.
// Whoever wants a profile opens a window and closes it; any number may be open at once, and
// the last two minutes can be had without having asked before. Nobody is told "already
// profiling".
//
// Every function here may be called from any thread, none from a signal handler. Nothing here
// ends the process: what runs out of memory is counted as dropped.
#pragma once

#include "base/out.h"
#include "capture/capture.h"
#include "model/profile.h"

enum {
    AGENT_WINDOWS = 64,
    AGENT_LAST_SECONDS = 120,
    AGENT_CONFLICT = -2,
    AGENT_LABELS = 64, // of a set
};

struct agent_options {
    uint32_t hz;          // 0: 100
    bool perf;            // capture_options
    uint32_t depth;       // 0: 128
    size_t memory;        // for stacks and counts; 0: 32 MiB
    size_t symbol_memory; // for what turns addresses into names, at a time; 0: 64 MiB
    // Which threads to keep samples of, by their names: shell patterns, separated by commas; one
    // that begins with ! excludes. The last that matches decides; what none matches is kept if
    // the first excludes. NULL or empty: all.
    const char *threads;
};

int collector_start(const struct agent_options *options, struct err *e);
void collector_stop(void);
bool collector_running(void);
// An object is about to be loaded: its unwind tables are looked for soon.
void collector_expect_objects(void);

// Settings now in force.
struct agent_settings {
    uint32_t hz, depth;
    size_t memory;
    bool running;
    uint32_t windows; // open
};
void agent_get_settings(struct agent_settings *settings);

// Numbers of windows: a place, and how often windows were opened before. A number that was closed,
// or that a child of fork has from its parent, does not name a window that was opened later.
static inline int window_number(uint32_t *opened, int place, int places)
{
    return (int)((*opened)++ % (INT32_MAX / (uint32_t)places)) * places + place;
}

struct agent_window_options {
    uint32_t hz;     // 0: whatever rate is set. Otherwise that is the rate while the window is open
    bool force;      // although another open window asked for a different rate: that one keeps what
                     // it has and goes on at the new rate; its CPU times stay right
    bool no_threads; // the profile does not tell of which thread a sample is
};
// A window's number; -1 with e filled; AGENT_CONFLICT with e filled if another open window
// asked for another rate and it is not by force.
int agent_window_open(const struct agent_window_options *options, struct err *e);
// What was sampled since it was opened, as a profile in arena: addresses, mappings and build
// ids, no names. Closes the window. NULL with e filled.
struct model_profile *agent_window_close(int window, struct arena *arena, struct err *e);
// The same so far: the window stays open.
struct model_profile *agent_window_peek(int window, struct arena *arena, struct err *e);
// From now on nothing is counted in it; agent_window_close is still due. Quick.
void agent_window_end(int window);
// Closes it without a profile.
void agent_window_cancel(int window);
// What was sampled in the last seconds (1 to AGENT_LAST_SECONDS), without a window having been
// opened: from the start of a whole second that may lie up to one second further back. Where
// memory was short, or sampling began later, the profile's duration tells what it is of.
struct model_profile *agent_last(uint32_t seconds, struct arena *arena, struct err *e);

enum agent_format {
    AGENT_PPROF,
    AGENT_PPROF_PLAIN, // not gzipped
    AGENT_FOLDED,
    AGENT_SVG,
    AGENT_HTML,
    AGENT_JSON,
    AGENT_HEAP_TEXT, // what Go prints for debug=1
};

struct agent_output {
    enum agent_format format;
    bool addresses;    // do not turn addresses into names
    bool made_code;    // but name code that was made at run time, which no reader can do later
    bool as_is;        // nor call hooks: it is none of our own profiles
    bool no_labels;    // drop labels from samples
    uint32_t width;    // of an SVG; 0: default
    const char *title; // NULL: one made from the program's name
};
// Writes p in the asked format, names first unless addresses. p and arena are the caller's; p may
// be changed. No lock is held meanwhile: sampling and windows go on.
int agent_write(struct model_profile *p, struct arena *arena, const struct agent_output *o,
                struct out *out, struct err *e);

// The names at a pc, inlines joined by "--", innermost first; false: unknown.
bool agent_symbol(uintptr_t pc, char *text, size_t n);

struct agent_label_counts {
    uint64_t sets;
    size_t memory;
    uint64_t dropped; // labels that were not added: no room for a set, or a full set
};

struct agent_counts {
    struct capture_counts capture;
    uint64_t dropped;  // ticks for which there was no memory
    uint64_t filtered; // ticks of threads that were not asked for
    uint64_t stacks;   // distinct ones held
    size_t memory;     // that they and the counts take
    struct agent_label_counts labels;
    size_t name_memory; // names that were found, kept for the next profile
};
void agent_get_counts(struct agent_counts *counts);

// Sees every sample that is collected, and is told when a round of collecting is over. Both are
// called with the collector's lock held and the unwind tables kept (capture_hold). NULL: nobody.
// Set it before collector_start.
struct collector_tap {
    void (*sample)(const struct capture_sample *sample);
    void (*round)(void);
};
void collector_set_tap(const struct collector_tap *tap);

// --- labels ---

// A label set is immutable and known by its number; 0 is the empty one. agent_label_add gives a
// reference to the set that is base with key=value (replacing key's value if it has one);
// agent_label_remove to base without key. If there is no room for another set, or base has
// AGENT_LABELS labels already, that is base itself, which is counted. A set lives while somebody
// holds a reference or a stack carries it; a number whose set is gone means the empty set. Who
// never releases keeps sets for ever.
uint32_t agent_label_add(uint32_t base, struct str key, struct str value);
uint32_t agent_label_remove(uint32_t base, struct str key);
void agent_label_hold(uint32_t set);
void agent_label_release(uint32_t set);
// Calls visit for each label of set.
void agent_label_each(uint32_t set, void (*visit)(void *context, struct str key, struct str value),
                      void *context);
// Adds the labels of set to the sample under construction. Where sets are swept, or with the
// collector's lock held.
struct model_builder;
void agent_label_build(uint32_t set, struct model_builder *b);
