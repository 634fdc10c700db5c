/* libkiln: CPU and heap profiles of the process that it is loaded into.
 *
 * Start it once; take a profile of any stretch of time by opening a window and writing it.
 * Windows are independent of each other: any number may be open at once.
 *
 * Contract
 *   Threads   every function may be called from any thread.
 *   Signals   no function may be called from a signal handler, but for kiln_heap_allocated and
 *             kiln_heap_freed.
 *   fork      the child starts with the profiler stopped; it may start its own.
 *   Errors    functions that can fail return 0, or -1 with a sentence in the struct kiln_error
 *             that they were given (which may be NULL). Nothing here ends the process.
 *   Signal    SIGPROF is the profiler's, also after kiln_stop. A handler that was there before
 *             still gets the SIGPROFs that the profiler's timers did not send.
 *   Its own   threads are named "kiln", block all signals but SIGPROF and do not keep the
 *   threads   process alive; one sleeps on after kiln_stop.
 *   Setuid    in a program with more rights than its caller (AT_SECURE) nothing starts:
 *             functions that start something return an error.
 *   seccomp   filters that are installed through libc's prctl or syscall are asked first, so
 *             that the profiler makes no system call that they kill for.
 *
 * docs/host-process.md has the details.
 *
 * This is C89-compatible on purpose: it is read by every FFI there is.
 */
#ifndef KILN_KILN_H
#define KILN_KILN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KILN_VERSION_MAJOR 0
#define KILN_VERSION_MINOR 1

struct kiln_error {
    char message[512];
};

/* Structs that begin with size: set it to sizeof the struct and everything else that you do not
 * use to zero, which means the default. So they can grow. */
struct kiln_options {
    size_t size;
    uint32_t frequency;   /* samples per CPU-second, 1 to 10000; default 100 */
    uint32_t depth;       /* frames of a stack, up to 1024; default 128 */
    size_t memory;        /* bytes for what is sampled, 1 MiB or more; default 32 MiB */
    size_t symbol_memory; /* bytes for what turns addresses into names; default 64 MiB */
    /* Which threads to keep samples of, by name: shell patterns separated by commas, such as
     * "worker-*,db" or "!kiln". One that begins with ! excludes; the last that matches decides;
     * what none matches is kept only if the first one excludes. Default: all. */
    const char *threads;
    uint32_t clock; /* KILN_CLOCK_TIMER, ... */
};

/* A timer for each thread. The kernel looks at timers a few hundred times a second only
 * (CONFIG_HZ); above that a sample stands for several periods, so that CPU time is right at any
 * frequency. */
#define KILN_CLOCK_TIMER 0u
/* A perf event for each thread: as many samples as the frequency says, at several times the cost of
 * each, a file descriptor a thread, and only where perf_event_open is permitted; else kiln_start
 * fails. */
#define KILN_CLOCK_PERF 1u

/* options may be NULL. Starting what is running is an error. What options points to need not
 * outlive the call. */
int kiln_start(const struct kiln_options *options, struct kiln_error *error);
/* Stopping what is not running does nothing. Windows that are open stay so: they can still be
 * written, with what was sampled until now. */
void kiln_stop(void);

/* ---- Windows ---- */

#define KILN_CONFLICT (-2)

#define KILN_FORCE 1u

struct kiln_window_options {
    size_t size;
    uint32_t frequency; /* while the window is open; 0: whatever is set */
    uint32_t flags;     /* KILN_FORCE: although another open window asked for another frequency */
};

/* The number of an open window, or -1. At most 64 are open at once. The number of a window that was
 * closed is invalid; later windows have others. */
int kiln_window_begin(struct kiln_error *error);
/* The same, or KILN_CONFLICT if another open window asked for a different frequency and it is not
 * forced. Windows that did not ask, or are forced, keep what they have: samples are weighed by the
 * CPU time that they stand for. options may be NULL. */
int kiln_window_begin_with(const struct kiln_window_options *options, struct kiln_error *error);

