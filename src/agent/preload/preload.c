// Zero-code use: `LD_PRELOAD=libkiln.so KILN_OUTPUT=out.pb.gz ./app` profiles a program that
// knows nothing of it, from its start to its end.
//
//   KILN_OUTPUT     file for the profile when the process ends; %p is the process id
//   KILN_FREQUENCY  samples per CPU-second
//   KILN_DEPTH      frames per stack
//   KILN_CLOCK      timer or perf
//   KILN_FOLLOW     1: profile children too; .PID is appended to their output
//   KILN_LISTEN     HOST:PORT, :PORT or unix:/PATH to serve the endpoints on
//   KILN_TOKEN      token that requests must carry
//   KILN_TELL       1: print the address to stderr (always done for port 0)
//   KILN_HEAP       1: sample allocations; needs libkiln_malloc.so preloaded as well
//   KILN_HEAP_INTERVAL  mean bytes between samples
//   KILN_HEAP_SEED      seed of the distances between samples
//   KILN_HEAP_OUTPUT    file for the heap profile when the process ends; %p is the process id
//   KILN_PUSH       URL to push profiles to; see preload_push.c
//
// Without these the library does nothing until it is called. `kiln run` sets KILN_RUN instead of
// KILN_OUTPUT: samples lie in memory that it shares with the process, and it writes the profile.
#include <kiln/kiln.h>

#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "agent/confine.h"
#include "agent/endpoints/endpoints.h"
#include "agent/heap/heap_sampler.h"
#include "agent/journal/journal.h"
#include "agent/journal/journal_memory.h"
#include "agent/keeper.h"
#include "agent/preload/preload.h"
#include "agent/preload/preload_environment.h"
#include "agent/preload/preload_push.h"
#include "base/attributes.h"
#include "process/call.h"
#include "process/process.h"
#include "process/sandbox.h"
#include "process/write_signals.h"

static struct {
    bool active; // the environment asked for something
    char output[4096];
    char journal[256]; // KILN_RUN; empty: the process writes its profile itself
    struct kiln_options options;
    int window;
    pid_t pid; // whose window it is
    bool follow, heap;
    char heap_output[4096];
    uint64_t heap_interval, heap_seed;
    _Atomic bool open, heap_open; // heap_open: a heap profile is to be written
    _Atomic bool pushes;
    dev_t error_device; // of standard error at the start
    ino_t error_inode;
} run;

bool preload_is_active(void)
{
    return run.active;
}

// Standard error may have become a file or a connection of the program's by the same number, or a
// pipe that is full and that nobody reads: the message is shorter than what a pipe takes at once.
static void complain(const char *what, const char *why)
{
    char text[700];
    struct stat st;
    struct pollfd error = {.fd = STDERR_FILENO, .events = POLLOUT};
    int n = snprintf(text, sizeof text, "kiln: %s: %s\n", what, why);
    if (n <= 0 || fstat(STDERR_FILENO, &st) || st.st_dev != run.error_device ||
        st.st_ino != run.error_inode || poll(&error, 1, 0) != 1 || !(error.revents & POLLOUT))
        return;
    struct process_write_signals held = process_hold_write_signals();
    process_call(SYS_write, STDERR_FILENO, (long)text,
                 n < (int)sizeof text ? n : (long)sizeof text - 1, 0, 0, 0);
    process_release_write_signals(held);
}

// --- begin ---

// A child of fork goes on where its parent was, unless `kiln run` reads the samples.
static int begin_heap(struct err *e)
{
    struct capture_heap_options options = {
        .interval = run.heap_interval,
        .seed = run.heap_seed,
        .depth = run.options.depth < CAPTURE_MAX_DEPTH ? run.options.depth : CAPTURE_MAX_DEPTH,
        .block = *run.journal ? journal_memory_heap : NULL,
    };
    if (!run.heap || capture_heap_active())
        return 0;
    capture_heap_enter();
    int result = heap_sampler_start(&options, e);
    capture_heap_leave();
    return result;
}

