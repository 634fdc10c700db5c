#include "cli/commands.h"

#include <glob.h>
#include <stdio.h>
#include <unistd.h>

#include "cli/check.h"
#include "cli/help.h"
#include "cli/options.h"
#include "cli/source.h"
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
     .summary = "Where time or memory goes: a table of functions",
     .about = "Shows the functions that use the most: flat is what a function uses itself, cum\n"
              "what it and everything that it calls use. On a terminal the table fits the\n"
              "window; redirected, it is complete and the same as that of `kiln pprof -top`.",
     .examples = EXAMPLES("kiln top cpu.pb.gz", "the functions that use the most",
                          "kiln top --cum --focus=json cpu.pb.gz", "callers, of samples in json",
                          "kiln top --by=lines -n 20 cpu.pb.gz", "source lines, twenty of them",
                          "kiln top --all-types heap.pb.gz", "objects and bytes side by side",
                          "kiln top jeprof.12.0.heap --binary ./app", "a dump of jemalloc's"),
     .options = OPTION_TOP | REPORT,
     .run = command_report},
    {.name = "tree",
     .arguments = "FILE...",
     .summary = "Each function with its callers and callees",
     .about = "Shows each function between its callers (above) and its callees (below). The\n"
              "percentages of both are shares of the function in the middle.",
     .examples = EXAMPLES("kiln tree cpu.pb.gz", "the call graph as text",
                          "kiln tree --focus=json cpu.pb.gz", "of samples that pass through json"),
     .options = REPORT,
     .run = command_report},
    {.name = "peek",
     .arguments = "REGEX FILE...",
     .summary = "Callers and callees of the functions that match",
     .about = "Shows every function that matches the regular expression between its callers\n"
              "(above) and its callees (below).",
     .examples = EXAMPLES("kiln peek malloc cpu.pb.gz", "who allocates",
                          "kiln peek '^main$' cpu.pb.gz", "what main calls"),
     .options = REPORT,
     .run = command_report},
    {.name = "list",
     .arguments = "REGEX FILE...",
     .summary = "Source of the functions that match, line by line",
     .about =
         "Prints the source of every function that matches the regular expression; in front of\n"
         "each line what it uses itself (flat) and with what it calls (cum). Sources are\n"
         "looked for by the names in the profile, from the current directory or\n"
         "--source-path upwards.",
     .examples = EXAMPLES("kiln list '^parse_header$' cpu.pb.gz", "which lines cost",
                          "kiln list --source-path=src parse cpu.pb.gz",
                          "of a program that was built elsewhere"),
     .options = CODE,
     .run = command_report},
    {.name = "disasm",
     .arguments = "REGEX|ADDRESS FILE...",
     .summary = "Machine code of the functions that match",
     .about = "Prints the instructions of every function that matches the regular expression or\n"
              "that contains the address, with what falls on each. Needs the binary and objdump\n"
              "(Debian package binutils or llvm).",
     .examples = EXAMPLES("kiln disasm hash_lookup cpu.pb.gz", "which instructions cost",
                          "kiln disasm --intel-syntax 0x401270 cpu.pb.gz", "around an address"),
     .options = CODE,
     .run = command_report},
    {.name = "weblist",
     .arguments = "REGEX|ADDRESS FILE...",
     .summary = "Source and machine code in one HTML page",
     .about = "Writes a page of source lines that open to show their instructions, with inlined\n"
              "calls. Without -o it goes to a browser.",
     .examples =
         EXAMPLES("kiln weblist -o hot.html hash_lookup cpu.pb.gz", "one file, no scripts from "
                                                                    "elsewhere"),
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
     .summary = "The labels of samples and what falls on each value",
     .about = "Prints every label key with its values and their share of the profile.",
     .examples = EXAMPLES("kiln tags cpu.pb.gz", "labels and values",
                          "kiln tags --focus=handle_search cpu.pb.gz",
                          "of samples that pass through a function"),
     .options = LISTING,
     .run = command_report},
    {.name = "flame",
     .arguments = "FILE...",
     .summary = "A flame graph: in the terminal, as SVG or as HTML",
     .about = "Draws the merged stacks. Without -o the graph goes to the terminal, as plain\n"
              "text if it is redirected. With -o the name decides: .svg, .html or .txt; the\n"
              "files need nothing else to be viewed.",
     .examples = EXAMPLES("kiln flame cpu.pb.gz", "in the terminal",
                          "kiln flame -o cpu.html cpu.pb.gz", "one page to search and zoom",
                          "kiln flame --diff old.pb.gz -o diff.svg new.pb.gz", "what changed",
                          "kiln flame -r --focus=malloc cpu.pb.gz", "who calls malloc"),
     .options =
         OPTION_FLAME | OPTION_OUTPUT | OPTION_TYPE | OPTION_COLOUR | OPTION_FILTER | LOADING,
     .run = command_flame},
    {.name = "web",
     .arguments = "FILE...",
     .summary = "The profile in a browser: flame graph, table, call graph, source",
     .about = "Serves pages for a browser and opens it: a flame graph to zoom, search and filter,\n"
              "tables, the call graph, callers and callees, source and machine code. With --base\n"
              "or --diff-base they show what changed. Only this machine is served unless --listen\n"
              "names another address. The URL of a page holds what it shows.",
     .examples = EXAMPLES("kiln web cpu.pb.gz", "", "kiln web --base old.pb.gz new.pb.gz",
                          "what changed", "kiln web --listen=:8080 --no-browser cpu.pb.gz",
                          "http://localhost:8080, for a browser that is open"),
     .options = OPTION_WEB | ((REPORT | OPTION_LISTING) & ~(OPTION_OUTPUT | OPTION_COLOUR)),
     .run = command_web},
    {.name = "diff",
     .arguments = "BEFORE AFTER",
     .summary = "What changed between two profiles, and what is only noise",
     .about = "Compares two profiles function by function, or two sets of profiles if a quoted\n"
              "pattern names several files. * marks functions that changed beyond noise, compared\n"
              "with the rest of the program; ^ marks callers that changed because of those. At\n"
              "most one mark in twenty is false on average. docs/explanation/diff.md describes the "
              "model.\n"
              "Sorted by the size of the change.",
     .examples = EXAMPLES(
         "kiln diff old.pb.gz new.pb.gz", "absolute values",
         "kiln diff 'old/*.pb.gz' 'new/*.pb.gz'",
         "means of several runs, whose differences are noise",
         "kiln diff --normalize old.pb.gz new.pb.gz", "shares, for different durations or loads",
         "kiln diff --significant --cum old.pb.gz new.pb.gz", "only what is beyond noise",
         "kiln diff --format=csv old.pb.gz new.pb.gz", "for a spreadsheet"),
     .options = OPTION_DIFF | OPTION_OUTPUT | OPTION_TYPE | OPTION_COLOUR | OPTION_NODES |
                OPTION_FILTER | LOADING,
     .run = command_diff},
    {.name = "leaks",
     .arguments = "BEFORE AFTER",
     .summary = "What memory grew between two heap profiles",
     .about = "Compares what is in use in two heap profiles of a process, or of two runs, and\n"
              "ranks what grew: bytes and objects, before and after. * marks growth beyond the\n"
              "noise of sampling. With -o FILE.svg or FILE.html: a flame graph of the growth.\n"
              "The files may be pprof, jemalloc's dumps (jeprof.*.heap), or addresses of services.",
     .examples = EXAMPLES(
         "kiln leaks before.pb.gz after.pb.gz", "who holds more than before",
         "kiln leaks --cum --top 20 before.pb.gz after.pb.gz", "with what they call",
         "kiln leaks jeprof.1.0.heap jeprof.1.9.heap --binary ./app", "of jemalloc's dumps",
         "kiln leaks -o growth.html before.pb.gz after.pb.gz", "where it grew"),
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
              "server. Where the data does not decide, it says how many runs would.\n"
              "docs/guides/ci.md describes budgets and CI.",
     .examples = EXAMPLES(
         "kiln check --base 'main/*.pb.gz' 'pr/*.pb.gz'", "profiles of several runs",
         "kiln check --run './bench-new' --against './bench-old'", "runs both ten times, in turns",
         "kiln check --base old.pb.gz --svg d.svg new.pb.gz", "and a picture of what changed",
         "kiln check --server URL '{v=\"2\"}' --against '{v=\"1\"}'", "two versions at once"),
     .options =
         OPTION_CHECK | OPTION_OUTPUT | OPTION_TYPE | OPTION_COLOUR | OPTION_FILTER | LOADING,
     .run = command_check},
    {.name = "info",
     .arguments = "FILE...",
     .summary = "What is in a profile: types, samples, symbols, labels",
     .about = "Describes each file: format, sample types with totals, time, symbols, mappings,\n"
              "labels, and what is missing.",
     .examples = EXAMPLES("kiln info cpu.pb.gz", "what is this file?",
                          "kiln info http://localhost:6060/debug/pprof/heap", "and this service?"),
     .options = LOADING,
     .run = command_info},
    {.name = "run",
     .arguments =
         "[-F HZ] [-o FILE] [--heap] [--listen ADDRESS] [--push URL] [--follow] [-q] -- PROGRAM "
         "[ARGUMENT...]",
     .summary = "Run a program and profile it",
     .about =
         "Profiles the CPU time of an unmodified program, by preloading libkiln\n"
         "into it. The profile is written, with names, however it ends; the exit status is\n"
         "the program's. -F: samples per CPU-second; --listen: serve /debug/pprof/ meanwhile;\n"
         "--follow: children too; -q: no progress. --heap: what it allocates instead, and what\n"
         "was in use at the end; --heap-interval BYTES, --cpu FILE. --push URL: send profiles to\n"
         "a server every ten seconds; --app NAME, --tag NAME=VALUE.",
     .examples = EXAMPLES("kiln run -- ./app --port 8080", "writes app.pb.gz",
                          "kiln run -F 1000 -o app.html -- ./app", "a flame graph",
                          "kiln run --heap -- ./app", "what it allocates, what it keeps"),
     .main = command_run},
    {.name = "server",
     .arguments =
         "[--listen ADDRESS] [--data DIRECTORY] [--store URL] [--config FILE] [--base-path PATH]\n"
         "       kiln server backup [--data DIRECTORY] [--config FILE] TO\n"
         "       kiln server check [--data DIRECTORY] [--store URL] [--config FILE]\n"
         "       kiln server delete-service [--server URL] [--token TOKEN] NAME\n"
         "       kiln server ready [--server URL] [--ca FILE]\n"
         "       kiln server migrate --from DIRECTORY --to URL [--data DIRECTORY]",
     .summary = "Collect profiles from services and answer queries",
     .about =
         "Takes profiles from Pyroscope's agents, OpenTelemetry and `kiln push`, scrapes\n"
         "pprof endpoints, keeps them in DIRECTORY (default kiln-data) and answers Grafana\n"
         "and Pyroscope's clients. Listens on 127.0.0.1:4040 by default. SIGTERM\n"
         "stops it, SIGHUP reads the scrape targets again. docs/reference/server.md has the rest.\n"
         "backup copies the data into a new directory, check reads all of it and says what is\n"
         "damaged (exit status 1): on the server's machine, also while it runs.\n"
         "delete-service asks a server to forget everything of a service.\n"
         "ready exits with 0 if a server accepts requests: a health check for containers.\n"
         "--store clickhouse://USER@HOST:8123/DATABASE keeps profiles in ClickHouse, migrate\n"
         "moves them there: docs/guides/clickhouse.md.",
     .examples = EXAMPLES("kiln server", "on this machine, without configuration",
                          "kiln server --listen 0.0.0.0:4040 --config kiln.yaml",
                          "for a fleet; the file has TLS, tokens, scrape targets",
                          "kiln server backup --data /var/lib/kiln /backup/kiln-$(date +%F)", "",
                          "kiln server check --data /var/lib/kiln", ""),
     .main = command_server},
    {.name = "push",
     .arguments = "[--server URL] [--label NAME=VALUE]... [--token TOKEN] [--backfill] FILE...",
     .summary = "Send profiles in files to a server",
     .about = "Sends each file, in any format that kiln reads, to a kiln or Pyroscope server\n"
              "(default http://127.0.0.1:4040, or KILN_SERVER). The label service_name says whose\n"
              "it is; __name__ (process_cpu, memory, ...) is guessed where it is not given.\n"
              "--backfill: accept profiles older than the server's limits.past (admin scope).\n"
              "--tenant NAME, --ca FILE, and KILN_TOKEN for --token are known too.",
     .examples = EXAMPLES("kiln push --label service_name=shop cpu.pb.gz", "",
                          "kiln push --server https://kiln.example:4040 --label service_name=shop "
                          "--label region=eu *.pb.gz",
                          ""),
     .main = command_push},
    {.name = "query",
     .arguments = "WHAT [{SELECTOR}] [--type TYPE] [--from TIME] [--until TIME] [OPTION...]",
     .summary = "Ask a server: types, labels, series, function, changes, top, flame, diff, pprof",
     .about =
         "types, labels and series list what a server has; function NAME shows one function\n"
         "over time; top, flame, tree, diff and the\n"
         "other commands that read a profile show what it merges, and take their options;\n"
         "pprof FILE saves it. --type defaults to CPU time; if there is none, to the first type,\n"
         "whose name is printed. TIME is now-1h (the default of --from), 1700000000 or\n"
         "20240131. --label NAME lists a label's values; --step SECONDS and --by LABEL are of\n"
         "series and function. function prints self, total and their share, into a pipe a line\n"
         "of time, self, total and everything for each step; --json: the server's answer.\n"
         "changes lists what the server found: functions that became more or less expensive, of "
         "the\n"
         "last two weeks unless --from says otherwise, by --state open, acknowledged, muted or "
         "gone.\n"
         "diff compares with --base {SELECTOR} of the same time, or with --base-from\n"
         "and --base-until, by default the hour before.\n"
         "--server, --token, --tenant and --ca as for push.",
     .examples = EXAMPLES(
         "kiln query types", "", "kiln query labels --label service_name",
         "which services there are",
         "kiln query top '{service_name=\"shop\"}' --from now-15m -n 20", "",
         "kiln query flame -o out.html '{service_name=\"shop\"}'", "",
         "kiln query function compress '{service_name=\"shop\"}' --from now-7d --by "
         "version",
         "what it costs, over a week", "kiln query changes '{service_name=\"shop\"}' --state open",
         "what became more expensive, since which deploy",
         "kiln query diff '{service_name=\"shop\"}' --base-from now-1d-1h "
         "--base-until now-1d",
         "with the same hour of yesterday"),
     .main = command_query},
    {.name = "annotate",
     .arguments = "[--service NAME] [--tag TAG]... [--time TIME] [--until TIME] TEXT",
     .summary = "Tell a server what happened, such as a deploy",
     .about =
         "Puts a note on a kiln server, now or at --time (now-5m, 1700000000, 20240131), and "
         "prints\n"
         "its id. The server attributes changes that it finds to the nearest note or deploy: of "
         "the\n"
         "service, or of all services without --service. --tag adds tags, as Grafana has them.\n"
         "Labels such as version tell deploys by themselves: see docs/guides/changes.md.\n"
         "--server, --token, --tenant and --ca as for push.",
     .examples = EXAMPLES("kiln annotate --service shop \"version 1.4.2\"", "after a deploy",
                          "kiln annotate --tag incident --time now-20m \"cache was flushed\"",
                          "of all services"),
     .main = command_annotate},
    {.name = "debuginfo",
     .arguments = "upload FILE... | list [--missing] | delete BUILD_ID...",
     .summary = "Debug files for a server, so that it can name addresses",
     .about =
         "upload sends binaries or their debug files to a kiln server, which keeps them by build\n"
         "id: profiles that came with addresses only, also those of before, are then shown with\n"
         "functions, inlined calls and lines. list shows what is there; --missing what profiles\n"
         "of the last day (--from, --until) lack; delete removes files, names found so far stay.\n"
         "--server, --token, --tenant and --ca as for push.",
     .examples = EXAMPLES("kiln debuginfo upload target/release/shop", "after a build",
                          "kiln debuginfo upload --server https://kiln.example:4040 *.debug", "",
                          "kiln debuginfo list --missing", "whose debug files to send"),
     .main = command_debuginfo},
    {.name = "symbolize",
     .arguments = "FILE...",
     .summary = "Put names into a profile that has only addresses",
     .about = "Finds the binaries by their paths and build ids (PPROF_BINARY_PATH too) and adds\n"
              "functions, lines and inlined calls.",
     .examples = EXAMPLES("kiln symbolize -o named.pb.gz cpu.pb.gz", "from local binaries"),
     .options = OPTION_CONVERT | OPTION_OUTPUT | LOADING,
     .run = command_symbolize},
    {.name = "addr2line",
     .arguments = "[-afispC] -e BINARY [ADDRESS...]",
     .summary = "Addresses of a binary as functions and lines",
     .about = "Answers as addr2line does, for the addresses given or those on standard input.",
     .examples = EXAMPLES("kiln addr2line -a -f -i -e ./app < addresses", "with inlined calls"),
     .main = command_addr2line},
    {.name = "merge",
     .arguments = "FILE...",
     .summary = "Several profiles as one",
     .about = "Adds profiles up: equal stacks with equal labels become one sample.",
     .examples = EXAMPLES("kiln merge -o all.pb.gz a.pb.gz b.pb.gz", "",
                          "kiln merge *.pb.gz | kiln top -", "without a file in between"),
     .options = OPTION_CONVERT | OPTION_OUTPUT | OPTION_TYPE | OPTION_FILTER | LOADING,
     .run = command_merge},
    {.name = "convert",
     .arguments = "IN OUT",
     .summary = "A profile in another format",
     .about = "Writes IN in the format that the name OUT or --to tells: .pb.gz .pprof (pprof),\n"
              ".pb (not compressed), .folded .txt, .speedscope.json, .callgrind, .json, .csv; a\n"
              "further .gz or .zst compresses. - is standard input or output. pprof keeps\n"
              "everything; folded and callgrind hold one sample type, see --type.",
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
                          "kcachegrind callgrind.out", "look at it"),
     .options = LISTING,
     .run = command_report},
    {.name = "raw",
     .arguments = "FILE...",
     .summary = "The profile's tables as text",
     .about = "Prints samples, locations and mappings as they are.",
     .examples = EXAMPLES("kiln raw cpu.pb.gz", "everything"),
     .options = LISTING,
     .run = command_report},
    {.name = "comments",
     .arguments = "FILE...",
     .summary = "The comments in the profile",
     .about = "Prints the comments that whoever made the profile left in it.",
     .examples = EXAMPLES("kiln comments cpu.pb.gz", ""),
     .options = OPTION_OUTPUT | LOADING,
     .run = command_report},
    {.name = "pprof",
     .arguments = "[FLAG...] [BINARY] SOURCE...",
     .summary = "As google/pprof: its flags, its output, its shell",
     .about = "Takes the flags of google/pprof and prints the same bytes. Without a report\n"
              "among them it starts the interactive shell. `kiln pprof -help` lists the flags.",
     .examples =
         EXAMPLES("kiln pprof cpu.pb.gz", "the interactive shell", "kiln pprof -top -cum cpu.pb.gz",
                  "", "kiln pprof -tree -base=old.pb.gz new.pb.gz", ""),
     .main = command_pprof},
    {.name = "completion",
     .arguments = "bash|zsh|fish",
     .summary = "Completion for a shell",
     .about = "Prints a script that makes the Tab key know kiln's commands and options.",
     .examples = EXAMPLES(". <(kiln completion bash)", "in ~/.bashrc",
                          "kiln completion zsh > \"${fpath[1]}/_kiln\"", "",
                          "kiln completion fish > ~/.config/fish/completions/kiln.fish", ""),
     .main = command_completion},
    {.name = "help",
     .arguments = "[COMMAND]",
     .summary = "This list, or the help of a command",
     .about = "Prints the list of commands, or what `kiln COMMAND --help` prints.",
     .examples = EXAMPLES("kiln help top", "what `kiln top` takes"),
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
            e, "%s: no profile; name a file, a URL, or - for standard input; see `kiln %s --help`",
            call->command->name, call->command->name);
    return source_use_threads(&call->source, e) ? -1 : call->command->run(call, e);
}

int command_main(const struct command *command, int argc, char **argv)
{
    if (command->main) {
        bool asks = argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0);
        if (!asks)
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
        fprintf(stderr, "kiln: standard output: %s\n", "could not be written");
        return 2;
    }
    return status;
}