#define KILN_PPROF 0u       /* gzipped protobuf, as google/pprof and Go write it */
#define KILN_PPROF_PLAIN 1u /* not gzipped */
#define KILN_FOLDED 2u      /* a line for each stack: root;...;leaf samples */
#define KILN_SVG 3u         /* a flame graph */
#define KILN_HTML 4u        /* a flame graph as one self-contained page */
#define KILN_JSON 5u

#define KILN_ADDRESSES 1u /* do not turn addresses into names */
#define KILN_NO_LABELS 2u /* leave labels out */
#define KILN_STAY 4u      /* what was sampled so far: the window stays open */

struct kiln_output {
    size_t size;
    uint32_t format;   /* KILN_PPROF, ... */
    uint32_t flags;    /* KILN_ADDRESSES, ... */
    uint32_t width;    /* of an SVG, in pixels */
    const char *title; /* of a flame graph */
};

/* Closes the window, also if writing fails, and writes what was sampled since it was opened to a
 * file descriptor, which stays the caller's. Names come from the files that the process has mapped
 * and from their separate debug files; C++ names are demangled if the process has a C++ run-time.
 * This takes CPU time and memory (symbol_memory at the most) in the calling thread; sampling and
 * other windows go on. output may be NULL: KILN_PPROF with names. */
int kiln_window_write_as(int window, int fd, const struct kiln_output *output,
                         struct kiln_error *error);
/* The same as gzipped pprof without names: `kiln symbolize` and pprof find them by the mappings
 * and build ids that the profile carries. */
int kiln_window_write(int window, int fd, struct kiln_error *error);
/* Closes a window without writing it. */
void kiln_window_cancel(int window);

/* The last seconds (1 to 120) without a window having been opened. It begins with a whole second
 * and so may hold up to one second more; less after a start, or where memory was short: the
 * profile's duration tells. */
int kiln_last_write(uint32_t seconds, int fd, const struct kiln_output *output,
                    struct kiln_error *error);

/* Writes the n bytes at profile, pprof that is gzipped or not, in another format. Names are not
 * looked for; hooks are not called. */
int kiln_convert(const void *profile, size_t n, int fd, const struct kiln_output *output,
                 struct kiln_error *error);

/* ---- Heap ----
 *
 * Where memory is allocated and what of it is in use, by sampling one allocation in some hundred
 * kilobytes. Somebody has to tell of allocations: libkiln_malloc.so, preloaded or linked
 * (-lkiln_malloc), does so for malloc and what uses it; an allocator of your own calls
 * kiln_heap_allocated and kiln_heap_freed. Profiles have Go's four sample types: alloc_objects,
 * alloc_space, inuse_objects and inuse_space. A realloc ends the old object and begins a new one.
 *
 * In a child of fork sampling goes on with what the parent had counted. */
struct kiln_heap_options {
    size_t size;
    uint64_t interval; /* mean bytes between samples; default 512 KiB */
    uint32_t depth;    /* frames of a stack, up to 1020; default 128 */
    size_t memory;     /* bytes for the table of live objects, 64 KiB or more; default 22 MiB */
    uint64_t seed;     /* of the intervals between samples; default: random */
};
/* options may be NULL. Begins, or goes on after kiln_heap_stop: all but the interval is then what
 * it was. A jemalloc that profiles itself is left alone. Starting what is running is an error. */
int kiln_heap_start(const struct kiln_heap_options *options, struct kiln_error *error);
/* Takes no more samples; what was sampled stays, and its end is seen. */
void kiln_heap_stop(void);
/* 1 if allocations are sampled now. */
int kiln_heap_active(void);
/* The same for whatever profiles the heap of this process, a jemalloc that does so included: a
 * heap that nobody watches is none that can be switched on. */
int kiln_heap_activate(struct kiln_error *error);
int kiln_heap_deactivate(struct kiln_error *error);
int kiln_heap_activated(void);
/* From each thread's next sample on, or its next MiB. 1 byte to 1 TiB. */
int kiln_heap_set_interval(uint64_t bytes, struct kiln_error *error);

