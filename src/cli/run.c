// kiln run: profiles an unmodified program by preloading libkiln.
#include "cli/commands.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/program.h"
#include "cli/file.h"
#include "cli/flags.h"
#include "cli/help.h"
#include "cli/output.h"
#include "cli/profiled.h"
#include "cli/progress.h"
#include "cli/run_heap.h"
#include "net/post.h"
#include "report/flame.h"

struct run {
    struct profiled p;
    bool quiet;
    const char *output;
    const char *cpu_output; // in addition to a heap profile; empty: none
};

enum { NOT_EXECUTABLE = 126, NOT_FOUND = 127 };

static int run_fail(const struct err *e)
{
    fprintf(stderr, "kiln: %s\n", e->message);
    return 2;
}

// Parses a number of bytes in the library's syntax.
static int check_interval(struct run *run, char *digits, size_t size, struct err *e)
{
    char *end;
    errno = 0;
    unsigned long long n = strtoull(run->p.heap_interval, &end, 10);
    int shift = *end == 'k' || *end == 'K' ? 10 : *end == 'm' || *end == 'M' ? 20 : 0;
    if (!*run->p.heap_interval)
        return 0;
    if (*run->p.heap_interval == '-' || errno || end == run->p.heap_interval || end[shift != 0] ||
        n < 1 || n > (1ull << 40) >> shift)
        return err_set(e,
                       "invalid --heap-interval \"%s\"; expected 1 to 1099511627776 bytes, such as "
                       "65536, 64k or 1m",
                       run->p.heap_interval);
    snprintf(digits, size, "%llu", n << shift);
    run->p.heap_interval = digits;
    return 0;
}

// --- before the program starts ---

// The reason why the program cannot be profiled; NULL: it can.
static const char *find_obstacle(const struct program *p, struct err *e)
{
    switch (p->kind) {
    case PROGRAM_STATIC:
        err_set(e,
                "%s is statically linked, so no library can be preloaded; link it dynamically, or "
                "link libkiln.a and call kiln_start",
                p->path);
        return e->message;
    case PROGRAM_MACHINE:
        err_set(e, "%s is a program for %s; use a kiln of that architecture", p->path, p->detail);
        return e->message;
    case PROGRAM_LIBC:
        err_set(e, "%s uses the loader %s; libkiln needs glibc", p->path, p->detail);
        return e->message;
    case PROGRAM_PRIVILEGED:
        err_set(e,
                "%s is setuid, setgid or has capabilities, so the loader ignores LD_PRELOAD; run "
                "kiln as the target user, on a copy without the bits",
                p->path);
        return e->message;
    default:
        return NULL;
    }
}

// Returns 0 or the exit status. With --follow, the children may be worth profiling even if the
// program is not.
static int check_program(const struct run *run)
{
    struct program p = {0};
    struct err e;
    char path[sizeof p.path];
    const char *name = run->p.program[0];
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
    const char *against = find_obstacle(&p, &e);
    if (!against)
        return 0;
    fprintf(stderr, "kiln: %s%s\n", against, run->p.follow ? "; profiling only its children" : "");
    return run->p.follow ? 0 : NOT_EXECUTABLE;
}

// --- the profile ---

static bool is_picture(const char *name)
{
    struct str s = str_from(name);
    return str_ends(s, STR(".svg")) || str_ends(s, STR(".html"));
}

