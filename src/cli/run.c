// kiln run: profiles a program that nobody changed, by preloading libkiln into it.
#include "cli/commands.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/program.h"
#include "cli/file.h"
#include "cli/flags.h"
#include "cli/harvest.h"
#include "cli/progress.h"
#include "cli/run.h"
#include "cli/run_heap.h"
#include "cli/run_names.h"
#include "cli/supervise.h"
#include "net/post.h"
#include "report/flame.h"
#include "symbol/symbol_profile.h"

struct run {
    int frequency, depth;
    bool follow, quiet, heap;
    bool apart; // the program has neither our standard input nor our output
    const char *output, *listen, *push, *app, *tags, *clock;
    const char *cpu_output; // beside a heap profile; empty: none
    const char *heap_interval;
    char **program;
    char library[PATH_MAX], malloc_library[PATH_MAX + 16];
    struct harvest *harvest;
    struct run_names *names;
    struct supervise child;
};

enum { NOT_EXECUTABLE = 126, NOT_FOUND = 127 };

static int usage(FILE *to)
{
    fputs("Usage: kiln run [-F HZ] [-o FILE] [--heap] [--listen ADDRESS] [--push URL] [--follow] "
          "[-q] "
          "-- PROGRAM [ARGUMENT...]\n\n"
          "Runs a program, dynamically linked and otherwise as it is, and profiles its CPU time\n"
          "from start to end, however it ends. The exit status is the program's.\n\n"
          "  -F HZ       samples per CPU-second, 1 to 10000 (default 100)\n"
          "  -o FILE     the profile: .pb.gz, .svg, .html, .folded, ... (default PROGRAM.pb.gz)\n"
          "  --depth N   frames of a stack, up to 1024 (default 500)\n"
          "  --clock perf\n"
          "              perf events instead of timers, where permitted: as many samples as -F\n"
          "              says, also above the kernel's CONFIG_HZ; each costs more\n"
          "  --heap      profile what it allocates instead: the file has what was allocated and\n"
          "              what was in use at the end, and the largest of that is told\n"
          "  --heap-interval BYTES\n"
          "              mean distance of samples; 64k and 1m are understood (default 512k)\n"
          "  --cpu FILE  with --heap: the profile of the CPU time, too\n"
          "  --listen ADDRESS\n"
          "              serve the program's endpoints, /debug/pprof/ and others, on HOST:PORT,\n"
          "              :PORT or unix:/PATH; with KILN_TOKEN set, to those who know it\n"
          "  --push URL  send its profiles to a server, kiln's or Pyroscope's, every ten seconds;\n"
          "              without -o no file is written. A user, password: "
          "http://USER:PASSWORD@HOST;\n"
          "              KILN_PUSH_TOKEN, KILN_TENANT are sent along\n"
          "  --app NAME  what the server is to call it (default: the program's name)\n"
          "  --tag NAME=VALUE\n"
          "              of all its profiles, up to 29 times\n"
          "  --follow    children too, added up; waits for those that outlive the program\n"
          "  -q          neither progress nor summary\n\n"
          "  kiln run -- ./app --port 8080\n"
          "  kiln run -F 1000 -o app.html -- ./app\n"
          "  kiln run --follow -o build.svg -- make -j2\n"
          "  kiln run --heap -o heap.pb.gz -- ./app\n"
          "  kiln run --push http://localhost:4040 --tag region=eu -- ./app\n",
          to);
    return to == stdout ? 0 : 2;
}

static int fail(const struct err *e)
{
    fprintf(stderr, "kiln: %s\n", e->message);
    return 2;
}

// Beside the command: in the build tree, or where it was installed.
static int find_library(char *path, size_t size, struct err *e)
{
    static const char *const places[] = {"libkiln.so", "src/agent/libkiln.so", "../lib/libkiln.so",
                                         "../lib/x86_64-linux-gnu/libkiln.so",
                                         "../lib/aarch64-linux-gnu/libkiln.so"};
    const char *given = getenv("KILN_LIBRARY");
    if (given && *given) {
        snprintf(path, size, "%s", given);
        return access(path, R_OK) ? err_set(e, "KILN_LIBRARY: %s: %s", path, strerror(errno)) : 0;
    }
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = '\0';
    char *slash = strrchr(self, '/');
    for (size_t i = 0; slash && i < sizeof places / sizeof *places; i++) {
        snprintf(path, size, "%.*s/%s", (int)(slash - self), self, places[i]);
        if (access(path, R_OK) == 0)
            return 0;
    }
    return err_set(e, "libkiln.so is not beside the kiln command; set KILN_LIBRARY to its path");
}

