#include "cli/source.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "model/transform.h"
#include "report/graph.h"
#include "symbol/symbol_profile.h"

void source_complain(const char *text)
{
    bool colour = isatty(STDERR_FILENO) && !getenv("NO_COLOR");
    fprintf(stderr, "%s%s%s\n", colour ? "\033[0;31m" : "", text, colour ? "\033[0m" : "");
}

// --- bytes ---

struct contents {
    uint8_t *p;
    size_t n;
    bool mapped;
};

static size_t byte_limit(void)
{
    const char *mib = getenv("KILN_MAX_MIB");
    int64_t n;
    if (mib && str_to_i64(str_from(mib), &n) && n > 0 && n < INT64_MAX >> 20)
        return (size_t)n << 20;
    return (size_t)1 << 30;
}

struct arena *source_arena_new(void)
{
    size_t limit = byte_limit();
    return arena_new(limit < SIZE_MAX / 8 ? limit * 8 : 0);
}

static int read_stream(int fd, struct contents *bytes, struct err *e)
{
    size_t cap = 0, limit = byte_limit();
    for (;;) {
        if (bytes->n == cap) {
            cap = cap ? cap * 2 : 65536;
            uint8_t *p = realloc(bytes->p, cap);
            if (!p)
                return err_set(e, "out of memory");
            bytes->p = p;
        }
        ssize_t n = read(fd, bytes->p + bytes->n, cap - bytes->n);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_set(e, "%s", strerror(errno));
        if (n == 0)
            return 0;
        bytes->n += (size_t)n;
        if (bytes->n > limit)
            return err_set(e, "more than %zu MiB; set KILN_MAX_MIB to allow more", limit >> 20);
    }
}

static int read_file(const char *name, struct contents *bytes, struct err *e)
{
    *bytes = (struct contents){0};
    bool is_stdin = strcmp(name, "-") == 0;
    int fd = is_stdin ? STDIN_FILENO : open(name, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_set(e, "%s", strerror(errno));
    struct stat st;
    int result = 0;
    if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode)) {
        result = err_set(e, "is a directory");
    } else if (!is_stdin && S_ISREG(st.st_mode) && st.st_size > 0) {
        void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (p == MAP_FAILED)
            result = err_set(e, "%s", strerror(errno));
        else
            *bytes = (struct contents){p, (size_t)st.st_size, true};
    } else {
        result = read_stream(fd, bytes, e);
    }
    if (!is_stdin)
        close(fd);
    return result;
}

static void contents_fini(struct contents *bytes)
{
    if (bytes->mapped)
        munmap(bytes->p, bytes->n);
    else
        free(bytes->p);
    *bytes = (struct contents){0};
}

static struct model_profile *decode(const uint8_t *data, size_t n, struct arena *arena,
                                    enum codec_format *format, struct err *e)
{
    static const char perf_magic[] = "PERFILE2";
    if (n >= 8 && memcmp(data, perf_magic, 8) == 0) {
        err_set(e, "this is perf's own format; give the output of `perf script` instead");
        return NULL;
    }
    struct codec_limits limits = {.inflated = byte_limit()};
    return codec_read(arena, data, n, &limits, format, e);
}