static int draw_run_flame(const struct run *run, const char *output, const struct model_profile *p,
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
    struct report_flame_style style = {.subtitle = run->p.program[0]};
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

// Symbolizes and writes a profile in the format of the output's name. Returns NULL and fills e on
// failure.
static struct model_profile *write_named_profile(const struct run *run, struct model_profile *p,
                                                 const char *output, struct arena *arena,
                                                 struct err *e)
{
    p = profiled_add_names(&run->p, p, arena, e);
    if (!p)
        return NULL;
    struct file_format format;
    struct config config = config_default();
    int failed = is_picture(output) ? draw_run_flame(run, output, p, arena, e)
                                    : file_format_of(output, "", &format, e) ||
                                          file_write(p, output, format, &config, arena, e);
    return failed ? NULL : p;
}

static void print_run_summary(const struct run *run, const struct harvest_totals *t,
                              const char *output, const struct model_profile *p)
{
    double cpu = 0;
    for (size_t i = 0; i < p->n_samples; i++)
        cpu += (double)model_values(p, i)[1] / 1e9;
    fprintf(stderr, "kiln: %s: %.2f s of CPU time, %llu sample%s", output, cpu,
            (unsigned long long)t->samples, str_plural(t->samples));
    if (t->processes > 1)
        fprintf(stderr, ", %llu processes", (unsigned long long)t->processes);
    if (t->dropped > 0)
        fprintf(stderr, ", %.2f s dropped", t->dropped);
    if (t->unarmed)
        fprintf(stderr, ", %llu thread%s not profiled", (unsigned long long)t->unarmed,
                str_plural(t->unarmed));
    if (!is_picture(output) && strcmp(output, "-") != 0)
        fprintf(stderr, "; kiln top %s", output);
    fputc('\n', stderr);
    // The kernel checks timers CONFIG_HZ times a second; one sample then counts for several
    // periods.
    const double least = 1, few = 0.6;
    if (strcmp(run->p.clock, "perf") != 0 && cpu > least &&
        (double)t->samples < few * cpu * run->p.frequency)
        fprintf(stderr,
                "kiln: %.0f stacks per CPU-second instead of %d: the kernel's timer is slower; add "
                "--clock perf for more\n",
                (double)t->samples / cpu, run->p.frequency);
}

static int write_profiles(const struct run *run, struct harvest_totals *totals, struct arena *arena,
                          struct err *e)
{
    const char *cpu_output = run->p.heap ? run->cpu_output : run->output;
    struct model_profile *p;
    if (!*run->output && !*cpu_output)
        return 0; // it was pushed
    if (run->p.heap && *run->output && !harvest_lacks_heap(run->p.harvest, e)) {
        p = write_named_profile(run, harvest_heap(run->p.harvest, arena, e), run->output, arena, e);
        if (!p)
            return -1;
        harvest_count(run->p.harvest, totals);
        if (!run->quiet)
            run_heap_summarize(p, totals, run->output, arena, stderr);
    }
    if (!*cpu_output)
        return 0;
    p = write_named_profile(
        run, harvest_profile(run->p.harvest, run->p.follow ? 0 : run->p.child.own_nanos, arena, e),
        cpu_output, arena, e);
    if (p && !run->quiet)
        print_run_summary(run, totals, cpu_output, p);
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

// Users do not expect that the processes that did the work are missing.
static void hint_at_children(const struct run *run)
{
    const double least = 0.1;
    double children = run->p.child.children_cpu;
    if (run->quiet || run->p.follow || children < least || children <= run->p.child.own_cpu)
        return;
    fprintf(stderr,
            "kiln: %.1f s of CPU time were used by child processes; add --follow to profile "
            "them\n",
            children);
}

// Returns 2, or 0 if the program's memory limits are the reason.
static int report_no_profile(const struct run *run)
{
    if (*run->p.no_room) {
        fprintf(stderr, "kiln: %s: not profiled: %s\n", run->p.program[0], run->p.no_room);
        return 0;
    }
    if (harvest_failure(run->p.harvest)) {
        fprintf(stderr, "kiln: %s: no profile: %s\n", run->p.program[0],
                harvest_failure(run->p.harvest));
        return 2;
    }
    fprintf(stderr,
            "kiln: %s: no profile: libkiln was not loaded into the program, or runs as another "
            "user or in another root directory; see the messages of the loader\n",
            run->p.program[0]);
    return 2;
}

static int collect_profiles(const struct run *run)
{
    struct err e = {""};
    struct harvest_totals totals;
    harvest_print_notes(run->p.harvest, stderr);
    int result = harvest_dead(run->p.harvest, &e);
    harvest_count(run->p.harvest, &totals);
    if (result == 0 && totals.processes == 0)
        return report_no_profile(run);
    struct arena *arena = source_arena_new();
    if (!arena)
        result = err_set(&e, "out of memory");
    else if (try_to_write(run, &totals, arena, &e))
        result = -1;
    arena_free(arena);
    return result ? run_fail(&e) : 0;
}

// --- while it runs ---

// Waits until the program and, with --follow, its children have ended.
static void wait_for_program(struct run *run)
{
    struct profiled *p = &run->p;
    struct progress progress;
    bool told = false;
    progress_begin(&progress, run->quiet);
    while (!profiled_wait(p, progress_pause(&progress, p->child.ended))) {
        if (p->child.ended && p->totals.alive && !told && !run->quiet) {
            progress_clear(&progress);
            fprintf(stderr,
                    "kiln: the program has ended (%d); waiting for %llu of its child processes; "
                    "press Ctrl-C to write the profile now\n",
                    supervise_status(&p->child), (unsigned long long)p->totals.alive);
            told = true;
        }
        progress_show(&progress, &p->totals);
    }
    progress_clear(&progress);
    profiled_end(p);
}

static int run_profiled(struct run *run)
{
    struct err e;
    int error, status = check_program(run);
    if (status)
        return status;
    if (profiled_start(&run->p, &error, &e)) {
        run_fail(&e);
        status = error == ENOENT ? NOT_FOUND : error ? NOT_EXECUTABLE : 2;
    } else {
        wait_for_program(run);
        int written = collect_profiles(run);
        hint_at_children(run);
        status = supervise_status(&run->p.child);
        status = status ? status : written;
    }
    profiled_free(&run->p);
    return status;
}

// --- the command ---

static int check_run_output(const char *output, struct err *e)
{
    struct file_format format;
    if (!is_picture(output) && file_format_of(output, "", &format, NULL))
        return err_set(e,
                       "%s: unknown format; use .svg, .html, .pb.gz, .folded, .speedscope.json, "
                       ".callgrind, .json or .csv",
                       output);
    return strcmp(output, "-") == 0 ? 0 : output_check(output, e);
}

// Builds the tags in the library's syntax.
static int check_push(struct run *run, const struct flag_list *tags, char *all, size_t size,
                      struct err *e)
{
    struct post_url url;
    size_t n = 0;
    all[0] = '\0';
    if (!*run->p.push && (tags->n || *run->p.app))
        return err_set(e, "%s only applies to a server; add --push URL",
                       tags->n ? "--tag" : "--app");
    if (*run->p.push && post_url_parse(&url, run->p.push, e))
        return err_prefix(e, "--push ");
    for (size_t i = 0; i < tags->n; i++) {
        const char *equals = strchr(tags->items[i], '=');
        if (!equals || equals == tags->items[i] || strchr(tags->items[i], ','))
            return err_set(e, "invalid --tag %s; expected NAME=VALUE without a comma",
                           tags->items[i]);
        n += (size_t)snprintf(all + n, size - n, "%s%s", i ? "," : "", tags->items[i]);
        if (n >= size)
            return err_set(e, "--tag: the tags are longer than %zu bytes together", size - 1);
    }
    run->p.tags = all;
    return 0;
}

static int check_ranges(const struct run *run, struct err *e)
{
    if (run->p.frequency < 1 || run->p.frequency > 10000)
        return err_set(e, "invalid -F \"%d\"; expected 1 to 10000 samples per CPU-second",
                       run->p.frequency);
    if (run->p.depth < 1 || run->p.depth > 1024)
        return err_set(e, "invalid --depth \"%d\"; expected 1 to 1024 frames", run->p.depth);
    return 0;
}

int command_run(int argc, char **argv)
{
    struct run run = {.p = profiled_default(), .output = "", .cpu_output = ""};
    struct flag_list tags = {0};
    const struct flag flags[] = {
        {"F", FLAG_INT, &run.p.frequency, ""},
        {"o", FLAG_STRING, &run.output, ""},
        {"depth", FLAG_INT, &run.p.depth, ""},
        {"clock", FLAG_STRING, &run.p.clock, ""},
        {"follow", FLAG_BOOL, &run.p.follow, ""},
        {"q", FLAG_BOOL, &run.quiet, ""},
        {"listen", FLAG_STRING, &run.p.listen, ""},
        {"push", FLAG_STRING, &run.p.push, ""},
        {"app", FLAG_STRING, &run.p.app, ""},
        {"tag", FLAG_STRINGS, &tags, ""},
        {"heap", FLAG_BOOL, &run.p.heap, ""},
        {"heap-interval", FLAG_STRING, &run.p.heap_interval, ""},
        {"cpu", FLAG_STRING, &run.cpu_output, ""},
    };
    struct err e;
    int n;
    int parsed = flags_parse("run", flags, sizeof flags / sizeof *flags, argc, argv, &n, &e);
    if (parsed > 0) {
        help_command(command_find("run"), stdout);
        return 0;
    }
    if (parsed == 0 && n == 0)
        parsed = err_set(&e, "no program; try `kiln run -- ./app`; see `kiln run --help`");
    if (parsed < 0 || check_ranges(&run, &e))
        return run_fail(&e);
    argv[n + 1] = NULL;
    run.p.program = argv + 1;
    char name[NAME_MAX];
    if (!*run.output && !*run.p.push) {
        const char *slash = strrchr(run.p.program[0], '/');
        snprintf(name, sizeof name, "%.200s.pb.gz", slash ? slash + 1 : run.p.program[0]);
        run.output = name;
    }
    char interval[24], all[8192];
    if (*run.p.clock && strcmp(run.p.clock, "timer") != 0 && strcmp(run.p.clock, "perf") != 0) {
        err_set(&e, "invalid --clock \"%s\"; expected timer or perf", run.p.clock);
        return run_fail(&e);
    }
    if (!run.p.heap && (*run.p.heap_interval || *run.cpu_output)) {
        err_set(&e, "%s only applies to a heap profile; add --heap",
                *run.p.heap_interval ? "--heap-interval" : "--cpu");
        return run_fail(&e);
    }
    run.p.tell = !run.quiet;
    run.p.unnamed = !*run.output && !*run.cpu_output;
    if (profiled_find_libraries(&run.p, &e) ||
        check_interval(&run, interval, sizeof interval, &e) ||
        (*run.output && check_run_output(run.output, &e)) ||
        check_push(&run, &tags, all, sizeof all, &e) ||
        (*run.cpu_output && check_run_output(run.cpu_output, &e)))
        return run_fail(&e);
    int status = run_profiled(&run);
    supervise_die_alike(&run.p.child);
    return status;
}
