#include "cli/source.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cli/source_symbols.h"
#include "model/stream.h"
#include "model/transform.h"
#include "report/graph.h"

void source_complain(const char *text)
{
    bool colour = isatty(STDERR_FILENO) && !getenv("NO_COLOR");
    fprintf(stderr, "%s%s%s\n", colour ? "\033[0;31m" : "", text, colour ? "\033[0m" : "");
}

void source_note(void *context, const char *text)
{
    struct source_notes *notes = context;
    if (notes) {
        for (size_t i = 0; i < notes->n; i++)
            if (strcmp(notes->texts[i], text) == 0)
                return;
        notes->texts =
            arena_push(notes->arena, notes->texts, notes->n, &notes->cap, sizeof *notes->texts);
        notes->texts[notes->n++] = arena_printf(notes->arena, "%s", text);
    }
    source_complain(text);
}

int source_use_threads(const struct source *source, struct err *e)
{
    if (source->threads < 0 || source->threads > PARALLEL_MOST)
        return err_set(e, "invalid number of threads %d; use 1 to %d, or 0 for all processors",
                       source->threads, PARALLEL_MOST);
    parallel_allow((unsigned)source->threads);
    return 0;
}

// --- URLs ---

static bool is_scheme(struct str s)
{
    if (s.n == 0 || !((s.p[0] | 32) >= 'a' && (s.p[0] | 32) <= 'z'))
        return false;
    for (size_t i = 1; i < s.n; i++) {
        char c = s.p[i];
        bool letter = (c | 32) >= 'a' && (c | 32) <= 'z';
        if (!letter && !(c >= '0' && c <= '9') && c != '+' && c != '-' && c != '.')
            return false;
    }
    return true;
}

// The URL for a source that is not a file, with seconds added; NULL: not a URL. host:port/path
// means http.
static char *adjust_url(const char *name, int seconds, int *timeout, struct arena *arena)
{
    struct str s = str_from(name);
    size_t scheme = str_find(s, STR("://"), 0);
    if (scheme == SIZE_MAX || !is_scheme(str_from_to(s, 0, scheme))) {
        // "host" is a path; "host:port" and "host:port/path" are not.
        size_t colon = str_find(s, STR(":"), 0), slash = str_find(s, STR("/"), 0);
        if (colon == SIZE_MAX || colon == 0 || slash < colon)
            return NULL;
        name = arena_printf(arena, "http://%s", name);
        s = str_from(name);
        scheme = 4;
    }
    if (scheme + 3 >= s.n || s.p[scheme + 3] == '/')
        return NULL;
    size_t query = str_find(s, STR("?"), 0), given = SIZE_MAX, given_end = 0;
    for (size_t at = query; at != SIZE_MAX && at < s.n;) {
        struct str rest = str_from_to(s, at + 1, s.n);
        size_t end = str_find(s, STR("&"), at + 1);
        if (end == SIZE_MAX)
            end = s.n;
        if (str_starts(rest, STR("seconds="))) {
            given = at + 9;
            given_end = end;
        }
        at = end;
    }
    int64_t duration = seconds;
    if (seconds > 0 && given != SIZE_MAX)
        name = arena_printf(arena, "%.*s%d%s", (int)given, name, seconds, name + given_end);
    else if (seconds > 0)
        name = arena_printf(arena, "%s%cseconds=%d", name, query == SIZE_MAX ? '?' : '&', seconds);
    else if (given != SIZE_MAX)
        str_to_i64(str_from_to(s, given, given_end), &duration);
    if (*timeout <= 0)
        *timeout = duration > 0 && duration < 1000000 ? (int)(duration + duration / 2) : 60;
    *timeout += 5;
    return (char *)name;
}

struct progress {
    struct timespec begin;
    int seconds;
    bool shown;
};

static void show_progress(void *context, size_t received)
{
    struct progress *p = context;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    double waited =
        (double)(now.tv_sec - p->begin.tv_sec) + (double)(now.tv_nsec - p->begin.tv_nsec) / 1e9;
    if (received)
        fprintf(stderr, "\r\033[K%.1f s, %zu kB received", waited, received >> 10);
    else if (p->seconds > 0)
        fprintf(stderr, "\r\033[Kprofiling: %.0f of %d s", waited, p->seconds);
    else
        fprintf(stderr, "\r\033[Kwaiting: %.0f s", waited);
    p->shown = true;
}

