// Profiling without code changes: `LD_PRELOAD=libkiln.so KILN_OUTPUT=out.pb.gz ./app` profiles an
// unmodified program from its start to its end.
//
//   KILN_OUTPUT     file for the profile, written when the process ends; %p is the process id
//   KILN_FREQUENCY  samples per CPU-second
//   KILN_DEPTH      frames per stack
//   KILN_CLOCK      timer or perf
//   KILN_FOLLOW     1: profile children as well; .PID is appended to their output
//   KILN_LISTEN     HOST:PORT, :PORT or unix:/PATH to serve the endpoints on
//   KILN_TOKEN      token that requests must send
//   KILN_TELL       1: print the address to stderr (always done for port 0)
//   KILN_HEAP       1: sample allocations; needs libkiln_malloc.so preloaded as well
//   KILN_HEAP_INTERVAL  mean bytes between samples
//   KILN_HEAP_SEED      seed for the gaps between samples
//   KILN_HEAP_OUTPUT    file for the heap profile, written when the process ends
//   KILN_PUSH       URL to push profiles to; see preload_push.h
//
// Without these the library does nothing until it is called. `kiln run` sets KILN_RUN instead of
// KILN_OUTPUT: samples go to memory that it shares with the process, and it writes the profile.
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
    bool active; // the environment requests profiling
    char output[4096];
    char journal[256]; // KILN_RUN; empty: the process writes its own profile
    struct kiln_options options;
    int window;
    pid_t pid; // the process that opened the window
    bool follow, heap;
    char heap_output[4096];
    uint64_t heap_interval, heap_seed;
    _Atomic bool open, heap_open; // heap_open: write a heap profile at exit
    _Atomic bool pushes;
    dev_t error_device; // of standard error at the start
    ino_t error_inode;
} preloaded;

bool preload_is_active(void)
{
    return preloaded.active;
}

// Prints only if standard error is still the same file: its descriptor may have been reused for a
// file or a connection of the program. Does not block on a full pipe: the message is short enough
// to be written at once.
static void print_error(const char *what, const char *why)
{
    char text[700];
    struct stat st;
    struct pollfd error = {.fd = STDERR_FILENO, .events = POLLOUT};
    int n = snprintf(text, sizeof text, "kiln: %s: %s\n", what, why);
    if (n <= 0 || fstat(STDERR_FILENO, &st) || st.st_dev != preloaded.error_device ||
        st.st_ino != preloaded.error_inode || poll(&error, 1, 0) != 1 || !(error.revents & POLLOUT))
        return;
    struct process_write_signals held = process_hold_write_signals();
    process_call(SYS_write, STDERR_FILENO, (long)text,
                 n < (int)sizeof text ? n : (long)sizeof text - 1, 0, 0, 0);
    process_release_write_signals(held);
}

// --- begin ---

// A child of fork continues its parent's sampling, unless `kiln run` reads the samples.
static int begin_heap_sampling(struct err *e)
{
    struct capture_heap_options options = {
        .interval = preloaded.heap_interval,
        .seed = preloaded.heap_seed,
        .depth = preloaded.options.depth < CAPTURE_MAX_DEPTH ? preloaded.options.depth
                                                             : CAPTURE_MAX_DEPTH,
        .block = *preloaded.journal ? journal_memory_heap : NULL,
    };
    if (!preloaded.heap || capture_heap_active())
        return 0;
    capture_heap_enter();
    int result = heap_sampler_start(&options, e);
    capture_heap_leave();
    return result;
}

// Errors go to the user of `kiln run`, because standard error belongs to the program.
static void begin_journal(void)
{
    struct err e = {""};
    struct kiln_error error;
    uint32_t hz = preloaded.options.frequency ? preloaded.options.frequency : 100;
    if (journal_open(preloaded.journal, preloaded.follow, hz, &e))
        journal_note(JOURNAL_NOTE_FAILED, e.message);
    else if (kiln_start(&preloaded.options, &error))
        journal_note(JOURNAL_NOTE_FAILED, error.message);
    else
        atomic_store(&preloaded.open, true);
    if (atomic_load(&preloaded.open) && begin_heap_sampling(&e))
        journal_note(JOURNAL_NOTE_FAILED, e.message);
}

static void begin_window(void)
{
    struct kiln_error error;
    if (kiln_start(&preloaded.options, &error) ||
        (preloaded.window = kiln_window_begin(&error)) < 0)
        print_error("profiling is off", error.message);
    else
        atomic_store(&preloaded.open, true);
}

static void begin_profiling(void)
{
    struct err e;
    preloaded.pid = getpid();
    if (*preloaded.journal) {
        begin_journal();
        return;
    }
    if (*preloaded.output)
        begin_window();
    if (begin_heap_sampling(&e))
        print_error("allocations are not sampled", e.message);
    else
        atomic_store(&preloaded.heap_open, *preloaded.heap_output);
    struct err ignored;
    if (atomic_load(&preloaded.open) || atomic_load(&preloaded.heap_open))
        keeper_start(&ignored);
}