/* An object of size bytes was allocated; nobody else knows its address yet. */
void kiln_heap_allocated(void *object, size_t size);
/* It is about to be freed. Objects that were never told of do no harm. <kiln/heap.h> has both as
 * inline functions. */
void kiln_heap_freed(void *object);

/* Writes everything since sampling began. output may be NULL: KILN_PPROF with names. Flame graphs
 * and folded stacks are of inuse_space. */
int kiln_heap_write(int fd, const struct kiln_output *output, struct kiln_error *error);
/* What happened in between: begin, then write, which closes the window; alloc_* is what was
 * allocated meanwhile, inuse_* what there is more, or less, than before. At most 16 are open. */
int kiln_heap_window_begin(struct kiln_error *error);
int kiln_heap_window_write(int window, int fd, const struct kiln_output *output,
                           struct kiln_error *error);
void kiln_heap_window_cancel(int window);

/* ---- Labels ----
 *
 * Labels of the calling thread, seen with every sample of it from now on. A label set is immutable
 * and known by a number; 0 is the empty set. Entering one is one store.
 *
 * References: kiln_labels_with and _without give you a reference, kiln_labels_hold another one;
 * kiln_labels_release gives one back. A set that nobody holds is forgotten once no sample carries
 * it; its number then means the empty set. Keep sets that you use again and again and never
 * release them; release those that were made for one request. A set has at most 64 labels, and at
 * most 262144 sets or 24 MiB of them are held: beyond that a label is not added, the set stays as
 * it is, and kiln_statistics.labels_dropped counts. */
typedef uint32_t kiln_labels;

/* The set that is base plus key=value, or base with another value of key. Takes a lock unless it is
 * one of the last few that the thread made or held. Texts are copied; NULL is the empty text. */
kiln_labels kiln_labels_with(kiln_labels base, const char *key, const char *value);
kiln_labels kiln_labels_without(kiln_labels base, const char *key);
void kiln_labels_hold(kiln_labels set);
void kiln_labels_release(kiln_labels set);
/* Makes set the calling thread's and returns the one it had: put that back when done. Does not
 * change references: hold a set that is entered later on, on another thread perhaps. */
kiln_labels kiln_labels_enter(kiln_labels set);
kiln_labels kiln_labels_current(void);
/* For a stretch of code: adds a label to what the thread has, and returns what it had. Pass that
 * to kiln_labels_pop, on the thread that then carries the pushed set; pairs nest. */
kiln_labels kiln_labels_push(const char *key, const char *value);
void kiln_labels_pop(kiln_labels had);

/* The ids of the trace (16 bytes) and the span (8 bytes) that the calling thread works for; NULL
 * or all zero: none. Samples carry them as labels trace_id and span_id, in hexadecimal. This costs
 * a few stores: a new id for every request is all right. */
void kiln_set_trace(const unsigned char *trace_id, const unsigned char *span_id);

/* Labels and ids together, to be taken along: a task that an executor moves from thread to thread
 * enters its context before it runs and puts back what was there after it. No size: it does not
 * grow. */
struct kiln_context {
    kiln_labels labels;
    uint32_t has_trace;
    unsigned char trace_id[16];
    unsigned char span_id[8];
};
void kiln_context_get(struct kiln_context *context);
/* had may be NULL, and may be the same struct as context. */
void kiln_context_enter(const struct kiln_context *context, struct kiln_context *had);

/* ---- Hooks ----
 *
 * Called when a profile is written, on the thread that writes it, with no lock held; they may be
 * called on several threads at once. They must return (no exception, no longjmp) one of these;
 * KILN_RENAME takes the new name from renamed, a buffer of n bytes. */
#define KILN_KEEP 0
#define KILN_RENAME 1
#define KILN_DROP 2

struct kiln_frame {
    size_t size;
    const char *name;        /* as it would be shown */
    const char *system_name; /* as the linker knows it */
    const char *file;        /* of its source; empty: unknown */
};
typedef int (*kiln_frame_hook)(void *context, const struct kiln_frame *frame, char *renamed,
                               size_t n);
