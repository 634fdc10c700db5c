// `kiln pprof`: a drop-in replacement for the pprof command.
#include "cli/commands.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli/flags.h"
#include "cli/output.h"
#include "cli/shell.h"
#include "cli/source.h"
#include "cli/viewer.h"
#include "net/pages.h"

enum { MOST_FLAGS = 160 };

struct options {
    struct config config;
    struct source source;
    const char *base, *diff_base, *http;
    bool no_browser;
    bool inuse_space, inuse_objects, alloc_space, alloc_objects, total_delay, contentions,
        mean_delay;
    // One per entry of view_commands and of config_choices.
    bool commands[64];
    const char *arguments[64];
    bool choices[16];
};

static int pprof_fail(const struct err *e)
{
    fprintf(stderr, "pprof: %s\n", e->message);
    return 2;
}

static void add_pprof_flag(struct flag *flags, size_t *n, const char *name, enum flag_kind kind,
                           void *value)
{
    flags[(*n)++] = (struct flag){.name = name, .kind = kind, .value = value};
}

static size_t list_flags(struct options *o, struct flag *flags)
{
    static const enum flag_kind kinds[] = {[CONFIG_BOOL] = FLAG_BOOL,
                                           [CONFIG_INT] = FLAG_INT,
                                           [CONFIG_DOUBLE] = FLAG_DOUBLE,
                                           [CONFIG_STRING] = FLAG_STRING};
    size_t n = 0;
    add_pprof_flag(flags, &n, "diff_base", FLAG_STRING, &o->diff_base);
    add_pprof_flag(flags, &n, "base", FLAG_STRING, &o->base);
    add_pprof_flag(flags, &n, "symbolize", FLAG_STRING, &o->source.symbolize);
    add_pprof_flag(flags, &n, "buildid", FLAG_STRING, &o->source.build_id);
    add_pprof_flag(flags, &n, "timeout", FLAG_INT, &o->source.timeout);
    add_pprof_flag(flags, &n, "add_comment", FLAG_STRING, &o->source.comment);
    add_pprof_flag(flags, &n, "all_frames", FLAG_BOOL, &o->source.all_frames);
    add_pprof_flag(flags, &n, "seconds", FLAG_INT, &o->source.seconds);
    add_pprof_flag(flags, &n, "inuse_space", FLAG_BOOL, &o->inuse_space);
    add_pprof_flag(flags, &n, "inuse_objects", FLAG_BOOL, &o->inuse_objects);
    add_pprof_flag(flags, &n, "alloc_space", FLAG_BOOL, &o->alloc_space);
    add_pprof_flag(flags, &n, "alloc_objects", FLAG_BOOL, &o->alloc_objects);
    add_pprof_flag(flags, &n, "total_delay", FLAG_BOOL, &o->total_delay);
    add_pprof_flag(flags, &n, "contentions", FLAG_BOOL, &o->contentions);
    add_pprof_flag(flags, &n, "mean_delay", FLAG_BOOL, &o->mean_delay);
    add_pprof_flag(flags, &n, "threads", FLAG_INT, &o->source.threads);
    add_pprof_flag(flags, &n, "tools", FLAG_STRING, &o->config.tools);
    add_pprof_flag(flags, &n, "http", FLAG_STRING, &o->http);
    add_pprof_flag(flags, &n, "no_browser", FLAG_BOOL, &o->no_browser);
    add_pprof_flag(flags, &n, "tls_cert", FLAG_STRING, &o->source.tls.cert);
    add_pprof_flag(flags, &n, "tls_key", FLAG_STRING, &o->source.tls.key);
    add_pprof_flag(flags, &n, "tls_ca", FLAG_STRING, &o->source.tls.ca);
    for (const struct config_field *f = config_fields; f->name; f++)
        if (f->kind != CONFIG_CHOICE)
            add_pprof_flag(flags, &n, f->name, kinds[f->kind], (char *)&o->config + f->offset);
    for (size_t i = 0; config_choices[i].name; i++)
        add_pprof_flag(flags, &n, config_choices[i].name, FLAG_BOOL, &o->choices[i]);
    for (size_t i = 0; view_commands[i].name; i++) {
        bool takes = view_commands[i].takes_regexp;
        o->arguments[i] = "";
        add_pprof_flag(flags, &n, view_commands[i].name, takes ? FLAG_STRING : FLAG_BOOL,
                       takes ? (void *)&o->arguments[i] : (void *)&o->commands[i]);
    }
    return n;
}