// Errors are for the user of `kiln run`: the program's standard error is not ours.
static void begin_journal(void)
{
    struct err e = {""};
    struct kiln_error error;
    uint32_t hz = run.options.frequency ? run.options.frequency : 100;
    if (journal_open(run.journal, run.follow, hz, &e))
        journal_note(JOURNAL_NOTE_FAILED, e.message);
    else if (kiln_start(&run.options, &error))
        journal_note(JOURNAL_NOTE_FAILED, error.message);
    else
        atomic_store(&run.open, true);
    if (atomic_load(&run.open) && begin_heap(&e))
        journal_note(JOURNAL_NOTE_FAILED, e.message);
}

static void begin_window(void)
{
    struct kiln_error error;
    if (kiln_start(&run.options, &error) || (run.window = kiln_window_begin(&error)) < 0)
        complain("profiling is off", error.message);
    else
        atomic_store(&run.open, true);
}

static void begin(void)
{
    struct err e;
    run.pid = getpid();
    if (*run.journal) {
        begin_journal();
        return;
    }
    if (*run.output)
        begin_window();
    if (begin_heap(&e))
        complain("allocations are not sampled", e.message);
    else
        atomic_store(&run.heap_open, *run.heap_output);
    struct err ignored;
    if (atomic_load(&run.open) || atomic_load(&run.heap_open))
        keeper_start(&ignored);
}

// --- writing ---

static int write_window(int fd, struct kiln_error *error)
{
    return kiln_window_write(run.window, fd, error);
}

// What was sampled so far; the window stays open.
static int write_window_so_far(int fd, struct kiln_error *error)
{
    struct kiln_output output = {.size = sizeof output, .flags = KILN_ADDRESSES | KILN_STAY};
    return kiln_window_write_as(run.window, fd, &output, error);
}

static int write_heap(int fd, struct kiln_error *error)
{
    struct kiln_output output = {.size = sizeof output, .flags = KILN_ADDRESSES};
    return kiln_heap_write(fd, &output, error);
}

static void write_file(const char *path, int (*write_profile)(int fd, struct kiln_error *error))
{
    struct kiln_error error;
    struct process_write_signals held = process_hold_write_signals();
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0)
        complain(path, strerror(errno));
    else if (write_profile(fd, &error))
        complain(path, error.message);
    if (fd >= 0)
        close(fd);
    process_release_write_signals(held);
}

// Replaces the file as a whole: the process may end at any moment, and the file from a second ago
// is better than half a file.
static void replace_file(const char *path, int (*write_profile)(int fd, struct kiln_error *error))
{
    char partial[sizeof run.output + 16];
    struct stat st;
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) {
        write_file(path, write_profile);
        return;
    }
    snprintf(partial, sizeof partial, "%s.partial", path);
    write_file(partial, write_profile);
    if (rename(partial, path))
        complain(path, strerror(errno));
}

// For a process that will not be able to write later.
static void write_so_far(void)
{
    if (*run.journal || run.pid != getpid())
        return;
    if (atomic_load(&run.open))
        replace_file(run.output, write_window_so_far);
    if (atomic_load(&run.heap_open))
        replace_file(run.heap_output, write_heap);
}

// Once, whoever comes first: the destructor or one of the ways around it.
static void write_all(void)
{
    if (run.pid != getpid())
        return;
    if (atomic_exchange(&run.pushes, false))
        preload_push_stop(complain);
    if (atomic_exchange(&run.heap_open, false))
        write_file(run.heap_output, write_heap);
    if (!atomic_exchange(&run.open, false))
        return;
    if (*run.journal) {
        capture_end();
        return;
    }
    write_file(run.output, write_window);
    kiln_stop();
}

// --- the end ---

// By the keeper: _exit may be called by a signal handler that interrupted malloc or the library
// itself, or by a thread that may not open files.
static void write_at_exit(void)
{
    // What `kiln run` reads is ended by the thread that ends the process.
    if (!*run.journal)
        write_all();
    else if (atomic_exchange(&run.pushes, false))
        preload_push_stop(complain);
}

// Seconds. A handler may have called exit, too, but a program that ends as usual may have much to
// write.
enum { PATIENCE = 10, PATIENCE_AT_EXIT = 60 };

