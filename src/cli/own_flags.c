#include "cli/own_flags.h"

#include "cli/suggest.h"

#define REMOTE_FLAGS                                                                \
    {"server", "URL", "the server (default KILN_SERVER or http://127.0.0.1:4040)"}, \
        {"token", "TOKEN", "bearer token (default KILN_TOKEN)"},                    \
        {"tenant", "NAME", "tenant, on a server with several"},                     \
    {                                                                               \
        "ca", "FILE", "certificates of authorities to trust"                        \
    }

static const struct own_flag run_flags[] = {
    {"F", "HZ", "samples per CPU-second, 1 to 10000 (default 100)"},
    {"o", "FILE", "output: .pb.gz, .svg, .html, .folded, ... (default PROGRAM.pb.gz)"},
    {"clock", "CLOCK",
     "timer (default) or perf\n"
     "The kernel checks timers CONFIG_HZ times a second, often 250. For\n"
     "more stacks than that, use perf: events that the kernel must permit\n"
     "(kernel.perf_event_paranoid of 2 or less); a sample costs more"},
    {"depth", "N", "frames per stack, 1 to 1024 (default 500)"},
    {"heap", NULL,
     "profile allocations instead of CPU time\n"
     "The profile contains all allocations, and the memory in use at the end"},
    {"heap-interval", "BYTES", "mean distance of heap samples, such as 64k (default 512k)"},
    {"cpu", "FILE", "with --heap: write a CPU profile as well"},
    {"listen", "ADDRESS",
     "serve the program's endpoints, /debug/pprof/ and others\n"
     "ADDRESS is HOST:PORT, :PORT or unix:/PATH; KILN_TOKEN sets a token"},
    {"push", "URL",
     "send profiles to a kiln or Pyroscope server every ten seconds\n"
     "Writes no file unless -o is given. KILN_PUSH_TOKEN, KILN_TENANT and\n"
     "http://USER:PASSWORD@HOST set credentials"},
    {"app", "NAME", "name of the service on the server (default: the program's)"},
    {"tag", "NAME=VALUE", "label of all pushed profiles; may be repeated"},
    {"follow", NULL, "profile child processes too, and wait for them"},
    {"q", NULL, "print neither progress nor summary"},
    {0},
};

static const struct own_flag server_flags[] = {
    {"listen", "ADDRESS", "HOST:PORT, :PORT or unix:/PATH (default 127.0.0.1:4040)"},
    {"data", "DIRECTORY", "directory of the data (default kiln-data)"},
    {"store", "URL", "clickhouse://USER@HOST:8123/DATABASE (default: files in --data)"},
    {"config", "FILE", "configuration in YAML (docs/reference/configuration.md)"},
    {"base-path", "PATH", "prefix of all URLs, behind a reverse proxy"},
    {"from", "DIRECTORY", "migrate: directory to copy from"},
    {"to", "URL", "migrate: store to copy to"},
    {"server", "URL", "delete-service: the server (default http://127.0.0.1:4040)"},
    {"token", "TOKEN", "delete-service: bearer token (default KILN_TOKEN)"},
    {"tenant", "NAME", "delete-service: tenant, on a server with several"},
    {"ca", "FILE", "delete-service: certificates of authorities to trust"},
    {0},
};

static const struct own_flag push_flags[] = {
    {"label", "NAME=VALUE",
     "label of the profiles; may be repeated\n"
     "service_name is the service (default unknown_service); __name__, such\n"
     "as process_cpu or memory, is guessed if it is not given"},
    {"backfill", NULL, "accept profiles older than limits.past; needs the admin scope"},
    REMOTE_FLAGS,
    {0},
};

static const struct own_flag debuginfo_flags[] = {
    {"missing", NULL, "list: build ids that profiles need and the server does not have"},
    {"from", "TIME", "list --missing: begin of the range (default now-1d)"},
    {"until", "TIME", "list --missing: end of the range (default now)"},
    REMOTE_FLAGS,
    {0},
};

static const struct own_flag query_flags[] = {
    {"type", "TYPE", "profile type (default: CPU time, or else the first type)"},
    {"from", "TIME", "begin of the range (default now-1h)"},
    {"until", "TIME", "end of the range (default now)"},
    {"label", "NAME", "labels: list the values of this label"},
    {"step", "SECONDS", "series, function: distance of the points (default 60)"},
    {"by", "LABEL", "series, function: group by this label"},
    {"state", "STATE", "changes: open, acknowledged, muted or gone"},
    {"json", NULL, "function, changes: print the server's response"},
    {"base", "{SELECTOR}", "diff: selector to compare with"},
    {"base-from", "TIME", "diff: begin of the range to compare with"},
    {"base-until", "TIME", "diff: end of the range to compare with"},
    REMOTE_FLAGS,
    {0},
};

static const struct own_flag annotate_flags[] = {
    {"service", "NAME", "service (default: all services)"},
    {"tag", "TAG", "tag of the annotation; may be repeated"},
    {"time", "TIME", "begin (default now): now-5m, 1700000000 or 20240131"},
    {"until", "TIME", "end, if it lasted"},
    REMOTE_FLAGS,
    {0},
};

static const struct own_flag addr2line_flags[] = {
    {"e", "BINARY", "file to search"},
    {"a", NULL, "print the address first"},
    {"f", NULL, "print the function's name"},
    {"i", NULL, "print the callers of inlined functions too"},
    {"s", NULL, "print base names of files"},
    {"p", NULL, "print one line per place"},
    {"C", NULL, "demangle names"},
    {0},
};

const struct own_flag *own_flags(const struct command *c)
{
    static const struct own_flag none[] = {{0}};
    static const struct {
        const char *command;
        const struct own_flag *flags;
    } tables[] = {
        {"run", run_flags},
        {"server", server_flags},
        {"push", push_flags},
        {"query", query_flags},
        {"debuginfo", debuginfo_flags},
        {"annotate", annotate_flags},
        {"addr2line", addr2line_flags},
    };
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        if (strcmp(c->name, tables[i].command) == 0)
            return tables[i].flags;
    return none;
}

const char *own_flag_dashes(const struct own_flag *f)
{
    return f->name[1] ? "--" : "-";
}

struct str own_flag_summary(const struct own_flag *f)
{
    return (struct str){f->help, strcspn(f->help, "\n")};
}

int own_flag_unknown(const char *command, const char *argument, struct err *e)
{
    struct str name = str_from(argument + 1 + (argument[1] == '-'));
    name.n = strcspn(name.p, "=");
    int shown = (int)(name.p + name.n - argument);
    struct suggestion near = suggest_option(name);
    for (const struct own_flag *f = own_flags(command_find(command)); f->name; f++)
        suggest_try(&near, f->name);
    suggest_try(&near, "help");
    if (*near.best)
        return err_set(e, "unknown option %.*s; did you mean %s%s?", shown, argument,
                       near.best[1] ? "--" : "-", near.best);
    return err_set(e, "unknown option %.*s; see `kiln %s --help`", shown, argument, command);
}