// --- loading ---

struct loaded {
    struct model_profile **profiles; // the first one represents everything in the merger
    size_t n_profiles;
    size_t n, n_expected; // loaded, and requested
    struct model_merger *merger;
    bool remote;
};

struct loading {
    const struct source *source;
    struct arena *arena;
    struct err *failure;
    struct loaded sources, bases;
    size_t n_taken;
};

static struct loaded loaded_new(size_t n, struct arena *arena)
{
    struct loaded l = {.n_expected = n};
    l.profiles = arena_array(arena, n + 1, sizeof *l.profiles);
    return l;
}

static bool file_exists(const char *name)
{
    struct stat st;
    return strcmp(name, "-") == 0 || stat(name, &st) == 0;
}

// Like pprof, adds a mapping to a profile without mappings, so that reports are the same.
static struct model_profile *add_missing_mapping(const struct source *source,
                                                 struct model_profile *p, struct arena *arena)
{
    bool named = source->exec_name || (source->build_id && *source->build_id);
    if (p->n_mappings && !named)
        return p;
    struct model_profile *to = model_profile_derive(p, arena);
    to->mappings = arena_array(arena, p->n_mappings + 1, sizeof *to->mappings);
    if (p->n_mappings) {
        memcpy(to->mappings, p->mappings, p->n_mappings * sizeof *p->mappings);
    } else {
        to->n_mappings = 1;
        to->mappings[0].id = 1;
        to->locations = arena_array(arena, p->n_locations + 1, sizeof *to->locations);
        for (uint32_t i = 0; i < p->n_locations; i++) {
            to->locations[i] = p->locations[i];
            to->locations[i].mapping = 0;
        }
    }
    if (source->exec_name)
        to->mappings[0].file = model_intern(p->strings, str_from(source->exec_name));
    if (source->build_id && *source->build_id && !to->mappings[0].build_id)
        to->mappings[0].build_id = model_intern(p->strings, str_from(source->build_id));
    return to;
}

static void print_source_error(const char *name, const struct err *e)
{
    struct err text = *e;
    err_prefix(&text, "%s: ", name);
    source_complain(text.message);
}

static void fetch_urls(const struct source *source, struct net_fetch *fetches, size_t n)
{
    struct progress progress = {.seconds = source->seconds};
    clock_gettime(CLOCK_MONOTONIC, &progress.begin);
    for (size_t i = 0; i < n; i++) {
        fprintf(stderr, "Fetching profile over HTTP from %s\n", fetches[i].url);
        if (source->seconds > 0)
            fprintf(stderr, "Please wait... (%ds)\n", source->seconds);
    }
    bool terminal = isatty(STDERR_FILENO);
    net_fetch_all(fetches, n, &source->tls, source_byte_limit(), terminal ? show_progress : NULL,
                  &progress);
    if (progress.shown)
        fprintf(stderr, "\r\033[K");
}

// One source with its result.
struct job {
    const char *name;
    struct net_fetch *fetch; // NULL: a file
    struct arena *arena;
    struct model_profile *p;
    enum codec_format format;
    struct err e;
    bool done;
};

struct jobs {
    struct job *list;
    size_t n;
    struct codec_parallel parallel; // how each job decodes
    _Atomic size_t next;
    pthread_mutex_t lock; // protects done
    pthread_cond_t one_done;
};

static void run_job(struct job *job, const struct codec_parallel *parallel)
{
    job->arena = source_arena_new();
    if (!job->arena) {
        err_set(&job->e, "out of memory");
    } else if (!job->fetch) {
        job->p = source_read_file(job->name, job->arena, parallel, &job->format, &job->e);
    } else {
        job->e = job->fetch->error;
        if (!*job->e.message)
            job->p = source_decode(job->fetch->data, job->fetch->n, job->arena,
                                   &(struct codec_parallel){.threads = parallel->threads},
                                   &job->format, &job->e);
        free(job->fetch->data);
    }
}