// --- writing ---

static int write_preload_window(int fd, struct kiln_error *error)
{
    return kiln_window_write(preloaded.window, fd, error);
}

// The samples so far; the window stays open.
static int write_window_so_far(int fd, struct kiln_error *error)
{
    struct kiln_output output = {.size = sizeof output, .flags = KILN_ADDRESSES | KILN_STAY};
    return kiln_window_write_as(preloaded.window, fd, &output, error);
}

static int write_preload_heap(int fd, struct kiln_error *error)
{
    struct kiln_output output = {.size = sizeof output, .flags = KILN_ADDRESSES};
    return kiln_heap_write(fd, &output, error);
}

static void write_profile_file(const char *path,
                               int (*write_profile)(int fd, struct kiln_error *error))
{
    struct kiln_error error;
    struct process_write_signals held = process_hold_write_signals();
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0)
        print_error(path, strerror(errno));
    else if (write_profile(fd, &error))
        print_error(path, error.message);
    if (fd >= 0)
        close(fd);
    process_release_write_signals(held);
}

// Replaces the file atomically: the process may end at any time, and a file that is a second old is
// better than a truncated one.
static void replace_file(const char *path, int (*write_profile)(int fd, struct kiln_error *error))
{
    char partial[sizeof preloaded.output + 16];
    struct stat st;
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) {
        write_profile_file(path, write_profile);
        return;
    }
    snprintf(partial, sizeof partial, "%s.partial", path);
    write_profile_file(partial, write_profile);
    if (rename(partial, path))
        print_error(path, strerror(errno));
}

// For a process that cannot write later.
static void write_so_far(void)
{
    if (*preloaded.journal || preloaded.pid != getpid())
        return;
    if (atomic_load(&preloaded.open))
        replace_file(preloaded.output, write_window_so_far);
    if (atomic_load(&preloaded.heap_open))
        replace_file(preloaded.heap_output, write_preload_heap);
}

// Writes once: the destructor or one of the other exit paths may come first.
static void write_everything(void)
{
    if (preloaded.pid != getpid())
        return;
    if (atomic_exchange(&preloaded.pushes, false))
        preload_push_stop(print_error);
    if (atomic_exchange(&preloaded.heap_open, false))
        write_profile_file(preloaded.heap_output, write_preload_heap);
    if (!atomic_exchange(&preloaded.open, false))
        return;
    if (*preloaded.journal) {
        capture_end();
        return;
    }
    write_profile_file(preloaded.output, write_preload_window);
    capture_heap_stop(); // otherwise kiln_stop starts a thread for it
    kiln_stop();
}

// --- the end ---

// Called by the keeper, because _exit may be called by a signal handler that interrupted malloc or
// this library, or by a thread that may not open files.
static void write_at_exit(void)
{
    // If `kiln run` reads the samples, the thread that ends the process finishes them.
    if (!*preloaded.journal)
        write_everything();
    else if (atomic_exchange(&preloaded.pushes, false))
        preload_push_stop(print_error);
}

// Timeouts in seconds. A signal handler may have called exit as well, but a program that exits
// normally may have much to write.
enum { EXIT_TIMEOUT = 10, DESTRUCTOR_TIMEOUT = 60 };

static void before_exit(unsigned timeout)
{
    bool left = atomic_load(&preloaded.open) || atomic_load(&preloaded.heap_open) ||
                atomic_load(&preloaded.pushes);
    bool confined = sandbox_confines_caller();
    if (sandbox_scope() == SANDBOX_ALL_THREADS || !sandbox_caller_may_wait())
        return;
    if (left && preloaded.pid == getpid() && !process_is_copy()) {
        if (!*preloaded.journal || atomic_load(&preloaded.pushes))
            keeper_write_at_exit(timeout);
        if (*preloaded.journal && !confined && !atomic_load(&preloaded.pushes))
            write_everything();
    }
    if (!confined)
        endpoints_leave();
}

void preload_before_exit(void)
{
    before_exit(EXIT_TIMEOUT);
}

// Signal handlers may call exit as well: they should not, but most programs survive it.
__attribute__((destructor)) static void preload_end(void)
{
    if (sandbox_confines_caller() || keeper_can_write())
        before_exit(DESTRUCTOR_TIMEOUT);
    else if (process_is_us())
        write_everything();
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
    if (!*preloaded.journal && (atomic_load(&preloaded.open) || atomic_load(&preloaded.heap_open)))
        print_error("the seccomp filter forbids writing at exit", "writing the profile so far");
    write_so_far();
}

// Go programs exit by a system call of their own.
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

// Returns 0, the default, if the variable is unset or invalid.
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
    print_error(name, why);
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

