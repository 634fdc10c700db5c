// Finds objdump and runs it, several processes at a time.
#include "symbol/disasm.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

enum {
    OBJDUMP_TIMEOUT = 300,    // timeout of one objdump in seconds; large DWARF takes long
    LARGEST_OUTPUT = 1 << 30, // bytes
    MOST_AT_ONCE = 8,
};

// --- processes ---

struct process {
    pid_t pid;    // 0: none
    int handle;   // pidfd, readable when the process has ended; -1: not supported here
    int output;   // memfd with its standard output; -1: none
    time_t until; // deadline in monotonic seconds
    size_t range;
};

static time_t monotonic_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

static int process_start(struct process *p, const char *const *argv)
{
    *p = (struct process){.handle = -1, .until = monotonic_seconds() + OBJDUMP_TIMEOUT};
    p->output = memfd_create("objdump", MFD_CLOEXEC);
    if (p->output < 0)
        return errno;
    posix_spawn_file_actions_t actions;
    int error = posix_spawn_file_actions_init(&actions);
    if (error)
        return error;
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, p->output, STDOUT_FILENO);
    error = posix_spawn(&p->pid, argv[0], &actions, NULL, (char *const *)argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (error) {
        p->pid = 0;
        return error;
    }
    p->handle = (int)syscall(SYS_pidfd_open, p->pid, 0);
    return 0;
}

static void process_drop(struct process *p)
{
    if (p->pid > 0) {
        kill(p->pid, SIGKILL);
        waitpid(p->pid, NULL, 0);
    }
    if (p->handle >= 0)
        close(p->handle);
    if (p->output >= 0)
        close(p->output);
    *p = (struct process){.handle = -1, .output = -1};
}

static size_t output_size(const struct process *p)
{
    struct stat st;
    return fstat(p->output, &st) == 0 ? (size_t)st.st_size : 0;
}

// Returns why the process failed, "" if it succeeded, or NULL if it is still running.
static const char *process_outcome(struct process *p, char *text, size_t size)
{
    int status = 0;
    pid_t ended = waitpid(p->pid, &status, WNOHANG);
    if (ended == 0 && monotonic_seconds() >= p->until)
        return "it takes too long";
    if (ended == 0 && output_size(p) > LARGEST_OUTPUT)
        return "it prints too much";
    if (ended == 0)
        return NULL;
    p->pid = 0;
    if (ended < 0)
        return strerror(errno);
    if (WIFSIGNALED(status))
        snprintf(text, size, "signal: %s", strsignal(WTERMSIG(status)));
    else if (WEXITSTATUS(status))
        snprintf(text, size, "exit status %d", WEXITSTATUS(status));
    else
        return "";
    return text;
}

static void wait_for_any(const struct process *processes, size_t n)
{
    struct pollfd handles[MOST_AT_ONCE];
    nfds_t count = 0;
    bool blind = false;
    for (size_t i = 0; i < n; i++) {
        if (processes[i].pid == 0)
            continue;
        blind |= processes[i].handle < 0;
        handles[count++] = (struct pollfd){.fd = processes[i].handle, .events = POLLIN};
    }
    poll(handles, count, blind ? 5 : 1000);
}

static struct str read_process_output(const struct process *p, struct arena *arena)
{
    size_t size = output_size(p), n = 0;
    char *text = arena_alloc(arena, size + 1);
    for (ssize_t got; n < size; n += (size_t)got)
        if ((got = pread(p->output, text + n, size - n, (off_t)n)) <= 0)
            break;
    return (struct str){text, n};
}

// --- finding objdump ---

static bool is_program(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && !S_ISDIR(st.st_mode) && access(path, X_OK) == 0;
}