static void before_exit(unsigned patience)
{
    bool left = atomic_load(&run.open) || atomic_load(&run.heap_open) || atomic_load(&run.pushes);
    bool confined = sandbox_confines_caller();
    if (sandbox_scope() == SANDBOX_ALL_THREADS || !sandbox_caller_may_wait())
        return;
    if (left && run.pid == getpid() && !process_is_copy()) {
        if (!*run.journal || atomic_load(&run.pushes))
            keeper_write_at_exit(patience);
        if (*run.journal && !confined && !atomic_load(&run.pushes))
            write_all();
    }
    if (!confined)
        endpoints_leave();
}

void preload_before_exit(void)
{
    before_exit(PATIENCE);
}

// exit may be called by a signal handler as well, although it should not: most programs survive it.
__attribute__((destructor)) static void end(void)
{
    if (sandbox_confines_caller() || keeper_can_write())
        before_exit(PATIENCE_AT_EXIT);
    else if (process_is_us())
        write_all();
}

EXPORT void _exit(int status)
{
    preload_before_exit();
    for (;;)
        process_call(SYS_exit_group, status, 0, 0, 0, 0, 0);
}

EXPORT void _Exit(int status)
{
    _exit(status);
}

static void last_chance_to_write(void)
{
    if (!*run.journal && (atomic_load(&run.open) || atomic_load(&run.heap_open)))
        complain("the seccomp filter forbids writing at exit", "writing the profile so far");
    write_so_far();
}

// Go ends the process by a system call of its own.
static bool ends_without_libc(void)
{
    const ElfW(Phdr) *ph = (const void *)getauxval(AT_PHDR);
    size_t n = ph ? getauxval(AT_PHNUM) : 0;
    uintptr_t bias = 0;
    for (size_t i = 0; i < n; i++)
        if (ph[i].p_type == PT_PHDR)
            bias = (uintptr_t)ph - ph[i].p_vaddr;
    for (size_t i = 0; i < n; i++) {
        const ElfW(Nhdr) *note = (const void *)(bias + ph[i].p_vaddr);
        if (ph[i].p_type == PT_NOTE && ph[i].p_memsz >= sizeof *note + 4 && note->n_namesz == 4 &&
            memcmp(note + 1, "Go", 3) == 0)
            return true;
    }
    return false;
}

// --- the environment ---

// 0, the default, if there is none or it is invalid.
static uint64_t number_from(const char *name, uint64_t most)
{
    const char *text = process_getenv(name);
    if (!text || !*text)
        return 0;
    char *end;
    errno = 0;
    uint64_t number = strtoull(text, &end, 10);
    if (*text >= '0' && *text <= '9' && !*end && !errno && number <= most)
        return number;
    char why[200];
    snprintf(why, sizeof why,
             "invalid value \"%.60s\"; expected a number up to %llu; using the default", text,
             (unsigned long long)most);
    complain(name, why);
    return 0;
}

static uint32_t clock_from(const char *name)
{
    const char *text = process_getenv(name);
    if (!text || !*text || strcmp(text, "timer") == 0)
        return KILN_CLOCK_TIMER;
    return strcmp(text, "perf") == 0 ? KILN_CLOCK_PERF : UINT32_MAX;
}

static bool is_set(const char *name)
{
    const char *text = process_getenv(name);
    return text && *text;
}

// The pattern as an absolute path, since the program may change its directory, with the process id
// where it says so, or at the end.
static void name_output(char output[sizeof run.output], const char *pattern, bool append)
{
    size_t n = 0;
    if (*pattern && *pattern != '/' && getcwd(output, sizeof run.output / 2)) {
        n = strlen(output);
        output[n++] = '/';
    }
    for (const char *p = pattern; *p && n + 32 < sizeof run.output; p++) {
        if (p[0] == '%' && p[1] == 'p') {
            n += (size_t)snprintf(output + n, 32, "%d", (int)getpid());
            append = false;
            p++;
        } else {
            output[n++] = *p;
        }
    }
    output[n] = '\0';
    if (append && n)
        snprintf(output + n, 32, ".%d", (int)getpid());
}