// Makes the output path absolute, because the program may change its directory. The process id
// replaces %p, or is appended.
static void name_output(char output[sizeof preloaded.output], const char *pattern, bool append)
{
    size_t n = 0;
    if (*pattern && *pattern != '/' && getcwd(output, sizeof preloaded.output / 2)) {
        n = strlen(output);
        output[n++] = '/';
    }
    for (const char *p = pattern; *p && n + 32 < sizeof preloaded.output; p++) {
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

static void preload_after_fork_in_child(void)
{
    environment_disown();
    bool was_open = atomic_exchange(&preloaded.open, false);
    was_open |= atomic_exchange(&preloaded.heap_open, false);
    atomic_store(&preloaded.pushes, false); // the parent pushes
    journal_after_fork();
    if (!was_open || !preloaded.follow || sandbox_scope() != SANDBOX_FREE)
        return;
    char pattern[sizeof preloaded.output];
    memcpy(pattern, preloaded.output, sizeof pattern);
    name_output(preloaded.output, pattern, true);
    memcpy(pattern, preloaded.heap_output, sizeof pattern);
    name_output(preloaded.heap_output, pattern, true);
    begin_profiling();
}

static void start_push(void)
{
    struct kiln_error error;
    preloaded.pid = getpid();
    if (!atomic_load(&preloaded.open) && kiln_start(&preloaded.options, &error)) {
        print_error("push is off", error.message);
        return;
    }
    atomic_store(&preloaded.pushes, preload_push_start(print_error));
}

// Prints a port that the kernel chose, because nobody could know it otherwise.
static void serve_endpoints(const char *address)
{
    struct kiln_serve_options options = {sizeof options, address, process_getenv("KILN_TOKEN")};
    struct kiln_error error;
    char where[300];
    const char *tell = process_getenv("KILN_TELL"), *colon = strrchr(address, ':');
    bool chosen = strcmp(colon ? colon + 1 : address, "0") == 0;
    bool running = atomic_load(&preloaded.open) || atomic_load(&preloaded.pushes);
    if ((!running && kiln_start(&preloaded.options, &error)) || kiln_serve(&options, &error))
        print_error("endpoints are off", error.message);
    else if ((chosen || (tell && *tell == '1')) && kiln_serve_address(where, sizeof where) == 0)
        print_error("listening", where);
}

static void read_options(void)
{
    preloaded.options = (struct kiln_options){
        .size = sizeof preloaded.options,
        .frequency = (uint32_t)number_from("KILN_FREQUENCY", UINT32_MAX),
        .depth = (uint32_t)number_from("KILN_DEPTH", UINT32_MAX),
        .clock = clock_from("KILN_CLOCK"),
    };
    preloaded.heap_interval = number_from("KILN_HEAP_INTERVAL", INT64_MAX);
    preloaded.heap_seed = number_from("KILN_HEAP_SEED", UINT64_MAX);
    preloaded.follow = environment_follows();
}

// glibc passes the kernel's argc, argv and envp to constructors.
__attribute__((constructor)) static void preload_main(int argc, char **argv, char **envp)
{
    static const struct process_fork_hooks hooks = {.in_child = preload_after_fork_in_child};
    static const struct confine_hooks confine = {last_chance_to_write, keeper_write_regularly};
    static const struct keeper_hooks keeper = {write_at_exit, write_so_far};
    const char *output = process_getenv("KILN_OUTPUT"), *heap = process_getenv("KILN_HEAP");
    const char *journal = process_getenv("KILN_RUN"), *listen = process_getenv("KILN_LISTEN");
    const char *heap_output = process_getenv("KILN_HEAP_OUTPUT");
    bool pushes = is_set("KILN_PUSH"), serves = is_set("KILN_LISTEN");
    bool writes = is_set("KILN_OUTPUT") || is_set("KILN_RUN");
    bool child = environment_is_child();
    preloaded.heap = (heap && *heap == '1') || is_set("KILN_HEAP_OUTPUT");
    if ((!writes && !serves && !preloaded.heap && !pushes) || process_is_privileged())
        return;
    if (journal)
        snprintf(preloaded.journal, sizeof preloaded.journal, "%s", journal);
    struct stat st = {0};
    fstat(STDERR_FILENO, &st);
    preloaded.error_device = st.st_dev;
    preloaded.error_inode = st.st_ino;
    read_options();
    preloaded.active = true;
    process_on_end(preload_before_exit);
    confine_set_hooks(&confine);
    keeper_set_hooks(&keeper);
    if (writes || preloaded.heap) {
        name_output(preloaded.output, output ? output : "", child);
        name_output(preloaded.heap_output, heap_output ? heap_output : "", child);
        begin_profiling();
        at_quick_exit(preload_before_exit);
    }
    process_on_fork(PROCESS_FORK_PRELOAD, &hooks);
    if (pushes && !child)
        start_push();
    // Only the first process serves the port.
    if (serves && !child)
        serve_endpoints(listen);
    if (!*preloaded.journal && ends_without_libc())
        keeper_write_regularly();
    environment_claim(envp);
}
