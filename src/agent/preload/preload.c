// Zero-code use: `LD_PRELOAD=libkiln.so KILN_OUTPUT=out.pb.gz ./app` profiles a program that
// knows nothing of it, from its start to its end.
//
//   KILN_OUTPUT     where the profile goes when the process ends; %p is the process id
//   KILN_FREQUENCY  samples per CPU-second
//   KILN_DEPTH      frames of a stack
//   KILN_CLOCK      timer or perf
//   KILN_FOLLOW     1: children are profiled too; their output gets .PID appended
//   KILN_LISTEN     HOST:PORT, :PORT or unix:/PATH to serve the endpoints on
//   KILN_TOKEN      that requests must carry
//   KILN_TELL       1: tells on stderr where it listens (it does so anyway for port 0)
//   KILN_HEAP       1: samples allocations; libkiln_malloc.so is to be preloaded, too
//   KILN_HEAP_INTERVAL  mean bytes between samples
//   KILN_HEAP_SEED      of the distances between samples: the same ones in each run
//   KILN_HEAP_OUTPUT    where the heap profile goes when the process ends; %p is the process id
//
// Without KILN_OUTPUT, KILN_LISTEN and KILN_HEAP the library only waits to be called. `kiln run`
// sets KILN_RUN instead of KILN_OUTPUT: what is sampled lies in memory that it shares with the
// process, and it writes the profile.
#include <kiln/kiln.h>

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "agent/endpoints/endpoints.h"
#include "agent/heap/heap_sampler.h"
#include "agent/journal/journal.h"
#include "agent/journal/journal_memory.h"
#include "agent/preload/next.h"
#include "agent/preload/preload_push.h"
#include "base/attributes.h"

static struct {
    char output[4096];
    char journal[256]; // KILN_RUN; empty: the process writes its profile itself
    struct kiln_options options;
    int window;
    pid_t pid; // that the window is of
    bool follow, heap;
    char heap_output[4096];
    uint64_t heap_interval, heap_seed;
    _Atomic bool open, heap_open; // heap_open: a heap profile is to be written
    _Atomic bool pushes;
} run;

static void complain(const char *what, const char *why)
{
    char text[700];
    int n = snprintf(text, sizeof text, "kiln: %s: %s\n", what, why);
    if (n > 0 && write(STDERR_FILENO, text, (size_t)n) < 0)
        return;
}

// A child of fork goes on where its parent was, unless that is what kiln run reads.
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

// What goes wrong is for the user of `kiln run`: the program's standard error is not ours.
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

static void appoint_executor(void);

static void begin_window(void)
{
    struct kiln_error error;
    if (kiln_start(&run.options, &error) || (run.window = kiln_window_begin(&error)) < 0)
        complain("this process is not profiled", error.message);
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
    if (atomic_load(&run.open) || atomic_load(&run.heap_open))
        appoint_executor();
}

static int write_window(int fd, struct kiln_error *error)
{
    return kiln_window_write(run.window, fd, error);
}

static int write_heap(int fd, struct kiln_error *error)
{
    struct kiln_output output = {.size = sizeof output, .flags = KILN_ADDRESSES};
    return kiln_heap_write(fd, &output, error);
}

static void write_file(const char *path, int (*write_profile)(int fd, struct kiln_error *error))
{
    struct kiln_error error;
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0)
        complain(path, strerror(errno));
    else if (write_profile(fd, &error))
        complain(path, error.message);
    if (fd >= 0)
        close(fd);
}