struct model_profile *source_read_file(const char *name, struct arena *arena,
                                       enum codec_format *format, struct err *e)
{
    struct contents bytes;
    struct model_profile *p = NULL;
    if (read_file(name, &bytes, e) == 0)
        p = decode(bytes.p, bytes.n, arena, format, e);
    contents_fini(&bytes);
    return p;
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

// The URL to fetch for a source that is no file, with seconds put in; NULL if it cannot
// be one. host:port/path is taken as http.
static char *adjust_url(const char *name, int seconds, int *timeout, struct arena *arena)
{
    struct str s = str_from(name);
    size_t scheme = str_find(s, STR("://"), 0);
    if (scheme == SIZE_MAX || !is_scheme(str_from_to(s, 0, scheme))) {
        // "host" alone is a path, "host:port" or "host:port/path" is not.
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
    struct model_profile **profiles;
    size_t n;
    bool remote;
};

static bool exists(const char *name)
{
    struct stat st;
    return strcmp(name, "-") == 0 || stat(name, &st) == 0;
}

// A profile without mappings gets one, as pprof does, so that reports look the same.
static struct model_profile *with_mapping(const struct source *source, struct model_profile *p,
                                          struct arena *arena)
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

static void complain_about(const char *name, const struct err *e)
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
    net_fetch_all(fetches, n, &source->tls, byte_limit(), terminal ? show_progress : NULL,
                  &progress);
    if (progress.shown)
        fprintf(stderr, "\r\033[K");
}

// One source: where it comes from and what became of it.
struct job {
    const char *name;
    struct net_fetch *fetch; // NULL: a file
    struct arena *arena;
    struct model_profile *p;
    enum codec_format format;
    struct err e;
};

struct jobs {
    struct job *list;
    size_t n;
    _Atomic size_t next;
};

static void run_job(struct job *job)
{
    job->arena = source_arena_new();
    if (!job->arena) {
        err_set(&job->e, "out of memory");
    } else if (!job->fetch) {
        job->p = source_read_file(job->name, job->arena, &job->format, &job->e);
    } else {
        job->e = job->fetch->error;
        if (!*job->e.message)
            job->p = decode(job->fetch->data, job->fetch->n, job->arena, &job->format, &job->e);
        free(job->fetch->data);
    }
}

static void *work(void *context)
{
    struct jobs *jobs = context;
    for (size_t i; (i = atomic_fetch_add(&jobs->next, 1)) < jobs->n;)
        run_job(&jobs->list[i]);
    return NULL;
}

// Reads all sources, as many at a time as there are processors.
static void run_jobs(struct jobs *jobs)
{
    enum { MOST = 16 };
    pthread_t threads[MOST];
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    size_t wanted = jobs->n < MOST ? jobs->n : MOST, n = 0;
    if (processors > 0 && (size_t)processors < wanted)
        wanted = (size_t)processors;
    while (n + 1 < wanted && pthread_create(&threads[n], NULL, work, jobs) == 0)
        n++;
    work(jobs);
    while (n > 0)
        pthread_join(threads[--n], NULL);
}

static struct loaded collect(const struct source *source, struct job *jobs, size_t n,
                             struct arena *arena, struct err *failure)
{
    struct loaded loaded = {.profiles = arena_array(arena, n + 1, sizeof *loaded.profiles)};
    for (struct job *job = jobs; job < jobs + n; job++) {
        if (job->arena)
            arena_adopt(arena, job->arena);
        if (job->p && source->format)
            *source->format = job->format;
        if (job->p) {
            loaded.profiles[loaded.n++] =
                source->as_is ? job->p : with_mapping(source, job->p, arena);
            loaded.remote |= job->fetch != NULL;
        } else if (source->strict) {
            err_set(failure, "%s: %s", strcmp(job->name, "-") ? job->name : "standard input",
                    job->e.message);
        } else {
            complain_about(job->name, &job->e);
        }
    }
    return loaded;
}

// The sources, then the bases.
static struct job *load_all(const struct source *source, struct arena *arena)
{
    struct jobs jobs = {.n = source->n_names + source->n_bases};
    jobs.list = arena_array(arena, jobs.n + 1, sizeof *jobs.list);
    struct net_fetch *fetches = arena_array(arena, jobs.n + 1, sizeof *fetches);
    size_t n_fetches = 0;
    for (size_t i = 0; i < jobs.n; i++) {
        const char *name =
            i < source->n_names ? source->names[i] : source->bases[i - source->n_names];
        int timeout = source->timeout;
        char *url = exists(name) ? NULL : adjust_url(name, source->seconds, &timeout, arena);
        jobs.list[i].name = name;
        if (!url)
            continue;
        jobs.list[i].fetch = &fetches[n_fetches];
        fetches[n_fetches++] = (struct net_fetch){.url = url, .timeout = timeout};
    }
    if (n_fetches)
        fetch_urls(source, fetches, n_fetches);
    run_jobs(&jobs);
    return jobs.list;
}

static struct model_profile *combine(struct model_profile **profiles, size_t n, struct arena *arena,
                                     struct err *e)
{
    if (model_make_compatible(profiles, n, arena, e))
        return NULL;
    return n == 1 ? profiles[0] : model_merge_take(profiles, n, arena, e);
}

// A mapping whose file is a URL has no file.
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

static void add_comment(struct model_profile *p, const char *comment, struct arena *arena)
{
    uint32_t *comments = arena_array(arena, p->n_comments + 1, sizeof *comments);
    if (p->n_comments)
        memcpy(comments, p->comments, p->n_comments * sizeof *comments);
    comments[p->n_comments++] = model_intern(p->strings, str_from(comment));
    p->comments = comments;
}

// What came over the network is kept in a file.
static void save(const struct model_profile *p, struct arena *arena)
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

static void complain_about_missing(size_t got, size_t wanted, const char *what)
{
    char text[100];
    snprintf(text, sizeof text, "Fetched %zu %s profiles out of %zu", got, what, wanted);
    if (got != wanted)
        source_complain(text);
}

static struct model_profile *subtract(const struct source *source, struct model_profile *p,
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
    return combine(both, 2, arena, e);
}

static void note_symbols(void *context, const char *text)
{
    source_complain(text);
}

// Whether name is one of the words of mode, which are separated by colons.
static bool mode_has(const char *mode, struct str name)
{
    for (struct str rest = str_from(mode); rest.n;) {
        size_t colon = str_find(rest, STR(":"), 0);
        struct str word = str_from_to(rest, 0, colon == SIZE_MAX ? rest.n : colon);
        if (word.n == name.n && strncasecmp(word.p, name.p, name.n) == 0)
            return true;
        rest = str_from_to(rest, colon == SIZE_MAX ? rest.n : colon + 1, rest.n);
    }
    return false;
}

static struct symbol_profile_options symbol_options(const struct source *source)
{
    const char *mode = source->symbolize ? source->symbolize : "";
    struct symbol_profile_options o = {
        .files = {.load_libraries = true, .cxx = demangle_cxx_iberty},
        .binary_path = getenv("PPROF_BINARY_PATH"),
        .executable = source->exec_name,
        .fast = mode_has(mode, STR("fastlocal")),
        .force = mode_has(mode, STR("force")),
        .note = note_symbols,
    };
    o.demangle = mode_has(mode, STR("demangle=full"))        ? DEMANGLE_FULL
                 : mode_has(mode, STR("demangle=templates")) ? DEMANGLE_TEMPLATES
                 : mode_has(mode, STR("demangle=none"))      ? DEMANGLE_NONE
                                                             : DEMANGLE_DEFAULT;
    o.force |= o.demangle != DEMANGLE_DEFAULT;
    return o;
}

static struct model_profile *symbolize(const struct source *source, struct model_profile *p,
                                       struct arena *arena, struct err *e)
{
    const char *mode = source->symbolize ? source->symbolize : "";
    if (source->as_is || mode_has(mode, STR("none")) || mode_has(mode, STR("no")))
        return p;
    struct symbol_profile_options o = symbol_options(source);
    if (mode_has(mode, STR("remote")))
        return symbol_demangle(p, o.demangle, o.force, o.files.cxx, arena, e);
    return symbol_symbolize(p, &o, arena, e);
}

static struct model_profile *load(const struct source *source, struct arena *arena, struct err *e)
{
    struct job *jobs = load_all(source, arena);
    struct loaded sources = collect(source, jobs, source->n_names, arena, e);
    struct loaded bases = collect(source, jobs + source->n_names, source->n_bases, arena, e);
    if (source->strict && sources.n + bases.n < source->n_names + source->n_bases)
        return NULL;
    struct model_profile *p = NULL, *base = NULL;
    if (sources.n && !(p = combine(sources.profiles, sources.n, arena, e))) {
        err_prefix(e, "problem fetching source profiles: ");
        return NULL;
    }
    if (bases.n && !(base = combine(bases.profiles, bases.n, arena, e))) {
        err_prefix(e, "problem fetching base profiles: ");
        return NULL;
    }
    if (!p || (source->n_bases && !base)) {
        err_set(e, "failed to fetch any %s profiles", p ? "base" : "source");
        return NULL;
    }
    complain_about_missing(sources.n, source->n_names, "source");
    complain_about_missing(bases.n, source->n_bases, "base");
    if (base && !(p = subtract(source, p, base, arena, e)))
        return NULL;
    p = symbolize(source, p, arena, e);
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
        add_comment(p, source->comment, arena);
    if ((sources.remote || bases.remote) && !source->as_is)
        save(p, arena);
    return p;
}

struct model_profile *source_load(const struct source *source, struct arena *arena, struct err *e)
{
    struct arena_trap trap;
    if (ARENA_TRY(arena, trap)) {
        arena_caught(arena, e);
        return NULL;
    }
    struct model_profile *p = load(source, arena, e);
    arena_try_end(arena);
    return p;
}
