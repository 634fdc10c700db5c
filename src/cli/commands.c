#include "cli/commands.h"

#include <glob.h>
#include <stdio.h>
#include <unistd.h>

#include "cli/check.h"
#include "cli/help.h"
#include "cli/options.h"
#include "cli/source.h"
#include "model/stream.h"
#include "model/transform.h"

enum {
    LOADING = OPTION_SOURCE,
    REPORT = OPTION_OUTPUT | OPTION_TYPE | OPTION_COLOUR | OPTION_NODES | OPTION_GRAPH |
             OPTION_VALUES | OPTION_FILTER | OPTION_BASE | LOADING,
    // Reports of samples or of everything have nothing to sort.
    LISTING = OPTION_OUTPUT | OPTION_TYPE | OPTION_COLOUR | OPTION_VALUES | OPTION_FILTER |
              OPTION_BASE | LOADING,
    CODE = OPTION_LISTING | LISTING,
};

#define EXAMPLES(...) ((const char *const[]){__VA_ARGS__, NULL})

const struct command commands[] = {
    {.name = "top",
     .arguments = "FILE...",
     .summary = "A table of functions by time or memory",
     .about = "Shows the functions that use the most: flat is a function's own cost, cum the cost\n"
              "including its callees. In a terminal the table fits the window; redirected, it is\n"
              "complete and the same as that of `kiln pprof -top`.",
     .examples =
         EXAMPLES("kiln top cpu.pb.gz", "the most expensive functions",
                  "kiln top --cum --focus=json cpu.pb.gz", "sorted by cum, samples in json only",
                  "kiln top --by=lines -n 20 cpu.pb.gz", "the 20 most expensive lines",
                  "kiln top --all-types heap.pb.gz", "objects and bytes side by side",
                  "kiln top jeprof.12.0.heap --binary ./app", "a jemalloc dump"),
     .options = OPTION_TOP | REPORT,
     .run = command_report},
    {.name = "tree",
     .arguments = "FILE...",
     .summary = "Each function with its callers and callees",
     .about = "Shows each function between its callers (above) and its callees (below). The\n"
              "percentages of both refer to the function in the middle.",
     .examples = EXAMPLES("kiln tree cpu.pb.gz", "the call graph as text",
                          "kiln tree --focus=json cpu.pb.gz", "samples through json only"),
     .options = REPORT,
     .run = command_report},
    {.name = "peek",
     .arguments = "REGEX FILE...",
     .summary = "Callers and callees of the functions that match",
     .about = "Shows every function that matches the regular expression between its callers\n"
              "(above) and its callees (below).",
     .examples = EXAMPLES("kiln peek malloc cpu.pb.gz", "callers of malloc",
                          "kiln peek '^main$' cpu.pb.gz", "what main calls"),
     .options = REPORT,
     .run = command_report},
    {.name = "list",
     .arguments = "REGEX FILE...",
     .summary = "Source of the functions that match, line by line",
     .about =
         "Prints the source of every function that matches the regular expression, with the\n"
         "cost of each line, without (flat) and with its callees (cum). Searches the files that\n"
         "the profile names, in the current directory or --source-path and their parents.",
     .examples = EXAMPLES("kiln list '^parse_header$' cpu.pb.gz", "cost of each line",
                          "kiln list --source-path=src parse cpu.pb.gz",
                          "a program built on another machine"),
     .options = CODE,
     .run = command_report},
    {.name = "disasm",
     .arguments = "REGEX|ADDRESS FILE...",
     .summary = "Machine code of the functions that match",
     .about = "Prints the instructions of every function that matches the regular expression or\n"
              "that contains the address, with their cost. Needs the binary and objdump\n"
              "(Debian package binutils or llvm).",
     .examples =
         EXAMPLES("kiln disasm hash_lookup cpu.pb.gz", "cost of each instruction",
                  "kiln disasm --intel-syntax 0x401270 cpu.pb.gz", "the function at an address"),
     .options = CODE,
     .run = command_report},
    {.name = "weblist",
     .arguments = "REGEX|ADDRESS FILE...",
     .summary = "Source and machine code in one HTML page",
     .about = "Writes a page of source lines that open to show their instructions, with inlined\n"
              "calls. Opens it in a browser unless -o is given.",
     .examples = EXAMPLES("kiln weblist -o hot.html hash_lookup cpu.pb.gz", "a page in one file"),
     .options = CODE,
     .run = command_report},
    {.name = "traces",
     .arguments = "FILE...",
     .summary = "All samples with their stacks and labels",
     .about = "Prints every sample: its labels, its value and its stack, leaf first.",
     .examples = EXAMPLES("kiln traces --focus=malloc cpu.pb.gz", "stacks that allocate"),
     .options = LISTING | OPTION_NODES,
     .run = command_report},
    {.name = "tags",
     .arguments = "FILE...",
     .summary = "Labels of samples, with the cost of each value",
     .about = "Prints every label key with its values and their share of the profile.",
     .examples =
         EXAMPLES("kiln tags cpu.pb.gz", "all labels", "kiln tags --focus=handle_search cpu.pb.gz",
                  "samples through a function only"),
     .options = LISTING,
     .run = command_report},
    {.name = "flame",
     .arguments = "FILE...",
     .summary = "A flame graph: in the terminal, as SVG or as HTML",
     .about = "Draws the merged stacks in the terminal, or as plain text if standard output is\n"
              "redirected. With -o, the suffix selects the format: .svg, .html or .txt. The files\n"
              "are complete and need no other files.",
     .examples = EXAMPLES("kiln flame cpu.pb.gz", "in the terminal",
                          "kiln flame -o cpu.html cpu.pb.gz", "a page with search and zoom",
                          "kiln flame --diff old.pb.gz -o diff.svg new.pb.gz", "what changed",
                          "kiln flame -r --focus=malloc cpu.pb.gz", "callers of malloc"),
     .options =
         OPTION_FLAME | OPTION_OUTPUT | OPTION_TYPE | OPTION_COLOUR | OPTION_FILTER | LOADING,
     .run = command_flame},
    {.name = "web",
     .arguments = "FILE...",
     .summary = "Pages for a browser: flame graph, table, call graph, source",
     .about = "Serves pages for a browser and opens it: a flame graph to zoom, search and filter,\n"
              "tables, the call graph, callers and callees, source and machine code. --base or\n"
              "--diff-base compares two profiles. Accepts connections from this machine only,\n"
              "unless --listen sets another address. The URL of a page contains the whole view.",
     .examples =
         EXAMPLES("kiln web cpu.pb.gz", "", "kiln web --base old.pb.gz new.pb.gz", "what changed",
                  "kiln web --listen=:8080 --no-browser cpu.pb.gz", "at http://localhost:8080"),
     .options = OPTION_WEB | ((REPORT | OPTION_LISTING) & ~(OPTION_OUTPUT | OPTION_COLOUR)),
     .run = command_web},
    {.name = "diff",
     .arguments = "BEFORE AFTER",
     .summary = "Compare two profiles; tell changes from noise",
     .about = "Compares two profiles function by function, or two sets of profiles if a quoted\n"
              "pattern names several files. * marks functions that changed beyond noise, compared\n"
              "with the rest of the program; ^ marks callers that changed because of those. At\n"
              "most one mark in twenty is false on average. docs/explanation/diff.md describes the "
              "model.\n"
              "Sorted by the size of the change.",
     .examples = EXAMPLES(
         "kiln diff old.pb.gz new.pb.gz", "absolute values",
         "kiln diff 'old/*.pb.gz' 'new/*.pb.gz'", "several runs per side",
         "kiln diff --normalize old.pb.gz new.pb.gz", "shares, for different durations or loads",
         "kiln diff --significant --cum old.pb.gz new.pb.gz", "only changes beyond noise",
         "kiln diff --format=csv old.pb.gz new.pb.gz", "for a spreadsheet"),
     .options = OPTION_DIFF | OPTION_OUTPUT | OPTION_TYPE | OPTION_COLOUR | OPTION_NODES |
                OPTION_FILTER | LOADING,
     .run = command_diff},
    {.name = "leaks",
     .arguments = "BEFORE AFTER",
     .summary = "Compare two heap profiles: growth of memory in use",
     .about =
         "Compares memory in use in two heap profiles of a process, or of two runs, and\n"
         "ranks the functions by growth in bytes and objects. * marks growth beyond the noise\n"
         "of sampling. With -o FILE.svg or FILE.html: a flame graph of the growth. The files\n"
         "may be pprof, jemalloc dumps (jeprof.*.heap), or URLs of services.",
     .examples =
         EXAMPLES("kiln leaks before.pb.gz after.pb.gz", "functions whose memory grew",
                  "kiln leaks --cum --top 20 before.pb.gz after.pb.gz", "including callees",
                  "kiln leaks jeprof.1.0.heap jeprof.1.9.heap --binary ./app", "jemalloc dumps",
                  "kiln leaks -o growth.html before.pb.gz after.pb.gz", "as a flame graph"),
     .options = OPTION_LEAKS | OPTION_OUTPUT | OPTION_TYPE | OPTION_COLOUR | OPTION_NODES |
                OPTION_FILTER | LOADING,
     .run = command_leaks},
    {.name = "check",
     .arguments = "--base BEFORE AFTER",
     .summary = "Fail if profiles got worse beyond noise and budget",
     .about = "Compares profiles of a change with those of its baseline and exits with 1 if the\n"
              "program or a function got worse beyond noise and budget, 0 if not, 2 on errors. It\n"
              "profiles two commands in turns (--run, --against), reads files (quoted patterns\n"
              "name several, or: --base BEFORE... -- AFTER...), or compares two selectors on a\n"
              "server. If the data is insufficient, prints how many runs are needed.\n"
              "docs/guides/ci.md describes budgets and CI.",
     .examples = EXAMPLES(
         "kiln check --base 'main/*.pb.gz' 'pr/*.pb.gz'", "profiles of several runs",
         "kiln check --run './bench-new' --against './bench-old'", "runs both ten times, in turns",
         "kiln check --base old.pb.gz --svg d.svg new.pb.gz", "with a flame graph of the changes",
         "kiln check --server URL '{v=\"2\"}' --against '{v=\"1\"}'", "two versions on a server"),
     .options =
         OPTION_CHECK | OPTION_OUTPUT | OPTION_TYPE | OPTION_COLOUR | OPTION_FILTER | LOADING,
     .run = command_check},
    {.name = "info",
     .arguments = "FILE...",
     .summary = "Describe a profile: types, samples, symbols, labels",
     .about = "Describes each file: format, sample types with totals, time, symbols, mappings,\n"
              "labels, and missing information.",
     .examples = EXAMPLES("kiln info cpu.pb.gz", "a file",
                          "kiln info http://localhost:6060/debug/pprof/heap", "a service"),
     .options = LOADING,
     .run = command_info},
    {.name = "run",
     .arguments = "[OPTION...] -- PROGRAM [ARGUMENT...]",
     .summary = "Run a program and profile it",
     .about = "Profiles the CPU time of an unmodified, dynamically linked program, by preloading\n"
              "libkiln into it. Writes a profile with names, however the program ends. The exit\n"
              "status is the program's; 126 and 127 if it cannot be started.",
     .examples =
         EXAMPLES("kiln run -- ./app --port 8080", "writes app.pb.gz",
                  "kiln run -F 1000 --clock perf -o app.html -- ./app", "a detailed flame graph",
                  "kiln run --follow -o build.svg -- make -j2", "child processes too",
                  "kiln run --heap -- ./app", "allocations, and memory in use at the end",
                  "kiln run --push http://localhost:4040 --tag region=eu -- ./app", ""),
     .main = command_run},
    {.name = "server",
     .arguments = "[OPTION...]\n"
                  "       kiln server backup [--data DIRECTORY] [--config FILE] TO\n"
                  "       kiln server check [--data DIRECTORY] [--store URL] [--config FILE]\n"
                  "       kiln server delete-service [--server URL] [--token TOKEN] NAME\n"
                  "       kiln server ready [--server URL] [--ca FILE]\n"
                  "       kiln server migrate --from DIRECTORY --to URL [--data DIRECTORY]",
     .summary = "Collect profiles from services and answer queries",
     .about =
         "Receives profiles from Pyroscope's agents, OpenTelemetry and `kiln push`, scrapes\n"
         "pprof endpoints, stores the profiles, and answers Grafana and Pyroscope's clients.\n"
         "SIGTERM stops it; SIGHUP reads the scrape targets again.\n"
         "backup copies the data into a new directory, also while the server runs. check reads\n"
         "all data and exits with 1 if some is damaged. delete-service asks a running server to\n"
         "delete all profiles of a service. ready exits with 0 if a server accepts requests.\n"
         "migrate copies profiles to ClickHouse.\n"
         "docs/reference/server.md and docs/guides/clickhouse.md have details.",
     .examples = EXAMPLES("kiln server", "on this machine, without configuration",
                          "kiln server --listen 0.0.0.0:4040 --config kiln.yaml", "for a fleet",
                          "kiln server backup --data /var/lib/kiln /backup/kiln-$(date +%F)", "",
                          "kiln server check --data /var/lib/kiln", ""),
     .main = command_server},
    {.name = "push",
     .arguments = "[OPTION...] FILE...",
     .summary = "Send profiles in files to a server",
     .about = "Sends each file, in any format that kiln reads, to a kiln or Pyroscope server, and\n"
              "prints the labels under which the server stored it.",
     .examples = EXAMPLES("kiln push --label service_name=shop cpu.pb.gz", "",
                          "kiln push --server https://kiln.example:4040 --label service_name=shop "
                          "--label region=eu *.pb.gz",
                          ""),
     .main = command_push},
    {.name = "query",
     .arguments = "QUERY [{SELECTOR}] [OPTION...]",
     .summary = "Query a server: types, labels, series, function, changes, top, flame, diff, pprof",
     .about =
         "types, labels and series list the server's data. function NAME shows the self and\n"
         "total cost of one function over time; in a pipe, it prints a line with time, self,\n"
         "total and all per step. changes lists the changes that the server found, by default\n"
         "of the last two weeks. top, flame, tree, diff and the other commands that read a\n"
         "profile show the merged profiles of the selected services, and take their own options\n"
         "as well. diff compares with --base of the same time, or with the hour before. pprof\n"
         "FILE saves the merged profile.\n"
         "TIME is now-1h, 1700000000 or 20240131.",
     .examples = EXAMPLES(
         "kiln query types", "", "kiln query labels --label service_name", "lists the services",
         "kiln query top '{service_name=\"shop\"}' --from now-15m -n 20", "",
         "kiln query flame -o out.html '{service_name=\"shop\"}'", "",
         "kiln query function compress '{service_name=\"shop\"}' --from now-7d --by version", "",
         "kiln query changes '{service_name=\"shop\"}' --state open",
         "regressions, and their deploys",
         "kiln query diff '{service_name=\"shop\"}' --base-from now-1d-1h --base-until now-1d", ""),
     .main = command_query},
    {.name = "annotate",
     .arguments = "[OPTION...] TEXT",
     .summary = "Tell a server about an event, such as a deploy",
     .about = "Adds an annotation to a kiln server and prints its id. The server attributes a\n"
              "change that it finds to the nearest annotation or deploy. Labels such as version\n"
              "announce deploys without annotations (docs/guides/changes.md).",
     .examples = EXAMPLES("kiln annotate --service shop \"version 1.4.2\"", "after a deploy",
                          "kiln annotate --tag incident --time now-20m \"cache was flushed\"",
                          "for all services"),
     .main = command_annotate},
    {.name = "debuginfo",
     .arguments = "upload FILE... | list [--missing] | delete BUILD_ID...",
     .summary = "Manage a server's debug files, from which it gets function names",
     .about =
         "upload sends binaries or their debug files to a kiln server. The server then shows\n"
         "functions, inlined calls and lines in profiles that have only addresses, including\n"
         "those that it stored before. list shows the files that the server has, or with\n"
         "--missing the build ids that it needs. delete removes files; names found so far stay.",
     .examples = EXAMPLES("kiln debuginfo upload target/release/shop", "after a build",
                          "kiln debuginfo upload --server https://kiln.example:4040 *.debug", "",
                          "kiln debuginfo list --missing", "build ids without debug files"),
     .main = command_debuginfo},
    {.name = "symbolize",
     .arguments = "FILE...",
     .summary = "Add names to a profile that has only addresses",
     .about = "Finds the binaries by their paths and build ids (PPROF_BINARY_PATH too) and adds\n"
              "functions, lines and inlined calls.",
     .examples = EXAMPLES("kiln symbolize -o named.pb.gz cpu.pb.gz", "from local binaries"),
     .options = OPTION_CONVERT | OPTION_OUTPUT | LOADING,
     .run = command_symbolize},
    {.name = "addr2line",
     .arguments = "[-afispC] -e BINARY [ADDRESS...]",
     .summary = "Addresses of a binary as functions and lines",
     .about = "Prints the same as addr2line, for the given addresses or those on standard input.",
     .examples = EXAMPLES("kiln addr2line -a -f -i -e ./app < addresses", "with inlined calls"),
     .main = command_addr2line},
    {.name = "merge",
     .arguments = "FILE...",
     .summary = "Several profiles as one",
     .about = "Adds profiles up: equal stacks with equal labels become one sample.",
     .examples = EXAMPLES("kiln merge -o all.pb.gz a.pb.gz b.pb.gz", "",
                          "kiln merge *.pb.gz | kiln top -", "without a temporary file"),
     .options = OPTION_CONVERT | OPTION_OUTPUT | OPTION_TYPE | OPTION_FILTER | LOADING,
     .run = command_merge},
    {.name = "convert",
     .arguments = "IN OUT",
     .summary = "A profile in another format",
     .about =
         "Writes IN in the format that the suffix of OUT or --to selects: .pb.gz .pprof (pprof),\n"
         ".pb (not compressed), .folded .txt, .speedscope.json, .callgrind, .json, .csv; a\n"
         "further .gz or .zst compresses. - is standard input or output. pprof keeps all\n"
         "data; folded and callgrind have one sample type, see --type.",
     .examples = EXAMPLES("kiln convert perf.txt cpu.pb.gz", "output of perf script to pprof",
                          "kiln convert -t inuse_space heap.pb.gz heap.folded", "folded stacks",
                          "kiln convert --to=json cpu.pb.gz - | jq .", "for other programs"),
     .options = OPTION_CONVERT | OPTION_TYPE | OPTION_FILTER | LOADING,
     .run = command_convert},
    {.name = "dot",
     .arguments = "FILE...",
     .summary = "The call graph for Graphviz",
     .about = "Writes the call graph in the language of Graphviz's dot.",
     .examples = EXAMPLES("kiln dot cpu.pb.gz | dot -Tsvg > cpu.svg", "a picture"),
     .options = REPORT,
     .run = command_report},
    {.name = "callgrind",
     .arguments = "FILE...",
     .summary = "The profile for KCachegrind",
     .about = "Writes the profile in the format of callgrind.",
     .examples = EXAMPLES("kiln callgrind -o callgrind.out cpu.pb.gz", "",
                          "kcachegrind callgrind.out", "open it"),
     .options = LISTING,
     .run = command_report},
    {.name = "raw",
     .arguments = "FILE...",
     .summary = "The profile's tables as text",
     .about = "Prints samples, locations and mappings as they are.",
     .examples = EXAMPLES("kiln raw cpu.pb.gz", "all tables"),
     .options = LISTING,
     .run = command_report},
    {.name = "comments",
     .arguments = "FILE...",
     .summary = "The comments in the profile",
     .about = "Prints the comments in the profile.",
     .examples = EXAMPLES("kiln comments cpu.pb.gz", ""),
     .options = OPTION_OUTPUT | LOADING,
     .run = command_report},
    {.name = "pprof",
     .arguments = "[FLAG...] [BINARY] SOURCE...",
     .summary = "Compatible with google/pprof: flags, output, shell",
     .about = "Takes the flags of google/pprof and prints the same output, byte for byte. Starts\n"
              "the interactive shell if no report is selected. `kiln pprof -help` lists the flags.",
     .examples =
         EXAMPLES("kiln pprof cpu.pb.gz", "the interactive shell", "kiln pprof -top -cum cpu.pb.gz",
                  "", "kiln pprof -tree -base=old.pb.gz new.pb.gz", ""),
     .main = command_pprof},
    {.name = "completion",
     .arguments = "bash|zsh|fish",
     .summary = "Completion for a shell",
     .about = "Prints a script that completes kiln's commands and options.",
     .examples = EXAMPLES(". <(kiln completion bash)", "in ~/.bashrc",
                          "kiln completion zsh > \"${fpath[1]}/_kiln\"", "",
                          "kiln completion fish > ~/.config/fish/completions/kiln.fish", ""),
     .main = command_completion},
    {.name = "help",
     .arguments = "[COMMAND]",
     .summary = "Print this list, or the help of a command",
     .about = "Prints the list of commands, or what `kiln COMMAND --help` prints.",
     .examples = EXAMPLES("kiln help top", "options of `kiln top`"),
     .main = command_help},
    {.name = NULL},
};

