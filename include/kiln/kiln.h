/* libkiln: CPU and heap profiles of the process that it is loaded into.
 *
 * Start it once. To profile any period of time, open a window and write it. Windows are independent
 * of each other: any number may be open at once.
 *
 * Contract
 *   Threads   every function may be called from any thread.
 *   Signals   no function may be called from a signal handler, except kiln_heap_allocated and
 *             kiln_heap_freed.
 *   fork      in the child the CPU profiler, push and endpoints are stopped; it may start its own.
 *   Errors    functions that can fail return 0 on success, or -1 and a message in the struct
 *             kiln_error (which may be NULL). Nothing here ends the process.
 *   SIGPROF   belongs to the profiler, even after kiln_stop. The program's own handler still gets
 *             each SIGPROF that the profiler's timers did not send.
 *   Own       are named "kiln", block all signals but SIGPROF (and SIGPROF as well once the program
 *   threads   handles it), and do not keep the process alive; one keeps sleeping after kiln_stop.
 *   Setuid    in a program with more privileges than its caller (AT_SECURE) nothing starts:
 *             functions that start something return an error.
 *   seccomp   filters that are installed through libc's prctl or syscall are evaluated first, so
 *             that the profiler makes no system call for which a filter kills.
 *
 * docs/explanation/host-process.md has the details.
 *
 * The declarations use no syntax newer than C89, so that every FFI generator can read them.
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

/* Structs that begin with size: set it to sizeof the struct, and every field that you do not use to
 * zero, which selects the default. So new fields can be added later. */
struct kiln_options {
    size_t size;
    uint32_t frequency;   /* samples per CPU-second, 1 to 10000; default 100 */
    uint32_t depth;       /* maximum frames per stack, up to 1024; default 128 */
    size_t memory;        /* limit for samples in bytes, 1 MiB or more; default 32 MiB */
    size_t symbol_memory; /* limit for symbolization in bytes; default 64 MiB */
    /* Names of the threads whose samples are kept: comma-separated shell patterns, such as
     * "worker-*,db" or "!kiln". A leading ! excludes. The last matching pattern decides. A thread
     * that matches none is kept if the first pattern excludes. Default: all threads. */
    const char *threads;
    uint32_t clock; /* KILN_CLOCK_TIMER, ... */
};

/* A timer for each thread. The kernel checks timers only a few hundred times per second
 * (CONFIG_HZ). At higher frequencies a sample stands for several periods, so CPU time is correct at
 * any frequency. */
#define KILN_CLOCK_TIMER 0u
/* A perf event for each thread: as many samples as the frequency says, at several times the cost
 * per sample and one file descriptor per thread. kiln_start fails where perf_event_open is not
 * permitted. */
#define KILN_CLOCK_PERF 1u

/* Starts the CPU profiler. Fails if it is running. options may be NULL; it and its strings are only
 * used during the call. */
int kiln_start(const struct kiln_options *options, struct kiln_error *error);
/* Stops the CPU profiler, if it is running. Open windows remain open and can be written with the
 * samples up to now. */
void kiln_stop(void);

/* ---- Windows ---- */

#define KILN_CONFLICT (-2)

#define KILN_FORCE 1u

struct kiln_window_options {
    size_t size;
    uint32_t frequency; /* while the window is open; 0: any */
    uint32_t flags;     /* KILN_FORCE: even if another open window asked for another frequency */
};

/* Opens a window. Returns its number, or -1. At most 64 can be open at once. The number of a closed
 * window is invalid and never refers to a later window. */
int kiln_window_begin(struct kiln_error *error);
/* The same, but returns KILN_CONFLICT if another open window asked for a different frequency and
 * KILN_FORCE is not set. Other windows keep their samples and stay correct, because each sample is
 * weighted by the CPU time that it stands for. options may be NULL. */
int kiln_window_begin_with(const struct kiln_window_options *options, struct kiln_error *error);