static bool find_program_in(struct str directories, char separator, const char *name,
                            struct disasm_tool *tool)
{
    while (directories.p) {
        const char *end = memchr(directories.p, separator, directories.n);
        struct str dir = {directories.p, end ? (size_t)(end - directories.p) : directories.n};
        if (dir.n && dir.n + strlen(name) + 2 < sizeof tool->path) {
            snprintf(tool->path, sizeof tool->path, "%.*s/%s", (int)dir.n, dir.p, name);
            if (is_program(tool->path))
                return true;
        }
        directories = end ? str_from_to(directories, dir.n + 1, directories.n) : (struct str){0};
    }
    return false;
}

static bool find_tool(struct str where, const char *name, struct disasm_tool *tool)
{
    const char *path = getenv("PATH");
    if (where.n == 0 || str_eq(where, STR(".")))
        return path && find_program_in(str_from(path), ':', name, tool);
    return find_program_in(where, '\0', name, tool);
}

// Returns 1 for GNU objdump, 2 for LLVM's, 0 if it cannot be used.
static int ask_kind(const struct disasm_tool *tool)
{
    const char *const argv[] = {tool->path, "--version", NULL};
    struct process p;
    char text[64], version[4096];
    const char *why = process_start(&p, argv) ? "not started" : NULL;
    while (!why && !(why = process_outcome(&p, text, sizeof text)))
        wait_for_any(&p, 1);
    ssize_t n = *why ? 0 : pread(p.output, version, sizeof version, 0);
    process_drop(&p);
    return n > 0 ? disasm_kind((struct str){version, (size_t)n}) : 0;
}

// Searches the directories given for objdump first, then those given for all tools.
static bool find_named(struct disasm_tool *tool, const char *tools, const char *name)
{
    for (int general = 0; general < 2; general++) {
        for (const char *at = tools;; at += strcspn(at, ",") + 1) {
            struct str entry = {at, strcspn(at, ",")}, prefix = {at, entry.n};
            const char *colon = memchr(at, ':', entry.n);
            if (colon) {
                prefix.n = (size_t)(colon - at);
                entry = str_from_to(entry, prefix.n + 1, entry.n);
            } else {
                prefix.n = 0;
            }
            if (str_eq(prefix, general ? STR("") : STR("objdump")) && find_tool(entry, name, tool))
                return true;
            if (!at[strcspn(at, ",")])
                break;
        }
    }
    return false;
}

static const char *const names[] = {"llvm-objdump", "objdump"};

// Selects the first existing program from names[from] on. If asking, runs it and skips unusable
// ones.
static void find_from(struct disasm_tool *tool, int from, bool asking)
{
    for (int i = from; i < 2; i++) {
        if (!find_named(tool, tool->tools, names[i]))
            continue;
        int kind = asking ? ask_kind(tool) : i == 0 ? 2 : 1;
        tool->is_llvm = kind == 2;
        if (kind)
            return;
    }
    tool->path[0] = '\0';
}

void disasm_find(struct disasm_tool *tool, const char *tools)
{
    tool->tools = tools;
    tool->is_known = false;
    find_from(tool, 0, false);
}

// --- ranges ---

enum { MOST_ARGUMENTS = 12 };

static void objdump_arguments(const struct disasm_tool *tool, const struct disasm_range *range,
                              struct arena *arena, const char **argv)
{
    size_t n = 0;
    argv[n++] = tool->path;
    argv[n++] = "--disassemble";
    argv[n++] = "--demangle";
    argv[n++] = "--no-show-raw-insn";
    argv[n++] = "--line-numbers";
    argv[n++] = arena_printf(arena, "--start-address=0x%llx", (unsigned long long)range->start);
    argv[n++] = arena_printf(arena, "--stop-address=0x%llx", (unsigned long long)range->end);
    if (range->intel_syntax && tool->is_llvm) {
        argv[n++] = "--x86-asm-syntax=intel";
    } else if (range->intel_syntax) {
        argv[n++] = "-M";
        argv[n++] = "intel";
    }
    argv[n++] = range->binary;
    argv[n] = NULL;
}