static bool run_next_job(struct jobs *jobs)
{
    size_t i = atomic_fetch_add(&jobs->next, 1);
    if (i >= jobs->n)
        return false;
    run_job(&jobs->list[i], &jobs->parallel);
    pthread_mutex_lock(&jobs->lock);
    jobs->list[i].done = true;
    pthread_cond_signal(&jobs->one_done);
    pthread_mutex_unlock(&jobs->lock);
    return true;
}

static void *run_jobs_thread(void *context)
{
    while (run_next_job(context))
        ;
    return NULL;
}

// Merges a profile with previous ones immediately, while others are still being read, unless they
// must be made compatible first, or all of them are encoded.
static void add_loaded_profile(struct loaded *l, struct model_profile *p, struct arena *arena)
{
    struct err e;
    bool first = l->n++ == 0, joins = !l->merger && p->stream && (first || l->profiles[0]->stream);
    if (first || joins || l->n_profiles > 1 || model_check_equal_types(l->profiles[0], p, &e)) {
        l->profiles[l->n_profiles++] = p;
        return;
    }
    if (!l->merger) {
        l->profiles[0] = (struct model_profile *)model_decode_samples(l->profiles[0], arena);
        l->merger = model_merger_new(l->profiles[0], l->n_expected, arena);
        model_merger_take(l->merger, l->profiles[0]);
    }
    model_merger_take(l->merger, model_decode_samples(p, arena));
}

static void take_job(struct loading *loading, struct job *job)
{
    const struct source *source = loading->source;
    struct arena *arena = loading->arena;
    bool is_base = loading->n_taken++ >= source->n_names;
    struct loaded *l = is_base ? &loading->bases : &loading->sources;
    if (job->arena)
        arena_adopt(arena, job->arena);
    if (job->p && source->format)
        *source->format = job->format;
    if (job->p) {
        l->remote |= job->fetch != NULL;
        add_loaded_profile(l, source->as_is ? job->p : add_missing_mapping(source, job->p, arena),
                           arena);
    } else if (source->strict) {
        err_set(loading->failure, "%s: %s", strcmp(job->name, "-") ? job->name : "standard input",
                job->e.message);
    } else {
        print_source_error(job->name, &job->e);
    }
}

// Takes the jobs in order as they complete; runs jobs itself while it waits.
static void take_in_order(struct jobs *jobs, struct loading *loading)
{
    for (struct job *job = jobs->list; job < jobs->list + jobs->n; job++) {
        pthread_mutex_lock(&jobs->lock);
        while (!job->done) {
            pthread_mutex_unlock(&jobs->lock);
            bool worked = run_next_job(jobs);
            pthread_mutex_lock(&jobs->lock);
            if (!worked && !job->done)
                pthread_cond_wait(&jobs->one_done, &jobs->lock);
        }
        pthread_mutex_unlock(&jobs->lock);
        take_job(loading, job);
    }
}

// Reads all sources in parallel.
static void run_jobs(struct jobs *jobs, struct loading *loading)
{
    enum { MOST = 16 };
    pthread_t threads[MOST];
    pthread_mutex_init(&jobs->lock, NULL);
    pthread_cond_init(&jobs->one_done, NULL);
    size_t wanted = jobs->n < MOST ? jobs->n : MOST, n = 0;
    if (wanted > 1 && parallel_threads() < wanted)
        wanted = parallel_threads();
    while (n + 1 < wanted && pthread_create(&threads[n], NULL, run_jobs_thread, jobs) == 0)
        n++;
    struct arena_trap trap;
    bool failed = ARENA_TRY(loading->arena, trap);
    if (failed) {
        atomic_store(&jobs->next, jobs->n);
    } else {
        take_in_order(jobs, loading);
        arena_try_end(loading->arena);
    }
    while (n > 0)
        pthread_join(threads[--n], NULL);
    pthread_cond_destroy(&jobs->one_done);
    pthread_mutex_destroy(&jobs->lock);
    if (failed) {
        struct err e;
        for (size_t i = loading->n_taken; i < jobs->n; i++)
            arena_free(jobs->list[i].arena);
        arena_caught(loading->arena, &e);
        arena_fail(loading->arena, "%s", e.message);
    }
}