static int find_malloc_library(struct run *run, struct err *e)
{
    const char *slash = strrchr(run->library, '/');
    int n = slash ? (int)(slash - run->library) + 1 : 0;
    snprintf(run->malloc_library, sizeof run->malloc_library, "%.*slibkiln_malloc.so", n,
             run->library);
    return access(run->malloc_library, R_OK) ? err_set(e, "%s: %s; it must be beside libkiln.so",
                                                       run->malloc_library, strerror(errno))
                                             : 0;
}

// A number of bytes as the library reads it.
static int check_interval(struct run *run, char *digits, size_t size, struct err *e)
{
    char *end;
    errno = 0;
    unsigned long long n = strtoull(run->heap_interval, &end, 10);
    int shift = *end == 'k' || *end == 'K' ? 10 : *end == 'm' || *end == 'M' ? 20 : 0;
    if (!*run->heap_interval)
        return 0;
    if (*run->heap_interval == '-' || errno || end == run->heap_interval || end[shift != 0] ||
        n < 1 || n > (1ull << 40) >> shift)
        return err_set(e,
                       "invalid --heap-interval \"%s\"; expected 1 to 1099511627776 bytes, such as "
                       "65536, 64k or 1m",
                       run->heap_interval);
    snprintf(digits, size, "%llu", n << shift);
    run->heap_interval = digits;
    return 0;
}

// The loader would take it for two.
static int check_library(const char *path, struct err *e)
{
    return strpbrk(path, " :") ? err_set(e,
                                         "%s: the loader preloads no library whose path has a "
                                         "space or a colon; set KILN_LIBRARY to another place",
                                         path)
                               : 0;
}

// --- before the program starts ---

// What speaks against profiling it; NULL: nothing.
static const char *obstacle(const struct program *p, struct err *e)
{
    switch (p->kind) {
    case PROGRAM_STATIC:
        err_set(e,
                "%s is statically linked: no library can be preloaded into it; link it "
                "dynamically, or with libkiln and call kiln_start",
                p->path);
        return e->message;
    case PROGRAM_MACHINE:
        err_set(e, "%s is a program for %s, which this kiln cannot profile", p->path, p->detail);
        return e->message;
    case PROGRAM_LIBC:
        err_set(e, "%s is loaded by %s: libkiln needs programs that use glibc", p->path, p->detail);
        return e->message;
    case PROGRAM_PRIVILEGED:
        err_set(e,
                "%s is setuid, setgid or has capabilities: the loader preloads nothing into it; "
                "run kiln as the user that it becomes, on a copy without them",
                p->path);
        return e->message;
    default:
        return NULL;
    }
}

// 0, or the exit status. Children that are followed may be worth it where the program is not.
static int check_program(const struct run *run)
{
    struct program p = {0};
    struct err e;
    char path[sizeof p.path];
    const char *name = run->program[0];
    int error = program_find(name, path, sizeof path);
    if (error == 0)
        program_look(path, &p);
    if (error || p.kind == PROGRAM_MISSING || p.kind == PROGRAM_NOT_ALLOWED) {
        error = error ? error : p.error;
        if (p.path[0] && strcmp(p.path, path) != 0)
            fprintf(stderr, "kiln: %s: its interpreter %s: %s\n", name, p.path, strerror(error));
        else if (error == EACCES)
            fprintf(stderr, "kiln: %s: %s; chmod +x makes a program executable\n", name,
                    strerror(error));
        else
            fprintf(stderr, "kiln: %s: %s\n", name,
                    strchr(name, '/') ? strerror(error) : "not found in PATH");
        return error == ENOENT || error == ENOTDIR ? NOT_FOUND : NOT_EXECUTABLE;
    }
    const char *against = obstacle(&p, &e);
    if (!against)
        return 0;
    fprintf(stderr, "kiln: %s%s\n", against, run->follow ? "; only its children are" : "");
    return run->follow ? 0 : NOT_EXECUTABLE;
}

static void set_number(const char *name, int value)
{
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    if (value > 0)
        setenv(name, text, 1);
    else
        unsetenv(name);
}