static void in_child(void)
{
    environment_disown();
    bool was_open = atomic_exchange(&run.open, false);
    was_open |= atomic_exchange(&run.heap_open, false);
    atomic_store(&run.pushes, false); // the parent does
    journal_after_fork();
    if (!was_open || !run.follow || sandbox_scope() != SANDBOX_FREE)
        return;
    char pattern[sizeof run.output];
    memcpy(pattern, run.output, sizeof pattern);
    name_output(run.output, pattern, true);
    memcpy(pattern, run.heap_output, sizeof pattern);
    name_output(run.heap_output, pattern, true);
    begin();
}

static void start_push(void)
{
    struct kiln_error error;
    run.pid = getpid();
    if (!atomic_load(&run.open) && kiln_start(&run.options, &error)) {
        complain("push is off", error.message);
        return;
    }
    atomic_store(&run.pushes, preload_push_start(complain));
}

// A port that the kernel chose is printed: nobody could know it otherwise.
static void serve(const char *address)
{
    struct kiln_serve_options options = {sizeof options, address, process_getenv("KILN_TOKEN")};
    struct kiln_error error;
    char where[300];
    const char *tell = process_getenv("KILN_TELL"), *colon = strrchr(address, ':');
    bool chosen = strcmp(colon ? colon + 1 : address, "0") == 0;
    bool running = atomic_load(&run.open) || atomic_load(&run.pushes);
    if ((!running && kiln_start(&run.options, &error)) || kiln_serve(&options, &error))
        complain("endpoints are off", error.message);
    else if ((chosen || (tell && *tell == '1')) && kiln_serve_address(where, sizeof where) == 0)
        complain("listening", where);
}

static void read_options(void)
{
    run.options = (struct kiln_options){
        .size = sizeof run.options,
        .frequency = (uint32_t)number_from("KILN_FREQUENCY", UINT32_MAX),
        .depth = (uint32_t)number_from("KILN_DEPTH", UINT32_MAX),
        .clock = clock_from("KILN_CLOCK"),
    };
    run.heap_interval = number_from("KILN_HEAP_INTERVAL", INT64_MAX);
    run.heap_seed = number_from("KILN_HEAP_SEED", UINT64_MAX);
    run.follow = environment_follows();
}

// glibc gives constructors what the kernel gave to the program.
__attribute__((constructor)) static void start(int argc, char **argv, char **envp)
{
    static const struct process_fork_hooks hooks = {.in_child = in_child};
    static const struct confine_hooks confine = {last_chance_to_write, keeper_write_regularly};
    static const struct keeper_hooks keeper = {write_at_exit, write_so_far};
    const char *output = process_getenv("KILN_OUTPUT"), *heap = process_getenv("KILN_HEAP");
    const char *journal = process_getenv("KILN_RUN"), *listen = process_getenv("KILN_LISTEN");
    const char *heap_output = process_getenv("KILN_HEAP_OUTPUT");
    bool pushes = is_set("KILN_PUSH"), serves = is_set("KILN_LISTEN");
    bool writes = is_set("KILN_OUTPUT") || is_set("KILN_RUN");
    bool child = environment_is_child();
    run.heap = (heap && *heap == '1') || is_set("KILN_HEAP_OUTPUT");
    if ((!writes && !serves && !run.heap && !pushes) || process_is_privileged())
        return;
    if (journal)
        snprintf(run.journal, sizeof run.journal, "%s", journal);
    struct stat st = {0};
    fstat(STDERR_FILENO, &st);
    run.error_device = st.st_dev;
    run.error_inode = st.st_ino;
    read_options();
    run.active = true;
    process_on_end(preload_before_exit);
    confine_set_hooks(&confine);
    keeper_set_hooks(&keeper);
    if (writes || run.heap) {
        name_output(run.output, output ? output : "", child);
        name_output(run.heap_output, heap_output ? heap_output : "", child);
        begin();
        at_quick_exit(preload_before_exit);
    }
    process_on_fork(PROCESS_FORK_PRELOAD, &hooks);
    if (pushes && !child)
        start_push();
    // The port is the first process's.
    if (serves && !child)
        serve(listen);
    if (!*run.journal && ends_without_libc())
        keeper_write_regularly();
    environment_claim(envp);
}