/* Once for each function of a profile, inlined ones too. A dropped one vanishes from all stacks;
 * the weight stays with what is left, or with a frame [dropped] if nothing is. Frames without a
 * name are not asked about. It may run in a thread of the profiler, which has none of the
 * program's descriptors. NULL: no hook. */
void kiln_set_frame_hook(kiln_frame_hook hook, void *context);

struct kiln_thread {
    size_t size;
    const char *name;
    uint32_t id; /* the kernel's */
};
typedef int (*kiln_thread_hook)(void *context, const struct kiln_thread *thread, char *renamed,
                                size_t n);
/* For each thread of a profile, perhaps more than once. The samples of a dropped one are left out.
 * NULL: no hook. */
void kiln_set_thread_hook(kiln_thread_hook hook, void *context);

/* ---- jemalloc ---- */

/* Heap profiles of a process that runs on jemalloc are made by its profiler. It is found by itself
 * unless its symbols were stripped from a program that links it statically; then tell where its
 * mallctl is. NULL: look for it. */
typedef int (*kiln_mallctl)(const char *name, void *old_value, size_t *old_size, void *new_value,
                            size_t new_size);
void kiln_set_jemalloc(kiln_mallctl mallctl);

/* ---- Statistics ---- */

/* Ticks are periods of CPU time. All are counted since the library was loaded. */
struct kiln_statistics {
    size_t size;
    uint64_t ticks;          /* seen */
    uint64_t samples;        /* stacks recorded */
    uint64_t ring_full;      /* ticks without a stack: the thread's ring had no room */
    uint64_t not_ready;      /* ticks without a stack: before the unwind tables were there */
    uint64_t blocked;        /* ticks without a stack: the thread blocks SIGPROF */
    uint64_t unticked;       /* ticks that a thread was due when it ended */
    uint64_t unsampled;      /* ticks of the process while threads had no timer */
    uint64_t truncated;      /* stacks that do not reach the thread's root */
    uint64_t out_of_memory;  /* ticks that were not kept */
    uint64_t threads;        /* sampled now */
    uint64_t stacks;         /* distinct ones held */
    uint64_t memory;         /* bytes that they and their counts take */
    uint64_t filtered;       /* ticks of threads that kiln_options.threads leaves out */
    uint64_t label_sets;     /* held now */
    uint64_t label_memory;   /* bytes that they take */
    uint64_t labels_dropped; /* labels that were not added: too many sets, or a full set */
    uint64_t frequency;      /* now; 0: not running */
    uint64_t windows;        /* open now */
    uint64_t name_memory;    /* bytes of names that were found, kept for the next profile */
};
void kiln_get_statistics(struct kiln_statistics *statistics);

/* ---- Push ----
 *
 * Sends CPU and heap profiles to a server again and again: kiln server, or Pyroscope. */
#define KILN_PUSH_NO_CPU 1u
#define KILN_PUSH_NO_HEAP 2u /* it is pushed when allocations are sampled */
#define KILN_PUSH_THREADS 4u /* tell threads apart, by labels thread and thread_id */

struct kiln_push_options {
    size_t size;
    const char *url;            /* http://[USER:PASSWORD@]HOST:PORT[/PATH]; https:// by libcurl,
                                 * which is loaded for that */
    const char *application;    /* service_name; NULL: the program's name */
    const char *const *tags;    /* of all profiles: name, value, name, value, ..., NULL; or NULL */
    const char *const *headers; /* further ones, in the same way */
    const char *user;           /* NULL: none, or the URL's */
    const char *password;
    const char *token;  /* Authorization: Bearer */
    const char *tenant; /* X-Scope-OrgID */
    uint32_t interval; /* seconds of a profile, 1 to 3600; default 10. They begin at whole multiples
                        * of it since 1970, but for the first */
    uint32_t flags;    /* KILN_PUSH_NO_CPU, ... */
    size_t queue;      /* bytes that wait while the server cannot be reached; default 8 MiB. The
                        * oldest are given up */
};
/* Labels of threads become labels of series. Starts the profiler if it is not running, with
 * defaults, and then stops it at the end. What options points to need not outlive the call. In a
 * child of fork it does not go on. One per process. */