static void set_text(const char *name, const char *value)
{
    if (*value)
        setenv(name, value, 1);
    else
        unsetenv(name);
}

static void prepare(void *context)
{
    const struct run *run = context;
    char text[4 * PATH_MAX];
    const char *others = getenv("LD_PRELOAD");
    snprintf(text, sizeof text, "%s%s%s%s%s", run->library, run->heap ? ":" : "",
             run->heap ? run->malloc_library : "", others ? ":" : "", others ? others : "");
    setenv("LD_PRELOAD", text, 1);
    set_number("KILN_HEAP", run->heap);
    unsetenv("KILN_HEAP_OUTPUT");
    if (*run->heap_interval)
        setenv("KILN_HEAP_INTERVAL", run->heap_interval, 1);
    else
        unsetenv("KILN_HEAP_INTERVAL");
    setenv("KILN_RUN", harvest_where(run->harvest), 1);
    set_number("KILN_FREQUENCY", run->frequency);
    set_number("KILN_DEPTH", run->depth);
    set_text("KILN_CLOCK", run->clock);
    set_number("KILN_FOLLOW", run->follow);
    if (*run->listen) {
        setenv("KILN_LISTEN", run->listen, 1);
        set_number("KILN_TELL", !run->quiet);
    } else {
        unsetenv("KILN_LISTEN");
    }
    set_text("KILN_PUSH", run->push);
    set_text("KILN_TAGS", run->tags);
    set_text("KILN_APP", run->app);
    // Those of a kiln run that we are in ourselves.
    unsetenv("KILN_OUTPUT");
    unsetenv("KILN_PID");
    int nowhere = run->apart ? open("/dev/null", O_RDWR | O_CLOEXEC) : -1;
    if (nowhere >= 0) {
        dup2(nowhere, STDIN_FILENO);
        dup2(nowhere, STDOUT_FILENO);
    }
}

// --- the profile ---

static bool is_picture(const char *name)
{
    struct str s = str_from(name);
    return str_ends(s, STR(".svg")) || str_ends(s, STR(".html"));
}

static int draw(const struct run *run, const char *output, const struct model_profile *p,
                struct arena *arena, struct err *e)
{
    bool html = str_ends(str_from(output), STR(".html"));
    struct report_flame_options options = {
        .type = p->n_types - 1,
        .all_types = html,
        .functions = html,
        .max_nodes = html ? REPORT_FLAME_HTML_NODES : REPORT_FLAME_SVG_NODES,
    };
    struct report_flame *flame = report_flame_new(arena, p, &options, e);
    if (!flame)
        return -1;
    int fd = open(output, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0)
        return err_set(e, "%s: %s", output, strerror(errno));
    struct report_flame_style style = {.subtitle = run->program[0]};
    struct out out;
    out_init_fd(&out, fd);
    if (html)
        report_flame_html(flame, &style, &out);
    else
        report_flame_svg(flame, &style, &out);
    int result = out_finish(&out, e);
    out_fini(&out);
    if (close(fd) && result == 0)
        result = err_set(e, "%s", strerror(errno));
    return result ? err_prefix(e, "%s: ", output) : 0;
}

static void note(void *context, const char *text)
{
    source_complain(text);
}

// NULL with e filled, also if there was no profile.
static struct model_profile *add_names(const struct run *run, struct model_profile *p,
                                       struct arena *arena, struct err *e)
{
    struct symbol_profile_options names = run_names_options(run->names);
    names.note = note;
    return p ? symbol_symbolize(p, &names, arena, e) : NULL;
}

// With names, in the format that the output's name tells. NULL with e filled.
static struct model_profile *write_profile(const struct run *run, struct model_profile *p,
                                           const char *output, struct arena *arena, struct err *e)
{
    p = add_names(run, p, arena, e);
    if (!p)
        return NULL;
    struct file_format format;
    struct config config = config_default();
    int failed = is_picture(output) ? draw(run, output, p, arena, e)
                                    : file_format_of(output, "", &format, e) ||
                                          file_write(p, output, format, &config, arena, e);
    return failed ? NULL : p;
}