const struct command *command_find(const char *name)
{
    for (const struct command *c = commands; c->name; c++)
        if (strcmp(c->name, name) == 0)
            return c;
    return NULL;
}

void call_note(const char *text)
{
    fprintf(stderr, "kiln: %s\n", text);
}

int call_sources(struct call *call, size_t first, struct err *e)
{
    struct source *source = &call->source;
    const char **base = arena_alloc(call->arena, sizeof *base);
    *base = *call->base ? call->base : call->diff_base;
    source->names = call->arguments + first;
    source->n_names = call->n_arguments - first;
    source->bases = base;
    source->n_bases = **base ? 1 : 0;
    source->diff_base = *call->diff_base;
    source->normalize = call->config.normalize;
    source->strict = true;
    if (*call->base && *call->diff_base)
        return err_set(e, "--base and --diff-base cannot be combined");
    if (call->config.normalize && !**base)
        return err_set(e, "--normalize needs --base or --diff-base");
    call->config.debug_dirs = source_debug_dirs(source, call->arena);
    return 0;
}

struct model_profile *call_load(struct call *call, size_t first, struct err *e)
{
    return call_sources(call, first, e) ? NULL : source_load(&call->source, call->arena, e);
}

int call_load_both(struct call *call, struct model_profile *sides[2], struct err *e)
{
    const char *name = call->command->name;
    if (call->n_arguments != 2)
        return err_set(e, "%s takes two profiles: kiln %s %s", name, name,
                       call->command->arguments);
    const char **arguments = call->arguments;
    call->n_arguments = 1;
    for (int i = 0; i < 2; i++) {
        sides[i] = call_load(call, 0, e);
        if (!sides[i])
            return -1;
        call->arguments++;
    }
    call->arguments = arguments;
    call->n_arguments = 2;
    return model_make_compatible(sides, 2, call->arena, e);
}