// Once, whoever comes first: the destructor or one of the ways around it. A child of vfork
// that ends is in our memory, but it is not us that ends.
static void finish(void)
{
    if (capture_confined() || run.pid != getpid())
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

// _exit may be called by a signal handler, and what was interrupted may be malloc or the library
// itself: another thread writes the profile meanwhile, for as long as somebody may wait for it.
enum { PATIENCE_SECONDS = 10 };

static struct {
    _Atomic uint32_t asked, done;
} last_will;

static void futex(_Atomic uint32_t *word, int operation, uint32_t value, struct timespec *patience)
{
    syscall(SYS_futex, word, operation | FUTEX_PRIVATE_FLAG, value, patience, NULL, 0);
}

static void *execute_will(void *context)
{
    prctl(PR_SET_NAME, "kiln");
    capture_is_helper();
    capture_heap_enter();
    while (!atomic_load(&last_will.asked))
        futex(&last_will.asked, FUTEX_WAIT, 0, NULL);
    // What kiln run reads is ended by whoever ends.
    if (!*run.journal)
        finish();
    else if (atomic_exchange(&run.pushes, false))
        preload_push_stop(complain);
    atomic_store(&last_will.done, 1);
    futex(&last_will.done, FUTEX_WAKE, 1, NULL);
    return NULL;
}

static void appoint_executor(void)
{
    sigset_t all, had;
    pthread_t thread;
    sigfillset(&all);
    atomic_store(&last_will.asked, 0);
    atomic_store(&last_will.done, 0);
    NEXT(pthread_sigmask)(SIG_SETMASK, &all, &had);
    if (NEXT(pthread_create)(&thread, NULL, execute_will, NULL) == 0)
        pthread_detach(thread);
    else
        complain("no thread", "a profile is written by exit only, not by _exit");
    NEXT(pthread_sigmask)(SIG_SETMASK, &had, NULL);
}

// Signal-safe.
static void finish_elsewhere(void)
{
    if (capture_confined() || run.pid != getpid() ||
        (!atomic_load(&run.open) && !atomic_load(&run.heap_open) && !atomic_load(&run.pushes)))
        return;
    if (*run.journal && !atomic_load(&run.pushes)) {
        finish();
        return;
    }
    struct timespec now, end, second = {.tv_sec = 1};
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += PATIENCE_SECONDS;
    atomic_store(&last_will.asked, 1);
    futex(&last_will.asked, FUTEX_WAKE, 1, NULL);
    do {
        futex(&last_will.done, FUTEX_WAIT, 0, &second);
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (!atomic_load(&last_will.done) && now.tv_sec < end.tv_sec);
    if (*run.journal && !atomic_load(&run.pushes))
        finish();
}

static uint64_t long_number_from(const char *name)
{
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : 0;
}

static uint32_t number_from(const char *name)
{
    return (uint32_t)long_number_from(name);
}

static uint32_t clock_from(const char *name)
{
    const char *text = getenv(name);
    if (!text || !*text || strcmp(text, "timer") == 0)
        return KILN_CLOCK_TIMER;
    return strcmp(text, "perf") == 0 ? KILN_CLOCK_PERF : UINT32_MAX;
}

// Puts the process id where the pattern says so, or behind it.
static void name_output(char output[sizeof run.output], const char *pattern, bool append)
{
    size_t n = 0;
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
    bool was_open = atomic_exchange(&run.open, false);
    was_open |= atomic_exchange(&run.heap_open, false);
    atomic_store(&run.pushes, false); // the parent does
    journal_after_fork();
    if (!was_open || !run.follow || capture_confined())
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
        complain("no push", error.message);
        return;
    }
    bool executor = !*run.journal && (atomic_load(&run.open) || atomic_load(&run.heap_open));
    atomic_store(&run.pushes, preload_push_start(complain));
    if (atomic_load(&run.pushes) && !executor)
        appoint_executor();
}

// A port that the kernel chose is told: nobody could know it otherwise.
static void serve(const char *address)
{
    struct kiln_serve_options options = {sizeof options, address, getenv("KILN_TOKEN")};
    struct kiln_error error;
    char where[300];
    const char *tell = getenv("KILN_TELL"), *colon = strrchr(address, ':');
    bool chosen = strcmp(colon ? colon + 1 : address, "0") == 0;
    bool running = atomic_load(&run.open) || atomic_load(&run.pushes);
    if ((!running && kiln_start(&run.options, &error)) || kiln_serve(&options, &error))
        complain("no endpoints", error.message);
    else if ((chosen || (tell && *tell == '1')) && kiln_serve_address(where, sizeof where) == 0)
        complain("listening", where);
}

__attribute__((constructor)) static void start(void)
{
    const char *output = getenv("KILN_OUTPUT"), *follow = getenv("KILN_FOLLOW");
    const char *journal = getenv("KILN_RUN"), *listen = getenv("KILN_LISTEN");
    const char *heap = getenv("KILN_HEAP"), *heap_output = getenv("KILN_HEAP_OUTPUT");
    const char *url = getenv("KILN_PUSH");
    bool writes = (output && *output) || (journal && *journal), serves = listen && *listen;
    bool pushes = url && *url;
    run.heap = (heap && *heap == '1') || (heap_output && *heap_output);
    if (!writes && !serves && !run.heap && !pushes)
        return;
    if (journal)
        snprintf(run.journal, sizeof run.journal, "%s", journal);
    run.options = (struct kiln_options){
        .size = sizeof run.options,
        .frequency = number_from("KILN_FREQUENCY"),
        .depth = number_from("KILN_DEPTH"),
        .clock = clock_from("KILN_CLOCK"),
    };
    run.heap_interval = long_number_from("KILN_HEAP_INTERVAL");
    run.heap_seed = long_number_from("KILN_HEAP_SEED");
    run.follow = follow && *follow == '1';
    // A program that this process executes in its place is still this process; one that a
    // child executes is not.
    char self[16];
    const char *owner = getenv("KILN_PID");
    snprintf(self, sizeof self, "%d", (int)getpid());
    bool child = owner && strcmp(owner, self) != 0;
    if (child && !run.follow)
        return;
    setenv("KILN_PID", self, 1);
    if (writes || run.heap) {
        name_output(run.output, output ? output : "", child);
        name_output(run.heap_output, heap_output ? heap_output : "", child);
        begin();
        // After the profiler's own handlers, which must have run before it can start again.
        pthread_atfork(NULL, NULL, in_child);
    }
    if (pushes && !child)
        start_push();
    // The port is the first process's.
    if (serves && !child)
        serve(listen);
}

__attribute__((destructor)) static void end(void)
{
    finish();
}

// --- ways out that skip destructors ---

EXPORT void _exit(int status)
{
    finish_elsewhere();
    if (!capture_confined())
        endpoints_leave();
    NEXT(_exit)(status);
    __builtin_unreachable();
}

EXPORT void _Exit(int status)
{
    _exit(status);
}

// --- threads ---

struct start {
    void *(*routine)(void *);
    void *argument;
};

// Leaves no frame of its own: the routine is called in its place.
static void *start_routine(void *context)
{
    struct start *s = context;
    void *(*routine)(void *) = s->routine;
    void *argument = s->argument;
    free(s);
    capture_arm_self();
    return routine(argument);
}

EXPORT int pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*routine)(void *), void *argument)
{
    capture_heap_enter();
    struct start *s = capture_running() ? malloc(sizeof *s) : NULL;
    capture_heap_leave();
    if (!s)
        return NEXT(pthread_create)(thread, attributes, routine, argument);
    *s = (struct start){routine, argument};
    int result = NEXT(pthread_create)(thread, attributes, start_routine, s);
    if (result)
        free(s);
    return result;
}