#define KILN_PPROF 0u       /* gzipped protobuf, as google/pprof and Go write it */
#define KILN_PPROF_PLAIN 1u /* uncompressed */
#define KILN_FOLDED 2u      /* one line per stack: root;...;leaf samples */
#define KILN_SVG 3u         /* flame graph */
#define KILN_HTML 4u        /* flame graph as a self-contained page */
#define KILN_JSON 5u

#define KILN_ADDRESSES 1u /* do not symbolize */
#define KILN_NO_LABELS 2u /* omit labels */
#define KILN_STAY 4u      /* write the samples so far and keep the window open */

struct kiln_output {
    size_t size;
    uint32_t format;   /* KILN_PPROF, ... */
    uint32_t flags;    /* KILN_ADDRESSES, ... */
    uint32_t width;    /* of an SVG, in pixels */
    const char *title; /* of a flame graph */
};

/* Closes the window, even if writing fails, and writes its samples to a file descriptor, which the
 * caller keeps. Names come from the files that the process has mapped and from their separate debug
 * files; C++ names are demangled if the process has a C++ runtime. This uses CPU time and memory
 * (at most symbol_memory) in the calling thread; sampling and other windows continue. output may be
 * NULL: KILN_PPROF with names. */
int kiln_window_write_as(int window, int fd, const struct kiln_output *output,
                         struct kiln_error *error);
/* The same as gzipped pprof without names, except of JIT code: `kiln symbolize` and pprof add the
 * names by the mappings and build ids in the profile. */
int kiln_window_write(int window, int fd, struct kiln_error *error);
/* Closes a window without writing it. */
void kiln_window_cancel(int window);

/* Writes the samples of the last 1 to 120 seconds, without a window. Begins at a whole second, so
 * it may contain up to one second more. It covers less after a start or if memory was short; see
 * the profile's duration. */
int kiln_last_write(uint32_t seconds, int fd, const struct kiln_output *output,
                    struct kiln_error *error);

/* Converts the n bytes at profile, gzipped or uncompressed pprof, to another format. Does not
 * symbolize or call hooks. */
int kiln_convert(const void *profile, size_t n, int fd, const struct kiln_output *output,
                 struct kiln_error *error);

/* ---- Heap ----
 *
 * Where memory is allocated and how much of it is in use, by sampling one allocation per some
 * hundred kilobytes. An allocator must report its allocations: libkiln_malloc.so, preloaded or
 * linked (-lkiln_malloc), does so for malloc and everything that uses it; an allocator of your own
 * calls kiln_heap_allocated and kiln_heap_freed. Profiles have Go's four sample types:
 * alloc_objects, alloc_space, inuse_objects and inuse_space. A realloc counts as a free and an
 * allocation.
 *
 * In a child of fork sampling continues with the parent's counts. */
struct kiln_heap_options {
    size_t size;
    uint64_t interval; /* mean bytes between samples; default 512 KiB */
    uint32_t depth;    /* maximum frames per stack, up to 1020; default 128 */
    size_t memory;     /* bytes for the table of live objects, 64 KiB or more; default 22 MiB */
    uint64_t seed;     /* seed for the gaps between samples; default: random */
};
/* Starts heap sampling, or resumes it after kiln_heap_stop; then all options but the interval keep
 * their first values. Fails if sampling is on. Does not affect jemalloc's own profiler. options may
 * be NULL. */
int kiln_heap_start(const struct kiln_heap_options *options, struct kiln_error *error);
/* Stops taking samples. Existing samples are kept, and their frees are still recorded. */
void kiln_heap_stop(void);
/* Returns 1 if allocations are being sampled. */
int kiln_heap_active(void);
/* The same for any heap profiler of this process, including jemalloc's own. kiln_heap_activate
 * fails if no allocator reports its allocations. */
int kiln_heap_activate(struct kiln_error *error);
int kiln_heap_deactivate(struct kiln_error *error);
int kiln_heap_activated(void);
/* Sets the mean bytes between samples, 1 byte to 1 TiB. Takes effect at each thread's next sample,
 * or after its next MiB at the latest. */
int kiln_heap_set_interval(uint64_t bytes, struct kiln_error *error);

/* Reports that an object of size bytes was allocated. Call it before other code knows the
 * address. */