static void summarize(const struct run *run, const struct harvest_totals *t, const char *output,
                      const struct model_profile *p)
{
    double cpu = 0;
    for (size_t i = 0; i < p->n_samples; i++)
        cpu += (double)model_values(p, i)[1] / 1e9;
    fprintf(stderr, "kiln: %s: %.2f s of CPU time, %llu samples", output, cpu,
            (unsigned long long)t->samples);
    if (t->processes > 1)
        fprintf(stderr, ", %llu processes", (unsigned long long)t->processes);
    if (t->dropped > 0)
        fprintf(stderr, ", %.2f s dropped", t->dropped);
    if (t->unarmed)
        fprintf(stderr, ", %llu threads not watched", (unsigned long long)t->unarmed);
    if (!is_picture(output) && strcmp(output, "-") != 0)
        fprintf(stderr, "; kiln top %s", output);
    fputc('\n', stderr);
}

static int write_profiles(const struct run *run, struct harvest_totals *totals, struct arena *arena,
                          struct err *e)
{
    const char *cpu_output = run->heap ? run->cpu_output : run->output;
    struct model_profile *p;
    if (!*run->output && !*cpu_output)
        return 0; // it was pushed
    if (run->heap && *run->output) {
        p = write_profile(run, harvest_heap(run->harvest, arena, e), run->output, arena, e);
        if (!p)
            return -1;
        harvest_count(run->harvest, totals);
        if (!run->quiet)
            run_heap_summarize(p, totals, run->output, arena, stderr);
    }
    if (!*cpu_output)
        return 0;
    p = write_profile(
        run, harvest_profile(run->harvest, run->follow ? 0 : run->child.own_nanos, arena, e),
        cpu_output, arena, e);
    if (p && !run->quiet)
        summarize(run, totals, cpu_output, p);
    return p ? 0 : -1;
}

static int try_to_write(const struct run *run, struct harvest_totals *totals, struct arena *arena,
                        struct err *e)
{
    struct arena_trap trap;
    if (ARENA_TRY(arena, trap))
        return arena_caught(arena, e);
    int result = write_profiles(run, totals, arena, e);
    arena_try_end(arena);
    return result;
}

// A profile without the processes that did the work surprises people.
static void hint_at_children(const struct run *run)
{
    const double least = 0.1;
    double children = run->child.children_cpu;
    if (run->quiet || run->follow || children < least || children <= run->child.own_cpu)
        return;
    fprintf(stderr,
            "kiln: %.1f s of CPU time were used by child processes; add --follow to profile "
            "them\n",
            children);
}

static int nothing_left(const struct run *run)
{
    fprintf(stderr,
            "kiln: %s: no profile: libkiln was not loaded into the program, or could not reach "
            "kiln's memory (another user, another root); the loader's message may say why\n",
            run->program[0]);
    return 2;
}

static int collect(const struct run *run)
{
    struct err e = {""};
    struct harvest_totals totals;
    harvest_print_notes(run->harvest, stderr);
    int result = harvest_dead(run->harvest, &e);
    harvest_count(run->harvest, &totals);
    if (result == 0 && totals.processes == 0)
        return nothing_left(run);
    struct arena *arena = source_arena_new();
    if (!arena)
        result = err_set(&e, "out of memory");
    else if (try_to_write(run, &totals, arena, &e))
        result = -1;
    arena_free(arena);
    return result ? fail(&e) : 0;
}

// --- while it runs ---

enum { PATIENCE = 20 }; // looks at orphans that might be about to tell of themselves

// Until the program has ended, and those that are followed with it.
static void attend(struct run *run)
{
    struct progress progress;
    struct harvest_totals totals;
    struct err e;
    bool told = false;
    int patience = PATIENCE;
    progress_begin(&progress, run->quiet);
    for (;;) {
        bool enough = supervise_wait(&run->child, progress_pause(&progress, run->child.ended));
        harvest_dead(run->harvest, &e);
        harvest_count(run->harvest, &totals);
        bool alone = totals.alive == 0 && (!run->child.orphans || patience-- == 0);
        if (run->child.ended && (enough || !run->follow || alone))
            break;
        if (run->child.ended && totals.alive && !told && !run->quiet) {
            progress_clear(&progress);
            fprintf(stderr,
                    "kiln: the program has ended (%d), %llu that it started still run: "
                    "waiting; an interrupt writes the profile now\n",
                    supervise_status(&run->child), (unsigned long long)totals.alive);
            told = true;
        }
        progress_show(&progress, &totals);
    }
    progress_clear(&progress);
    supervise_end(&run->child);
}