bool call_is_pattern(const char *argument)
{
    return strpbrk(argument, "*?[") && access(argument, F_OK) && !strstr(argument, "://");
}

// Returns the sorted files that match a pattern; any other argument expands to itself.
static int expand_pattern(const char *argument, glob_t *files, struct err *e)
{
    int result = 0;
    *files = (glob_t){0};
    if (call_is_pattern(argument))
        result = glob(argument, 0, NULL, files);
    if (result == GLOB_NOMATCH)
        return err_set(e, "no file matches %s", argument);
    return result ? err_set(e, "cannot expand %s: out of memory or not readable", argument) : 0;
}

// Whether both are of the same moment and have the same samples: a copy, or a link such as
// latest.pb.gz. Without times, exact counts of two runs may be equal.
static bool is_same_recording(const struct model_profile *a, const struct model_profile *b,
                              struct arena *arena)
{
    if (!a->time_nanos || a->time_nanos != b->time_nanos ||
        a->duration_nanos != b->duration_nanos || a->n_types != b->n_types ||
        a->n_samples != b->n_samples)
        return false;
    a = model_decode_samples(a, arena);
    b = model_decode_samples(b, arena);
    if (memcmp(a->values, b->values, a->n_samples * a->n_types * sizeof *a->values))
        return false;
    for (size_t i = 0; i < a->n_samples; i++)
        if (a->stack_len[i] != b->stack_len[i] ||
            memcmp(model_stack(a, i), model_stack(b, i), a->stack_len[i] * sizeof(uint32_t)))
            return false;
    return true;
}