void kiln_heap_allocated(void *object, size_t size);
/* Reports that an object is about to be freed. Objects that were never reported do no harm.
 * <kiln/heap.h> has both as inline functions. */
void kiln_heap_freed(void *object);

/* Writes everything since sampling began. output may be NULL: KILN_PPROF with names. Flame graphs
 * and folded stacks show inuse_space. */
int kiln_heap_write(int fd, const struct kiln_output *output, struct kiln_error *error);
/* Writes what happened between begin and write, which closes the window: alloc_* is what was
 * allocated meanwhile, inuse_* the change of what is in use, which may be negative. At most 16 can
 * be open at once. */
int kiln_heap_window_begin(struct kiln_error *error);
int kiln_heap_window_write(int window, int fd, const struct kiln_output *output,
                           struct kiln_error *error);
void kiln_heap_window_cancel(int window);

/* ---- Labels ----
 *
 * Labels of the calling thread; all its samples carry them. A label set is immutable and has an id;
 * 0 is the empty set. Entering a set costs one store.
 *
 * References: kiln_labels_with and _without return a reference to a set, kiln_labels_hold adds
 * another, and kiln_labels_release drops one. A set without references is freed once no sample uses
 * it; its id then means the empty set. Never release sets that you use again and again; release
 * those that you made for one request. A set has at most 64 labels, and at most 262144 sets or
 * 24 MiB of them are held. Beyond these limits a label is not added: the result is the base set,
 * and kiln_statistics.labels_dropped is incremented. */
typedef uint32_t kiln_labels;

/* Returns a reference to base plus key=value, replacing key's value, or to base without key. Takes
 * a lock, unless the thread made or held the set recently. Strings are copied; NULL counts as
 * empty. */
kiln_labels kiln_labels_with(kiln_labels base, const char *key, const char *value);
kiln_labels kiln_labels_without(kiln_labels base, const char *key);
void kiln_labels_hold(kiln_labels set);
void kiln_labels_release(kiln_labels set);
/* Sets the calling thread's labels and returns the previous set, to be restored later. Does not
 * change references: hold a set that is entered later, perhaps on another thread. */
kiln_labels kiln_labels_enter(kiln_labels set);
kiln_labels kiln_labels_current(void);
/* For a section of code: adds a label to the thread's labels and returns the previous set. Pass
 * that to kiln_labels_pop, on the thread that has the pushed set then. Pairs nest. */
kiln_labels kiln_labels_push(const char *key, const char *value);
void kiln_labels_pop(kiln_labels had);

/* Sets the ids of the trace (16 bytes) and the span (8 bytes) that the calling thread works on;
 * NULL or all zero: none. Samples carry them as labels trace_id and span_id, in hexadecimal. This
 * costs a few stores, so new ids for every request are fine. */
void kiln_set_trace(const unsigned char *trace_id, const unsigned char *span_id);

/* Labels and ids together, for executors: a task that moves between threads enters its context
 * before it runs and restores the previous one afterwards. It has no size field because it will not
 * grow. */
struct kiln_context {
    kiln_labels labels;
    uint32_t has_trace;
    unsigned char trace_id[16];
    unsigned char span_id[8];
};
void kiln_context_get(struct kiln_context *context);
/* had may be NULL, and may point to the same struct as context. */
void kiln_context_enter(const struct kiln_context *context, struct kiln_context *had);

/* ---- Hooks ----
 *
 * Hooks are called when a profile is written, on the thread that writes it, without a lock,
 * possibly on several threads at once. They must return one of these values (no exception, no
 * longjmp). KILN_RENAME takes the new name from renamed, a buffer of n bytes. */
#define KILN_KEEP 0
#define KILN_RENAME 1
#define KILN_DROP 2

struct kiln_frame {
    size_t size;
    const char *name;        /* as it would be displayed */
    const char *system_name; /* the symbol name */
    const char *file;        /* source file; empty: unknown */
};
typedef int (*kiln_frame_hook)(void *context, const struct kiln_frame *frame, char *renamed,
                               size_t n);
