// The profiler inside a service: one always-on collector, and windows over it.
//
// A background thread drains the capture module four to ten times per second into a table of
// distinct stacks. To take a profile, open a window and close it. Any number may be open at once,
// so no caller gets an "already profiling" error. The last two minutes are available without a
// window.
//
// All functions may be called from any thread but not from a signal handler. Nothing here ends the
// process: samples that do not fit in memory are counted as dropped.
#pragma once

#include "base/out.h"
#include "capture/capture.h"
#include "model/profile.h"

enum {
    AGENT_WINDOWS = 64,
    AGENT_LAST_SECONDS = 120,
    AGENT_CONFLICT = -2,
    AGENT_LABELS = 64, // maximum labels in a set
};

struct agent_options {
    uint32_t hz;          // 0: 100
    bool perf;            // see capture_options
    uint32_t depth;       // 0: 128
    size_t memory;        // limit for stacks and counts; 0: 32 MiB
    size_t symbol_memory; // limit for one symbolization; 0: 64 MiB
    // Names of the threads whose samples are kept: comma-separated shell patterns; a leading !
    // excludes. The last matching pattern decides. A thread that matches none is kept if the first
    // pattern excludes. NULL or empty: all threads.
    const char *threads;
};

int collector_start(const struct agent_options *options, struct err *e);
void collector_stop(void);
bool collector_running(void);
// Call it before an object is loaded: the collector then builds its unwind tables soon.
void collector_expect_objects(void);

// Current settings.
struct agent_settings {
    uint32_t hz, depth;
    size_t memory;
    bool running;
    uint32_t windows; // open windows
};
void agent_get_settings(struct agent_settings *settings);

// Makes a window number from a slot and the count of windows opened so far. The number of a closed
// window, or one that a child of fork inherited, never refers to a window opened later.
static inline int window_number(uint32_t *opened, int place, int places)
{
    return (int)((*opened)++ % (INT32_MAX / (uint32_t)places)) * places + place;
}

struct agent_window_options {
    uint32_t hz; // 0: the current rate. Otherwise the rate while the window is open
    // Open it even if another window asked for a different rate. That window keeps its samples and
    // continues at the new rate; its CPU times stay correct.
    bool force;
    bool no_threads; // leave out thread labels
};
// Returns a window number, -1 with e filled, or AGENT_CONFLICT with e filled if another open window
// asked for a different rate and force is not set.
int agent_window_open(const struct agent_window_options *options, struct err *e);
// Closes the window. Returns its samples as a profile in arena, with addresses, mappings and build
// ids but without names; NULL with e filled on failure.
struct model_profile *agent_window_close(int window, struct arena *arena, struct err *e);
// Returns the samples so far like agent_window_close, but leaves the window open.
struct model_profile *agent_window_peek(int window, struct arena *arena, struct err *e);
// Stops counting samples in the window; agent_window_close must still be called. Cheap.
void agent_window_end(int window);
// Closes the window without a profile.
void agent_window_cancel(int window);
// Returns the samples of the last 1 to AGENT_LAST_SECONDS seconds, without a window. Begins at a
// whole second, up to one second earlier than asked. It covers less if memory was short or sampling
// began later; see the profile's duration. NULL with e filled on failure.
struct model_profile *agent_last(uint32_t seconds, struct arena *arena, struct err *e);

enum agent_format {
    AGENT_PPROF,
    AGENT_PPROF_PLAIN, // not gzipped
    AGENT_FOLDED,
    AGENT_SVG,
    AGENT_HTML,
    AGENT_JSON,
    AGENT_HEAP_TEXT, // as Go prints it for debug=1
};

struct agent_output {
    enum agent_format format;
    bool addresses;    // do not symbolize
    bool made_code;    // but do name JIT code, which no reader can do later
    bool as_is;        // do not symbolize or call hooks: the profile is not ours
    bool no_labels;    // omit labels
    uint32_t width;    // of the SVG; 0: default
    const char *title; // NULL: made from the program's name
};
// Writes p in the requested format, symbolized unless addresses is set. p and arena belong to the
// caller; p may be changed. Holds no collector lock, so sampling and windows continue. Returns -1
// and fills e on failure.
int agent_write(struct model_profile *p, struct arena *arena, const struct agent_output *o,
                struct out *out, struct err *e);

// Gets the name of a pc; inlined functions are joined by "--", innermost first. Returns false if it
// is unknown.
bool agent_symbol(uintptr_t pc, char *text, size_t n);

struct agent_label_counts {
    uint64_t sets;
    size_t memory;
    uint64_t dropped; // labels not added: no memory for the set, or the set was full
};

struct agent_counts {
    struct capture_counts capture;
    uint64_t dropped;  // ticks lost for lack of memory
    uint64_t filtered; // ticks of threads that were filtered out
    uint64_t stacks;   // distinct stacks held
    size_t memory;     // memory for stacks and counts
    struct agent_label_counts labels;
    size_t name_memory; // cache of names for later profiles
};
void agent_get_counts(struct agent_counts *counts);

// Receives each collected sample, and a call after each round of collecting. Both are called with
// the collector's lock and the unwind tables held (capture_hold). NULL: none. Set it before
// collector_start.
struct collector_tap {
    void (*sample)(const struct capture_sample *sample);
    void (*round)(void);
};
void collector_set_tap(const struct collector_tap *tap);

// --- labels ---

// A label set is immutable and has an id; 0 is the empty set. agent_label_add returns a reference
// to base plus key=value, replacing key's value; agent_label_remove to base without key. If there
// is no memory for another set, or it would exceed AGENT_LABELS labels, they count a dropped label
// and return a reference to base. A set lives while anyone holds a reference or a stack uses it.
// The id of a freed set means the empty set. A caller that never releases leaks sets.
uint32_t agent_label_add(uint32_t base, struct str key, struct str value);
uint32_t agent_label_remove(uint32_t base, struct str key);
void agent_label_hold(uint32_t set);
void agent_label_release(uint32_t set);
// Calls visit for each label of the set. The caller must keep the set alive.
void agent_label_each(uint32_t set, void (*visit)(void *context, struct str key, struct str value),
                      void *context);
// Adds the labels of a set to the sample being built. The collector's lock must be held, so that no
// set is freed meanwhile.
struct model_builder;
void agent_label_build(uint32_t set, struct model_builder *b);