// --- masks: a thread that blocks every signal means those of its program, not ours ---

static bool is_blocked(void)
{
    sigset_t now;
    return NEXT(pthread_sigmask)(SIG_BLOCK, NULL, &now) == 0 && sigismember(&now, SIGPROF);
}

// Unless it has a handler for SIGPROF, which it then blocks for good reasons, or wants back what
// it had while SIGPROF was blocked, in a handler most likely.
static const sigset_t *without_ours(int how, const sigset_t *set, sigset_t *copy)
{
    struct sigaction theirs;
    if (!set || how == SIG_UNBLOCK || sigismember(set, SIGPROF) != 1 || !capture_running() ||
        (capture_wish(NULL, &theirs) && theirs.sa_handler != SIG_DFL &&
         theirs.sa_handler != SIG_IGN) ||
        (how == SIG_SETMASK && is_blocked()))
        return set;
    *copy = *set;
    sigdelset(copy, SIGPROF);
    return copy;
}

EXPORT int pthread_sigmask(int how, const sigset_t *set, sigset_t *old)
{
    sigset_t copy;
    return NEXT(pthread_sigmask)(how, without_ours(how, set, &copy), old);
}

EXPORT int sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
    sigset_t copy;
    return NEXT(sigprocmask)(how, without_ours(how, set, &copy), old);
}

// --- handlers: SIGPROF is ours, and what the program wants with it is kept in mind ---

// An alternate stack may have room for one handler and no more: on top of it a tick waits until it
// is done. Which signals' masks are not quite what the program asked for:
static _Atomic uint64_t lent;

static int set_action(int signal, const struct sigaction *wanted, struct sigaction *had)
{
    uint64_t bit = signal > 0 && signal <= 64 ? UINT64_C(1) << (signal - 1) : 0;
    struct sigaction copy;
    bool lend = false;
    if (wanted) {
        copy = *wanted;
        lend = wanted->sa_flags & SA_ONSTACK && sigismember(&copy.sa_mask, SIGPROF) == 0;
        if (lend)
            sigaddset(&copy.sa_mask, SIGPROF);
    }
    int result = NEXT(sigaction)(signal, wanted ? &copy : NULL, had);
    if (result)
        return result;
    if (had && atomic_load(&lent) & bit)
        sigdelset(&had->sa_mask, SIGPROF);
    if (wanted && lend)
        atomic_fetch_or(&lent, bit);
    else if (wanted)
        atomic_fetch_and(&lent, ~bit);
    return 0;
}

EXPORT int sigaction(int signal, const struct sigaction *wanted, struct sigaction *had)
{
    if (signal == SIGPROF && capture_wish(wanted, had))
        return 0;
    return signal == SIGPROF ? NEXT(sigaction)(signal, wanted, had)
                             : set_action(signal, wanted, had);
}

EXPORT __sighandler_t signal(int number, __sighandler_t handler)
{
    struct sigaction wanted = {.sa_handler = handler, .sa_flags = SA_RESTART}, had;
    if (number == SIGPROF && capture_wish(&wanted, &had))
        return had.sa_handler;
    return NEXT(signal)(number, handler);
}

// --- objects: their unwind tables should be there when their code runs ---

// A tail call: the loader looks at who called, and at where he may look for objects.
EXPORT void *dlopen(const char *path, int mode)
{
    collector_expect_objects();
    return NEXT(dlopen)(path, mode);
}
