// The commands of `kiln`. One table drives dispatch, help, completion and the manual.
#pragma once

#include "cli/config.h"
#include "cli/source.h"

struct command;

// One run of a command with its parsed options. Option offsets are relative to this struct, which
// begins with config, so that config_set works for all of them.
struct call {
    struct config config;
    struct source source;

    const char *colour;           // auto, always, never
    const char *base, *diff_base; // subtracted from the profiles
    const char *format;           // of diff: text, json, csv; of check
    const char *to;               // of convert and merge
    const char *title;
    bool all_types;
    bool significant, normalize;
    bool reverse, flip;
    int width;
    double min_share;
    // of check
    const char *baseline, *run, *against, *budget, *picture;
    const char *remote, *from, *until, *base_from, *base_until;
    int runs, frequency;
    bool heap;
    size_t n_before;    // arguments before a --; SIZE_MAX: there was none
    const char *listen; // of web
    bool no_browser;

    const struct command *command;
    struct arena *arena;
    const char **arguments; // NULL-terminated
    size_t n_arguments;
};

// Groups of options that a command may take; help shows them in this order.
enum option_group {
    OPTION_TOP = 1,
    OPTION_DIFF = 2,
    OPTION_FLAME = 4,
    OPTION_CONVERT = 8,
    OPTION_OUTPUT = 16,
    OPTION_TYPE = 32,
    OPTION_COLOUR = 64,
    OPTION_NODES = 128, // selection and order of nodes
    OPTION_GRAPH = 256,
    OPTION_VALUES = 512,
    OPTION_FILTER = 1024,
    OPTION_BASE = 2048,
    OPTION_SOURCE = 4096,
    OPTION_LISTING = 8192, // source and machine code
    OPTION_LEAKS = 16384,
    OPTION_WEB = 32768,
    OPTION_CHECK = 65536,
};

struct command {
    const char *name;
    const char *arguments; // for the usage line
    const char *summary;
    const char *about;
    const char *const *examples; // command line, explanation, ...; NULL-terminated
    unsigned options;
    // Returns the exit status, or -1 and fills e.
    int (*run)(struct call *call, struct err *e);
    // For a command that parses its own arguments.
    int (*main)(int argc, char **argv);
};

extern const struct command commands[]; // terminated by a NULL name
const struct command *command_find(const char *name);

// argv[0] is the command's name. Returns the exit status.
int command_main(const struct command *command, int argc, char **argv);

int command_pprof(int argc, char **argv);
int command_help(int argc, char **argv);
int command_completion(int argc, char **argv);
int command_addr2line(int argc, char **argv);
int command_run(int argc, char **argv);
int command_server(int argc, char **argv);
int command_server_migrate(int argc, char **argv);
int command_push(int argc, char **argv);
int command_debuginfo(int argc, char **argv);
int command_query(int argc, char **argv);
int command_annotate(int argc, char **argv);

int command_report(struct call *call, struct err *e);
int command_check(struct call *call, struct err *e);
int command_diff(struct call *call, struct err *e);
int command_leaks(struct call *call, struct err *e);
int command_merge(struct call *call, struct err *e);
int command_convert(struct call *call, struct err *e);
int command_info(struct call *call, struct err *e);
int command_flame(struct call *call, struct err *e);
int command_symbolize(struct call *call, struct err *e);
int command_web(struct call *call, struct err *e);

// Sets call->source to the arguments from first on, and the base. Returns -1 and fills e on
// failure.
int call_sources(struct call *call, size_t first, struct err *e);
// Loads and merges the arguments from first on. Returns NULL and fills e on failure.
struct model_profile *call_load(struct call *call, size_t first, struct err *e);
// Loads the profiles of the two arguments and makes them comparable.
int call_load_both(struct call *call, struct model_profile *sides[2], struct err *e);
struct diff_sides;
// Whether call_load_side treats an argument as a file pattern.
bool call_is_pattern(const char *argument);
// call_load_side adds the profiles of the arguments to side 0 or 1. call_load_sides loads the two
// arguments of the call, each of which may be a pattern that matches several files.
int call_load_side(struct call *call, const char *const *arguments, size_t n,
                   struct diff_sides *sides, int side, struct err *e);
int call_load_sides(struct call *call, struct diff_sides *sides, struct err *e);
// Prints a note about filters to standard error ("kiln: ..."); for view_prepare and view_filter.
void call_note(const char *text);