// Loads the sources and the bases.
static void load_all(struct loading *loading)
{
    const struct source *source = loading->source;
    struct arena *arena = loading->arena;
    loading->sources = loaded_new(source->n_names, arena);
    loading->bases = loaded_new(source->n_bases, arena);
    struct jobs jobs = {.n = source->n_names + source->n_bases};
    // Several files are read at a time.
    if (jobs.n > 1)
        jobs.parallel.threads =
            jobs.n < parallel_threads() ? parallel_threads() / (unsigned)jobs.n : 1;
    jobs.parallel.keeps_encoded =
        source->keeps_encoded && (jobs.n == 1 || (source->joins_encoded && !source->n_bases));
    jobs.list = arena_array(arena, jobs.n + 1, sizeof *jobs.list);
    struct net_fetch *fetches = arena_array(arena, jobs.n + 1, sizeof *fetches);
    size_t n_fetches = 0;
    for (size_t i = 0; i < jobs.n; i++) {
        const char *name =
            i < source->n_names ? source->names[i] : source->bases[i - source->n_names];
        int timeout = source->timeout;
        char *url = file_exists(name) ? NULL : adjust_url(name, source->seconds, &timeout, arena);
        jobs.list[i].name = name;
        if (!url)
            continue;
        jobs.list[i].fetch = &fetches[n_fetches];
        fetches[n_fetches++] = (struct net_fetch){.url = url, .timeout = timeout};
    }
    if (n_fetches)
        fetch_urls(source, fetches, n_fetches);
    run_jobs(&jobs, loading);
}

static struct model_profile *combine_sources(struct model_profile **profiles, size_t n,
                                             struct arena *arena, struct err *e)
{
    struct model_profile *joined = n > 1 ? model_join_encoded(profiles, n, arena) : NULL;
    if (joined) {
        profiles[0] = joined;
        n = 1;
    }
    for (size_t i = 0; n > 1 && i < n; i++)
        profiles[i] = (struct model_profile *)model_decode_samples(profiles[i], arena);
    if (model_make_compatible(profiles, n, arena, e))
        return NULL;
    return n == 1 ? profiles[0] : model_merge_take(profiles, n, arena, e);
}

static struct model_profile *combine_loaded(struct loaded *l, struct arena *arena, struct err *e)
{
    if (l->merger)
        l->profiles[0] = model_merger_finish(l->merger);
    return combine_sources(l->profiles, l->n_profiles, arena, e);
}

// Removes URLs from the file names of mappings.
static void clear_url_mappings(struct model_profile *p, struct arena *arena)
{
    struct model_mapping *mappings = NULL;
    for (uint32_t i = 0; i < p->n_mappings; i++) {
        struct str file = model_str(p, p->mappings[i].file);
        size_t colon = str_find(file, STR(":"), 0);
        if (p->mappings[i].build_id || colon == SIZE_MAX || !is_scheme(str_from_to(file, 0, colon)))
            continue;
        if (!mappings) {
            mappings = arena_array(arena, p->n_mappings, sizeof *mappings);
            memcpy(mappings, p->mappings, p->n_mappings * sizeof *mappings);
        }
        mappings[i].file = 0;
    }
    if (mappings)
        p->mappings = mappings;
}

static void add_source_comment(struct model_profile *p, const char *comment, struct arena *arena)
{
    uint32_t *comments = arena_array(arena, p->n_comments + 1, sizeof *comments);
    if (p->n_comments)
        memcpy(comments, p->comments, p->n_comments * sizeof *comments);
    comments[p->n_comments++] = model_intern(p->strings, str_from(comment));
    p->comments = comments;
}