int kiln_push_start(const struct kiln_push_options *options, struct kiln_error *error);
/* Ends the profile at hand and sends what waits, for five seconds at the most. */
void kiln_push_stop(void);

struct kiln_push_statistics {
    size_t size;
    uint64_t windows;      /* that became profiles */
    uint64_t sent;         /* requests that the server took */
    uint64_t failed;       /* attempts that did not succeed */
    uint64_t dropped;      /* requests that were given up: refused, or too many waited */
    uint64_t queued;       /* waiting now */
    uint64_t queued_bytes; /* of them */
    uint64_t sent_bytes;
    char error[256]; /* of the last attempt that did not succeed */
};
void kiln_push_get_statistics(struct kiln_push_statistics *statistics);

/* HTTP endpoints: /debug/pprof/ and others, see docs/libkiln.md. size is sizeof(struct
 * kiln_serve_options). */
struct kiln_serve_options {
    size_t size;
    const char *address; /* HOST:PORT, :PORT (this machine only) or unix:/PATH; port 0: any.
                          * NULL: 127.0.0.1:6060 */
    const char *token;   /* that requests must carry as Authorization: Bearer; NULL: none */
};
/* Serves, with two threads of its own, until kiln_serve_stop. The strings need not outlive the
 * call. After fork the child does not serve; it may serve on its own. The profiler is not started
 * by it. */
int kiln_serve(const struct kiln_serve_options *options, struct kiln_error *error);
/* Ends open requests and the threads. */
void kiln_serve_stop(void);
/* Where it is served, as http://HOST:PORT or unix:/PATH. -1 if nothing is. */
int kiln_serve_address(char *text, size_t n);

/* The same endpoints for a program that has an HTTP server of its own: it hands requests in and
 * sends answers out. An exchange belongs to one thread at a time, which may change.
 *
 *     uint64_t delay;
 *     struct kiln_exchange *x = kiln_exchange_begin(&request, &delay);
 *     while (delay) {
 *         sleep that long, or kiln_exchange_free(x) if the client leaves
 *         kiln_exchange_due(x);
 *         delay = kiln_exchange_finish(x);
 *     }
 *     kiln_exchange_answer(x, &answer);
 *     send it
 *     kiln_exchange_free(x);
 *
 * Who may ask is for that server to decide. */
struct kiln_exchange;
struct kiln_request {
    size_t size;
    const char *method;         /* GET, HEAD or POST */
    const char *target;         /* /debug/pprof/profile?seconds=5; without a prefix that the server
                                 * took off. What stands below /debug/pprof is also found without
                                 * that */
    const char *const *headers; /* name, value, name, value, ..., NULL; may be NULL */
    const void *body;           /* of POST */
    size_t body_size;
    const char *prefix; /* that was taken off, such as /internal: for redirections; may be NULL */
};
struct kiln_answer {
    size_t size;
    int status;
    const char *headers; /* lines that end in \r\n, without Content-Length */
    const void *body;
    size_t body_size;
};
/* What it is given need not outlive the call. NULL: no memory. *delay_ns: when to go on, 0: the
 * answer is there. Quick. */
struct kiln_exchange *kiln_exchange_begin(const struct kiln_request *request, uint64_t *delay_ns);
/* When the delay is over, at once; quick. */
void kiln_exchange_due(struct kiln_exchange *exchange);
/* After that, as soon as there is a thread for it: this may take long. 0: the answer is there;
 * otherwise the next delay. */
uint64_t kiln_exchange_finish(struct kiln_exchange *exchange);
/* Until the exchange is freed. */
void kiln_exchange_answer(const struct kiln_exchange *exchange, struct kiln_answer *answer);
/* Also gives up what has not been answered. NULL is legal. */
void kiln_exchange_free(struct kiln_exchange *exchange);

#ifdef __cplusplus
}
#endif

#endif