static int apply_choices(struct options *o, struct err *e)
{
    for (const struct config_field *f = config_fields; f->name; f++) {
        const char *chosen = NULL;
        for (size_t i = 0; f->choices && config_choices[i].name; i++) {
            if (!o->choices[i] || config_find(config_choices[i].name) != f)
                continue;
            if (chosen)
                return err_set(e, "conflicting options set: [%s %s]", chosen,
                               config_choices[i].name);
            chosen = config_choices[i].name;
        }
        if (chosen && config_set(&o->config, f, chosen, e))
            return -1;
    }
    return 0;
}

static int choose_command(const struct options *o, const struct view_command **command,
                          const char **argument, struct err *e)
{
    *command = NULL;
    *argument = NULL;
    for (size_t i = 0; view_commands[i].name; i++) {
        if (!o->commands[i] && !*o->arguments[i])
            continue;
        if (*command)
            return err_set(e, "must set at most one output format");
        *command = &view_commands[i];
        if (view_commands[i].takes_regexp)
            *argument = o->arguments[i];
    }
    return 0;
}

static void apply_legacy(struct options *o)
{
    const struct {
        bool set;
        const char *type, *option;
    } legacy[] = {
        {o->total_delay, "delay", "-total_delay"},
        {o->mean_delay, "delay", "-mean_delay"},
        {o->contentions, "contentions", "-contentions"},
        {o->inuse_space, "inuse_space", "-inuse_space"},
        {o->inuse_objects, "inuse_objects", "-inuse_objects"},
        {o->alloc_space, "alloc_space", "-alloc_space"},
        {o->alloc_objects, "alloc_objects", "-alloc_objects"},
    };
    for (size_t i = 0; i < sizeof legacy / sizeof *legacy; i++) {
        if (!legacy[i].set)
            continue;
        if (!*o->config.sample_index) {
            o->config.sample_index = legacy[i].type;
            continue;
        }
        char text[80];
        snprintf(text, sizeof text, "Multiple value selections, ignoring %s", legacy[i].option);
        source_complain(text);
    }
    if (o->mean_delay)
        o->config.mean = true;
}

static bool is_executable_file(const char *name)
{
    // ELF, PE, Mach-O with 32 and 64 bits in both byte orders, and universal binaries.
    static const struct str magics[] = {
        STR("\177ELF"),          STR("MZ"),
        STR("\xfe\xed\xfa\xce"), STR("\xce\xfa\xed\xfe"),
        STR("\xfe\xed\xfa\xcf"), STR("\xcf\xfa\xed\xfe"),
        STR("\xca\xfe\xba\xbe"), STR("\xbe\xba\xfe\xca"),
    };
    char magic[4];
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    bool whole = fd >= 0 && read(fd, magic, sizeof magic) == sizeof magic, yes = false;
    for (size_t i = 0; i < sizeof magics / sizeof *magics; i++)
        yes |= whole && memcmp(magic, magics[i].p, magics[i].n) == 0;
    if (fd >= 0)
        close(fd);
    return yes;
}

static int check_pprof_options(struct options *o, const struct view_command *command, struct err *e)
{
    if (*o->http && command)
        return err_set(e, "-http is not compatible with an output format on the command line");
    if (*o->http && pages_available(e))
        return -1;
    if (o->no_browser && !*o->http)
        return err_set(e, "-no_browser only makes sense with -http");
    if (*o->base && *o->diff_base)
        return err_set(e, "-base and -diff_base flags cannot both be specified");
    if (o->config.normalize && !*o->base && !*o->diff_base)
        return err_set(e, "must have base profile to normalize by");
    const char *cert = o->source.tls.cert, *key = o->source.tls.key;
    if ((cert && *cert) != (key && *key))
        return err_set(e, "-tls_cert and -tls_key go together: one of them is missing");
    return 0;
}

// -http=host:port; defaults: localhost and a free port.
static int serve_viewer(struct options *o, struct arena *arena, struct err *e)
{
    size_t n = strlen(o->http);
    const char *colon = strrchr(o->http, ':');
    if (!colon)
        return err_set(e, "could not split http address: address %s: missing port in address",
                       o->http);
    struct viewer viewer = {0};
    struct viewer_options options = {
        .listen = o->http[n - 1] == ':' ? arena_printf(arena, "%s0", o->http) : o->http,
        .no_browser = o->no_browser,
        .say = source_complain,
    };
    if (viewer_load(&viewer, &o->source, arena, e))
        return -1;
    viewer.config = o->config;
    return viewer_serve(&viewer, &options, e);
}