// Saves a profile that was fetched over the network to a file.
static void save_fetched_profile(const struct model_profile *p, struct arena *arena)
{
    const char *dirs[3] = {getenv("PPROF_TMPDIR"), NULL, "/tmp"}, *dir = NULL;
    if (getenv("HOME") && *getenv("HOME"))
        dirs[1] = arena_printf(arena, "%s/pprof", getenv("HOME"));
    for (int i = 0; i < 3 && !dir; i++)
        if (dirs[i] && *dirs[i] && (mkdir(dirs[i], 0755) == 0 || errno == EEXIST))
            dir = dirs[i];
    char *prefix = arena_printf(arena, "%s/pprof.", dir ? dir : "/tmp");
    if (p->n_mappings && p->mappings[0].file) {
        struct str base = path_base(model_str(p, p->mappings[0].file));
        prefix = arena_printf(arena, "%s%.*s.", prefix, (int)base.n, base.p);
    }
    for (uint32_t i = 0; i < p->n_types; i++) {
        struct str type = model_str(p, p->types[i].type);
        prefix = arena_printf(arena, "%s%.*s.", prefix, (int)type.n, type.p);
    }
    for (int i = 1; i < 10000; i++) {
        char *name = arena_printf(arena, "%s%03d.pb.gz", prefix, i);
        int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd < 0 && errno == EEXIST)
            continue;
        struct err e;
        struct out out;
        out_init_fd(&out, fd);
        int failed = fd < 0 ? err_set(&e, "%s: %s", name, strerror(errno))
                            : (codec_write_pprof_gzip(p, &out, &e) || out_finish(&out, &e));
        out_fini(&out);
        if (fd >= 0)
            close(fd);
        source_complain(failed ? arena_printf(arena, "Could not save profile: %s", e.message)
                               : arena_printf(arena, "Saved profile in %s", name));
        return;
    }
}

static void print_missing_sources(size_t got, size_t wanted, const char *what)
{
    char text[100];
    snprintf(text, sizeof text, "Fetched %zu %s profiles out of %zu", got, what, wanted);
    if (got != wanted)
        source_complain(text);
}

static struct model_profile *subtract_base(const struct source *source, struct model_profile *p,
                                           struct model_profile *base, struct arena *arena,
                                           struct err *e)
{
    if (source->diff_base)
        base = model_set_label(base, STR("pprof::base"), STR("true"), arena);
    if (source->normalize) {
        p = model_normalize(p, base, arena, e);
        if (!p)
            return NULL;
    }
    double *minus_one = arena_array(arena, base->n_types, sizeof *minus_one);
    for (uint32_t i = 0; i < base->n_types; i++)
        minus_one[i] = -1;
    struct model_profile *both[2] = {p, model_scale(base, minus_one, arena)};
    return combine_sources(both, 2, arena, e);
}

static struct model_profile *load_sources(const struct source *source, struct arena *arena,
                                          struct err *e)
{
    struct loading loading = {.source = source, .arena = arena, .failure = e};
    load_all(&loading);
    struct loaded sources = loading.sources, bases = loading.bases;
    if (source->strict && sources.n + bases.n < source->n_names + source->n_bases)
        return NULL;
    struct model_profile *p = NULL, *base = NULL;
    if (sources.n && !(p = combine_loaded(&sources, arena, e))) {
        err_prefix(e, "problem fetching source profiles: ");
        return NULL;
    }
    if (bases.n && !(base = combine_loaded(&bases, arena, e))) {
        err_prefix(e, "problem fetching base profiles: ");
        return NULL;
    }
    if (!p || (source->n_bases && !base)) {
        err_set(e, "failed to fetch any %s profiles", p ? "base" : "source");
        return NULL;
    }
    print_missing_sources(sources.n, source->n_names, "source");
    print_missing_sources(bases.n, source->n_bases, "base");
    if (base && !(p = subtract_base(source, p, base, arena, e)))
        return NULL;
    p = source_symbolize(source, p, arena, e);
    if (!p)
        return NULL;
    if (!source->all_frames && !source->as_is)
        p = model_drop_uninteresting(p, arena);
    p = model_profile_derive(p, arena);
    if (source->all_frames)
        p->drop_frames = p->keep_frames = 0;
    if (!source->as_is)
        clear_url_mappings(p, arena);
    if (source->comment && *source->comment)
        add_source_comment(p, source->comment, arena);
    if ((sources.remote || bases.remote) && !source->as_is)
        save_fetched_profile(p, arena);
    return p;
}

struct model_profile *source_load(const struct source *source, struct arena *arena, struct err *e)
{
    struct arena_trap trap;
    if (ARENA_TRY(arena, trap)) {
        arena_caught(arena, e);
        return NULL;
    }
    struct model_profile *p = load_sources(source, arena, e);
    arena_try_end(arena);
    return p;
}