/* Called once for each function of a profile, including inlined ones. A dropped function is removed
 * from all stacks; its weight stays with the remaining frames, or with a frame [dropped] if none
 * remain. Not called for frames without a name. It may run in one of the profiler's threads, which
 * do not share the program's file descriptors. NULL: no hook. */
void kiln_set_frame_hook(kiln_frame_hook hook, void *context);

struct kiln_thread {
    size_t size;
    const char *name;
    uint32_t id; /* kernel thread id */
};
typedef int (*kiln_thread_hook)(void *context, const struct kiln_thread *thread, char *renamed,
                                size_t n);
/* Called for each thread of a profile, perhaps more than once. The samples of a dropped thread are
 * left out. NULL: no hook. */
void kiln_set_thread_hook(kiln_thread_hook hook, void *context);

/* ---- jemalloc ---- */

/* jemalloc's own profiler makes the heap profiles of a process that uses it. Its mallctl is found
 * automatically, unless it is linked statically into a stripped program; then pass it here. NULL:
 * search for it. */
typedef int (*kiln_mallctl)(const char *name, void *old_value, size_t *old_size, void *new_value,
                            size_t new_size);
void kiln_set_jemalloc(kiln_mallctl mallctl);

/* ---- Statistics ---- */

/* Ticks are periods of CPU time. Counters run since the library was loaded; values marked "now" are
 * current. */
struct kiln_statistics {
    size_t size;
    uint64_t ticks;          /* seen */
    uint64_t samples;        /* stacks recorded */
    uint64_t ring_full;      /* ticks without a stack: the thread's ring was full */
    uint64_t not_ready;      /* ticks without a stack: before the unwind tables were ready */
    uint64_t blocked;        /* ticks without a stack: the thread blocked SIGPROF */
    uint64_t unticked;       /* ticks still due when their thread ended */
    uint64_t unsampled;      /* ticks of the process while its threads had no timer */
    uint64_t truncated;      /* stacks that do not reach the thread's root */
    uint64_t out_of_memory;  /* ticks lost for lack of memory */
    uint64_t threads;        /* sampled now */
    uint64_t stacks;         /* distinct stacks held now */
    uint64_t memory;         /* bytes used now for stacks and counts */
    uint64_t filtered;       /* ticks of threads that kiln_options.threads excludes */
    uint64_t label_sets;     /* held now */
    uint64_t label_memory;   /* bytes used now for label sets */
    uint64_t labels_dropped; /* labels not added: too many sets, or a full set */
    uint64_t frequency;      /* now; 0: not running */
    uint64_t windows;        /* open now */
    uint64_t name_memory;    /* bytes used now for cached names */
};
void kiln_get_statistics(struct kiln_statistics *statistics);

/* ---- Push ----
 *
 * Pushes CPU and heap profiles periodically to a server: kiln server, or Pyroscope. */
#define KILN_PUSH_NO_CPU 1u
#define KILN_PUSH_NO_HEAP 2u /* by default the heap is pushed while allocations are sampled */
#define KILN_PUSH_THREADS 4u /* distinguish threads by labels thread and thread_id */

struct kiln_push_options {
    size_t size;
    const char *url;            /* http://[USER:PASSWORD@]HOST:PORT[/PATH]; https:// uses libcurl,
                                 * which is loaded on demand */
    const char *application;    /* service_name; NULL: the program's name */
    const char *const *tags;    /* of all profiles: name, value, name, value, ..., NULL; may be
                                 * NULL */
    const char *const *headers; /* additional headers, in the same format */
    const char *user;           /* NULL: none, or the URL's */
    const char *password;
    const char *token;  /* Authorization: Bearer */
    const char *tenant; /* X-Scope-OrgID */
    uint32_t interval;  /* seconds per profile, 1 to 3600; default 10. All but the first begin at
                         * multiples of it since 1970 */
    uint32_t flags;     /* KILN_PUSH_NO_CPU, ... */
    size_t queue;       /* maximum bytes queued while the server is unreachable; default 8 MiB. The
                         * oldest are dropped first */
};
/* Starts pushing. Thread labels become series labels. Starts the profiler with defaults if it is
 * not running, and then stops it at the end. options and its strings are only used during the call.
 * Does not continue in a child of fork. One per process. */