static int profile(struct run *run)
{
    struct err e;
    int error, status = check_program(run);
    if (status)
        return status;
    run->harvest = harvest_new(&e);
    if (!run->harvest)
        return fail(&e);
    if (run->follow)
        supervise_adopt();
    if (supervise_start(&run->child, run->program, prepare, run, &error, &e)) {
        fail(&e);
        status = error == ENOENT ? NOT_FOUND : error ? NOT_EXECUTABLE : 2;
    } else {
        run->names = *run->output || *run->cpu_output ? run_names_start(run->harvest) : NULL;
        attend(run);
        run_names_stop(run->names);
        int written = collect(run);
        hint_at_children(run);
        status = supervise_status(&run->child);
        status = status ? status : written;
    }
    run_names_free(run->names);
    harvest_free(run->harvest);
    return status;
}

// --- for commands that compare runs ---

// A statically linked program is not profiled, and nobody would notice beside the shell that ran
// it.
static int check_seen(const struct run *run, const struct model_profile *p, struct err *e)
{
    const double little = 0.05, most = 0.5;
    double seen = 0, used = run->child.own_cpu + run->child.children_cpu;
    for (size_t i = 0; i < p->n_samples; i++)
        seen += (double)model_values(p, i)[p->n_types - 1] / 1e9;
    if (used < little || seen >= most * used)
        return 0;
    return err_set(e,
                   "only %.2f of %.2f s of CPU time were profiled; statically linked programs and "
                   "those of other users cannot be",
                   seen, used);
}

static int take_profiles(struct run *run, struct run_measured *m, struct arena *arena,
                         struct err *e)
{
    struct harvest_totals totals;
    struct arena_trap trap;
    if (harvest_dead(run->harvest, e))
        return -1;
    harvest_count(run->harvest, &totals);
    if (totals.processes == 0)
        return err_set(e, "%s: no profile: libkiln was not loaded into the program",
                       run->program[0]);
    if (ARENA_TRY(arena, trap))
        return arena_caught(arena, e);
    m->cpu = add_names(run, harvest_profile(run->harvest, 0, arena, e), arena, e);
    if (m->cpu && run->heap)
        m->heap = add_names(run, harvest_heap(run->harvest, arena, e), arena, e);
    arena_try_end(arena);
    if (!m->cpu || (run->heap && !m->heap))
        return -1;
    return check_seen(run, m->cpu, e);
}

int run_measure(const struct run_wish *wish, struct arena *arena, struct run_measured *m,
                struct err *e)
{
    struct run run = {
        .output = "-", // has names
        .cpu_output = "",
        .listen = "",
        .push = "",
        .app = "",
        .tags = "",
        .clock = "",
        .heap_interval = "",
        .depth = 500,
        .frequency = wish->frequency,
        .heap = wish->heap,
        .program = wish->program,
        .follow = true,
        .quiet = true,
        .apart = true,
    };
    int error;
    *m = (struct run_measured){0};
    if (find_library(run.library, sizeof run.library, e) || check_library(run.library, e) ||
        (run.heap && find_malloc_library(&run, e)))
        return -1;
    run.harvest = harvest_new(e);
    if (!run.harvest)
        return -1;
    supervise_adopt();
    int result = supervise_start(&run.child, run.program, prepare, &run, &error, e);
    if (result == 0) {
        run.names = run_names_start(run.harvest);
        attend(&run);
        run_names_stop(run.names);
        m->status = supervise_status(&run.child);
        result = run.child.interrupted ? err_set(e, "interrupted")
                 : m->status           ? 0
                                       : take_profiles(&run, m, arena, e);
    }
    run_names_free(run.names);
    harvest_free(run.harvest);
    return result;
}

// --- the command ---

// Whether the file can be written at the end: what is said now spares a run that is for nothing.
static int check_writable(const char *output, struct err *e)
{
    char directory[PATH_MAX] = ".";
    struct stat st;
    const char *slash = strrchr(output, '/');
    if (stat(output, &st) == 0) {
        if (S_ISDIR(st.st_mode))
            return err_set(e, "%s: Is a directory; -o wants the name of a file", output);
        return faccessat(AT_FDCWD, output, W_OK, AT_EACCESS)
                   ? err_set(e, "%s: %s", output, strerror(errno))
                   : 0;
    }
    if (slash)
        snprintf(directory, sizeof directory, "%.*s/.", (int)(slash - output), output);
    return faccessat(AT_FDCWD, directory, W_OK | X_OK, AT_EACCESS)
               ? err_set(e, "%s: cannot be created: %s", output, strerror(errno))
               : 0;
}