static void pprof_usage(void)
{
    fputs("usage:\n\n"
          "Produce output in the specified format.\n\n"
          "   pprof <format> [options] [binary] <source> ...\n\n"
          "Omit the format to get an interactive shell.\n\n"
          "   pprof [options] [binary] <source> ...\n\n"
          "Omit the format and provide the \"-http\" flag to get an interactive web\n"
          "interface at the specified host:port.\n\n"
          "   pprof -http [host]:[port] [options] [binary] <source> ...\n\n"
          "Details:\n",
          stderr);
    shell_usage(stderr, "-");
    fputs("\n\n"
          "  Source options:\n"
          "    -seconds              Duration of a profile that is taken now\n"
          "    -timeout              Seconds to wait for a profile\n"
          "    -buildid              Build id of the main binary\n"
          "    -add_comment          A comment to add to the profile\n"
          "    -diff_base source     Compare with this profile\n"
          "    -base source          Subtract this profile\n"
          "    -symbolize=           Where names come from\n"
          "      none                  from the profile alone\n"
          "      local                 from local binaries (the default)\n"
          "      fastlocal             from their symbol tables only\n"
          "      force                 also for what has names already\n"
          "      debuginfod            also from the servers of DEBUGINFOD_URLS\n"
          "    -tls_cert, -tls_key   Client certificate and key for fetching\n"
          "    -tls_ca               Certificates of authorities to trust\n"
          "    -all_frames           Ignore drop_frames and keep_frames\n"
          "    -threads              How many threads work (all processors)\n"
          "    -tools                Where objdump is: a directory, or objdump:directory\n"
          "  A source is a file (pprof, jemalloc, folded, perf script, speedscope),\n"
          "  - for standard input, or a URL such as http://host/debug/pprof/profile.\n\n"
          "  Legacy convenience options:\n"
          "   -inuse_space -inuse_objects -alloc_space -alloc_objects\n"
          "   -total_delay -contentions -mean_delay\n\n"
          "  Environment Variables:\n"
          "   PPROF_TMPDIR       Where fetched profiles are saved (default $HOME/pprof)\n"
          "   PPROF_TOOLS        Where objdump is, for -disasm and -weblist\n"
          "   PPROF_BINARY_PATH  Where binaries are (default $HOME/pprof/binaries)\n"
          "   KILN_MAX_MIB       Largest profile after decompression (default 1024)\n",
          stderr);
}

static int run_pprof(struct options *o, int argc, char **argv, struct arena *arena, struct err *e)
{
    static struct flag flags[MOST_FLAGS];
    size_t n_flags = list_flags(o, flags);
    int n;
    int parsed = flags_parse(NULL, flags, n_flags, argc, argv, &n, e);
    if (parsed > 0) {
        pprof_usage();
        return 0;
    }
    if (parsed < 0) {
        fprintf(stderr, "%s\n", e->message);
        pprof_usage();
        return 2;
    }
    if (n == 0) {
        pprof_usage();
        err_set(e, "no profile source specified");
        return pprof_fail(e);
    }
    char **names = argv + 1;
    if (n > 1 && is_executable_file(names[0])) {
        o->source.exec_name = names[0];
        names++;
        n--;
    }
    const struct view_command *command;
    const char *argument;
    if (apply_choices(o, e) || choose_command(o, &command, &argument, e) ||
        check_pprof_options(o, command, e) || source_use_threads(&o->source, e))
        return pprof_fail(e);
    apply_legacy(o);
    const char *base = *o->base ? o->base : o->diff_base;
    o->source.names = (const char *const *)names;
    o->source.n_names = (size_t)n;
    o->source.bases = &base;
    o->source.n_bases = *base ? 1 : 0;
    o->source.diff_base = *o->diff_base;
    o->source.normalize = o->config.normalize;
    o->config.debug_dirs = source_debug_dirs(&o->source, arena);
    if (*o->http)
        return serve_viewer(o, arena, e) ? pprof_fail(e) : 0;
    o->source.keeps_encoded = command != NULL;
    o->source.joins_encoded = command && view_needs_only_sums(command, &o->config);
    struct model_profile *p = source_load(&o->source, arena, e);
    if (!p)
        return pprof_fail(e);
    if (!command)
        return shell_run(p, &o->config, arena);
    struct report report;
    if (view_prepare(&report, p, command, argument, &o->config, arena, source_complain, e) ||
        output_report(&report, command, o->config.output, false, e))
        return pprof_fail(e);
    return 0;
}

int command_pprof(int argc, char **argv)
{
    struct err e = {""};
    struct options o = {
        .config = config_default(),
        .source = {.seconds = -1, .timeout = -1},
        .base = "",
        .diff_base = "",
        .http = "",
    };
    struct arena *arena = source_arena_new();
    if (!arena)
        return 2;
    int status = run_pprof(&o, argc, argv, arena, &e);
    arena_free(arena);
    return status;
}