int kiln_push_start(const struct kiln_push_options *options, struct kiln_error *error);
/* Ends the current profile and sends what is queued, for at most five seconds. */
void kiln_push_stop(void);

struct kiln_push_statistics {
    size_t size;
    uint64_t windows;      /* windows that became profiles */
    uint64_t sent;         /* requests that the server accepted */
    uint64_t failed;       /* failed attempts */
    uint64_t dropped;      /* requests dropped: rejected, or the queue was full */
    uint64_t queued;       /* in the queue now */
    uint64_t queued_bytes; /* their size */
    uint64_t sent_bytes;
    char error[256]; /* message of the last failed attempt */
};
void kiln_push_get_statistics(struct kiln_push_statistics *statistics);

/* HTTP endpoints: /debug/pprof/ and others, see docs/reference/endpoints.md. size is sizeof(struct
 * kiln_serve_options). */
struct kiln_serve_options {
    size_t size;
    const char *address; /* HOST:PORT, :PORT (this machine only) or unix:/PATH; port 0: any free
                          * port. NULL: 127.0.0.1:6060 */
    const char *token;   /* that requests must send as Authorization: Bearer; NULL: none */
};
/* Serves with two threads until kiln_serve_stop. The strings are only used during the call. Does
 * not start the profiler. A child of fork does not serve; it may start its own server. */
int kiln_serve(const struct kiln_serve_options *options, struct kiln_error *error);
/* Aborts open requests and ends the threads. */
void kiln_serve_stop(void);
/* Gets the address being served, as http://HOST:PORT or unix:/PATH. Returns -1 if nothing is
 * served. */
int kiln_serve_address(char *text, size_t n);

/* The same endpoints for a program with its own HTTP server, which passes requests in and sends the
 * responses. Only one thread at a time may use an exchange.
 *
 *     uint64_t delay;
 *     struct kiln_exchange *x = kiln_exchange_begin(&request, &delay);
 *     while (delay) {
 *         sleep that long, or kiln_exchange_free(x) if the client disconnects
 *         kiln_exchange_due(x);
 *         delay = kiln_exchange_finish(x);
 *     }
 *     kiln_exchange_answer(x, &answer);
 *     send it
 *     kiln_exchange_free(x);
 *
 * Authentication is up to the program's server. */
struct kiln_exchange;
struct kiln_request {
    size_t size;
    const char *method;         /* GET, HEAD or POST */
    const char *target;         /* /debug/pprof/profile?seconds=5, without a prefix that the server
                                 * removed. Paths below /debug/pprof are also found without it */
    const char *const *headers; /* name, value, name, value, ..., NULL; may be NULL */
    const void *body;           /* of POST */
    size_t body_size;
    const char *prefix; /* removed prefix, such as /internal, for redirects; may be NULL */
};
struct kiln_answer {
    size_t size;
    int status;
    const char *headers; /* lines that end in \r\n, without Content-Length */
    const void *body;
    size_t body_size;
};
/* Begins to handle a request, which is only used during the call. Returns NULL if out of memory.
 * *delay_ns: when to continue; 0: the response is ready. Fast. */
struct kiln_exchange *kiln_exchange_begin(const struct kiln_request *request, uint64_t *delay_ns);
/* Call it as soon as the delay is over. Fast. */
void kiln_exchange_due(struct kiln_exchange *exchange);
/* Call it afterwards, on a thread that may be busy for a while. Returns 0 if the response is ready,
 * or the next delay. */
uint64_t kiln_exchange_finish(struct kiln_exchange *exchange);
/* Gets the response; valid until the exchange is freed. */
void kiln_exchange_answer(const struct kiln_exchange *exchange, struct kiln_answer *answer);
/* Frees the exchange; cancels a pending request. May be NULL. */
void kiln_exchange_free(struct kiln_exchange *exchange);

#ifdef __cplusplus
}
#endif

#endif