static int check_output(const char *output, struct err *e)
{
    struct file_format format;
    if (!is_picture(output) && file_format_of(output, "", &format, e))
        return -1;
    return strcmp(output, "-") == 0 ? 0 : check_writable(output, e);
}

// The tags as the library reads them.
static int check_push(struct run *run, const struct flag_list *tags, char *all, size_t size,
                      struct err *e)
{
    struct post_url url;
    size_t n = 0;
    all[0] = '\0';
    if (!*run->push && (tags->n || *run->app))
        return err_set(e, "%s only applies to a server; add --push URL",
                       tags->n ? "--tag" : "--app");
    if (*run->push && post_url_parse(&url, run->push, e))
        return err_prefix(e, "--push ");
    for (size_t i = 0; i < tags->n; i++) {
        const char *equals = strchr(tags->items[i], '=');
        if (!equals || equals == tags->items[i] || strchr(tags->items[i], ','))
            return err_set(e, "--tag %s: a tag is NAME=VALUE, without a comma", tags->items[i]);
        n += (size_t)snprintf(all + n, size - n, "%s%s", i ? "," : "", tags->items[i]);
        if (n >= size)
            return err_set(e, "--tag: the tags are longer than %zu bytes together", size - 1);
    }
    run->tags = all;
    return 0;
}

int command_run(int argc, char **argv)
{
    struct run run = {
        .output = "",
        .listen = "",
        .push = "",
        .app = "",
        .tags = "",
        .clock = "",
        .cpu_output = "",
        .heap_interval = "",
        .depth = 500,
    };
    struct flag_list tags = {0};
    const struct flag flags[] = {
        {"F", FLAG_INT, &run.frequency, ""},
        {"o", FLAG_STRING, &run.output, ""},
        {"depth", FLAG_INT, &run.depth, ""},
        {"clock", FLAG_STRING, &run.clock, ""},
        {"follow", FLAG_BOOL, &run.follow, ""},
        {"q", FLAG_BOOL, &run.quiet, ""},
        {"listen", FLAG_STRING, &run.listen, ""},
        {"push", FLAG_STRING, &run.push, ""},
        {"app", FLAG_STRING, &run.app, ""},
        {"tag", FLAG_STRINGS, &tags, ""},
        {"heap", FLAG_BOOL, &run.heap, ""},
        {"heap-interval", FLAG_STRING, &run.heap_interval, ""},
        {"cpu", FLAG_STRING, &run.cpu_output, ""},
    };
    struct err e;
    int n;
    int parsed = flags_parse(flags, sizeof flags / sizeof *flags, argc, argv, &n, &e);
    if (parsed > 0)
        return usage(stdout);
    if (parsed < 0)
        return fail(&e);
    if (n == 0)
        return usage(stderr);
    argv[n + 1] = NULL;
    run.program = argv + 1;
    char name[NAME_MAX];
    if (!*run.output && !*run.push) {
        const char *slash = strrchr(run.program[0], '/');
        snprintf(name, sizeof name, "%.200s.pb.gz", slash ? slash + 1 : run.program[0]);
        run.output = name;
    }
    char interval[24], all[8192];
    if (*run.clock && strcmp(run.clock, "timer") != 0 && strcmp(run.clock, "perf") != 0) {
        err_set(&e, "invalid --clock \"%s\"; expected timer or perf", run.clock);
        return fail(&e);
    }
    if (!run.heap && (*run.heap_interval || *run.cpu_output)) {
        err_set(&e, "%s is for a heap profile: add --heap",
                *run.heap_interval ? "--heap-interval" : "--cpu");
        return fail(&e);
    }
    if (find_library(run.library, sizeof run.library, &e) || check_library(run.library, &e) ||
        (run.heap && find_malloc_library(&run, &e)) ||
        check_interval(&run, interval, sizeof interval, &e) ||
        (*run.output && check_output(run.output, &e)) ||
        check_push(&run, &tags, all, sizeof all, &e) ||
        (*run.cpu_output && check_output(run.cpu_output, &e)))
        return fail(&e);
    int status = profile(&run);
    supervise_die_alike(&run.child);
    return status;
}