static bool is_repeated_recording(const struct diff_sides *sides, int side,
                                  const struct model_profile *p, struct arena *arena)
{
    size_t first = side ? sides->n[0] : 0;
    for (size_t i = first; i < first + sides->n[side]; i++)
        if (is_same_recording(sides->profiles[i], p, arena))
            return true;
    return false;
}

// Adds the profiles of one argument to a side.
static int load_argument(struct call *call, const char *argument, struct diff_sides *sides,
                         int side, struct err *e)
{
    glob_t files;
    int result = expand_pattern(argument, &files, e);
    size_t count = files.gl_pathc ? files.gl_pathc : 1;
    const char **arguments = call->arguments;
    size_t n_arguments = call->n_arguments;
    for (size_t i = 0; result == 0 && i < count; i++) {
        const char *name =
            files.gl_pathc ? arena_printf(call->arena, "%s", files.gl_pathv[i]) : argument;
        call->arguments = &name;
        call->n_arguments = 1;
        struct model_profile *p = call_load(call, 0, e);
        if (!p) {
            result = -1;
            break;
        }
        if (is_repeated_recording(sides, side, p, call->arena))
            call_note(
                arena_printf(call->arena, "%s: same recording as another profile; ignored", name));
        else
            diff_add_profile(sides, side, p, call->arena);
    }
    globfree(&files);
    call->arguments = arguments;
    call->n_arguments = n_arguments;
    return result;
}