static const char *explain_objdump_error(const char *const *argv, const char *why,
                                         struct arena *arena)
{
    const char *text = "";
    for (; *argv; argv++)
        text = arena_printf(arena, "%s%s%s", text, *text ? " " : "", *argv);
    return arena_printf(arena, "[%s]: %s", text, why);
}

struct pool {
    const struct disasm_tool *tool;
    struct disasm_range *ranges;
    struct arena *arena;
    const size_t *order; // indices of the ranges to run
    struct process processes[MOST_AT_ONCE];
    size_t size;
};

static void finish_range(struct pool *pool, struct process *p, const char *why)
{
    struct disasm_range *range = &pool->ranges[p->range];
    const char *argv[MOST_ARGUMENTS];
    if (*why) {
        objdump_arguments(pool->tool, range, pool->arena, argv);
        range->error = explain_objdump_error(argv, why, pool->arena);
    } else {
        range->insts = disasm_parse(read_process_output(p, pool->arena), pool->arena, &range->n);
    }
    process_drop(p);
}

static void run_pool(struct pool *pool, size_t n)
{
    for (size_t next = 0, running = 0; next < n || running;) {
        bool changed = false;
        for (size_t i = 0; i < pool->size; i++) {
            struct process *p = &pool->processes[i];
            char text[64];
            const char *why = p->pid ? process_outcome(p, text, sizeof text) : NULL;
            if (why) {
                finish_range(pool, p, why);
                running--;
                changed = true;
            }
            if (p->pid == 0 && next < n) {
                const char *argv[MOST_ARGUMENTS];
                objdump_arguments(pool->tool, &pool->ranges[pool->order[next]], pool->arena, argv);
                int error = process_start(p, argv);
                p->range = pool->order[next++];
                changed = true;
                if (error)
                    finish_range(pool, p, strerror(error));
                else
                    running++;
            }
        }
        if (!changed)
            wait_for_any(pool->processes, pool->size);
    }
}

// Runs the ranges whose indices are in order.
static void run_ranges(const struct disasm_tool *tool, struct disasm_range *ranges,
                       const size_t *order, size_t n, struct arena *arena)
{
    for (size_t i = 0; !*tool->path && i < n; i++)
        ranges[order[i]].error = "cannot disasm: no objdump tool available";
    if (!*tool->path)
        return;
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    struct pool pool = {.tool = tool, .ranges = ranges, .arena = arena, .order = order, .size = 1};
    if (processors > 1)
        pool.size = processors > MOST_AT_ONCE ? MOST_AT_ONCE : (size_t)processors;
    for (size_t i = 0; i < MOST_AT_ONCE; i++)
        pool.processes[i] = (struct process){.handle = -1, .output = -1};
    struct pool *volatile held = &pool;
    struct arena_trap trap;
    if (ARENA_TRY(arena, trap)) {
        struct err e;
        for (size_t i = 0; i < held->size; i++)
            process_drop(&held->processes[i]);
        arena_caught(held->arena, &e);
        arena_fail(held->arena, "%s", e.message);
    }
    run_pool(&pool, n);
    arena_try_end(arena);
}

void disasm_run(struct disasm_tool *tool, struct disasm_range *ranges, size_t n,
                struct arena *arena)
{
    size_t *order = arena_array(arena, n + 1, sizeof *order), count = 0, failed = 0;
    for (size_t i = 0; i < n; i++)
        if (!ranges[i].error)
            order[count++] = i;
    run_ranges(tool, ranges, order, count, arena);
    for (size_t i = 0; i < count; i++)
        if (ranges[order[i]].error)
            order[failed++] = order[i];
    if (failed && *tool->path && !tool->is_known && ask_kind(tool) == 0) {
        find_from(tool, tool->is_llvm ? 1 : 2, true);
        for (size_t i = 0; i < failed; i++)
            ranges[order[i]].error = NULL;
        run_ranges(tool, ranges, order, failed, arena);
    }
    tool->is_known = true;
}