int call_load_side(struct call *call, const char *const *arguments, size_t n,
                   struct diff_sides *sides, int side, struct err *e)
{
    for (size_t i = 0; i < n; i++)
        if (load_argument(call, arguments[i], sides, side, e))
            return -1;
    return 0;
}

int call_load_sides(struct call *call, struct diff_sides *sides, struct err *e)
{
    if (call->n_arguments != 2)
        return err_set(e, "%s compares two sides: kiln %s %s; quote patterns: 'old/*.pb.gz'",
                       call->command->name, call->command->name, call->command->arguments);
    *sides = (struct diff_sides){0};
    for (int i = 0; i < 2; i++) {
        if (call_load_side(call, &call->arguments[i], 1, sides, i, e))
            return -1;
        if (!sides->n[i])
            return err_set(e, "%s has no samples", call->arguments[i]);
    }
    return model_make_compatible((struct model_profile **)sides->profiles,
                                 sides->n[0] + sides->n[1], call->arena, e);
}

static int run_call(struct call *call, int argc, char **argv, struct err *e)
{
    int parsed = options_parse(call, argc, argv, e);
    if (parsed < 0)
        return -1;
    if (parsed > 0) {
        help_command(call->command, stdout);
        return 0;
    }
    if (call->n_arguments == 0 && !*call->run && !*call->remote)
        return err_set(
            e, "no profile; name a file, a URL, or - for standard input; see `kiln %s --help`",
            call->command->name);
    return source_use_threads(&call->source, e) ? -1 : call->command->run(call, e);
}

static bool is_help_option(const char *argument)
{
    return strcmp(argument, "--help") == 0 || strcmp(argument, "-h") == 0;
}

// Whether a command that parses its own arguments is called for its help.
static bool wants_own_help(const struct command *command, int argc, char **argv)
{
    // Others than options may be the arguments of a program or of another command.
    bool passes_on = command->main == command_run || command->main == command_query ||
                     command->main == command_pprof;
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (is_help_option(argv[i]))
            return command->main != command_pprof || argc == 2;
        if (passes_on && argv[i][0] != '-')
            break;
    }
    return false;
}

int command_main(const struct command *command, int argc, char **argv)
{
    if (command->main) {
        if (!wants_own_help(command, argc, argv))
            return command->main(argc, argv);
        help_command(command, stdout);
        return 0;
    }
    struct err e = {""};
    struct call call = {
        .config = config_default(),
        .source = {.seconds = -1, .timeout = -1},
        .colour = "auto",
        .base = "",
        .diff_base = "",
        .format = "text",
        .to = "",
        .baseline = "",
        .run = "",
        .against = "",
        .runs = CHECK_RUNS,
        .budget = "",
        .picture = "",
        .remote = "",
        .from = "now-1h",
        .until = "now",
        .base_from = "",
        .base_until = "",
        .title = "",
        .listen = "localhost:0",
        .command = command,
        .arena = source_arena_new(),
    };
    struct source_notes notes = {.arena = call.arena};
    call.source.notes = &notes;
    int status = call.arena ? run_call(&call, argc, argv, &e) : err_set(&e, "out of memory");
    arena_free(call.arena);
    if (status < 0) {
        fprintf(stderr, "kiln: %s\n", e.message);
        return 2;
    }
    if (fflush(stdout) || ferror(stdout)) {
        fputs("kiln: cannot write to standard output\n", stderr);
        return 2;
    }
    return status;
}
