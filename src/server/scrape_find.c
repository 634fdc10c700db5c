// The thread that finds targets. What takes long here (a file system that hangs, a large answer, a
// slow expression) delays new targets, not scrapes.
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "process/clock.h"
#include "server/kube_watch.h"
#include "server/scrape_internal.h"

enum {
    TARGETS_MAX = 256 << 20, // bytes of all targets
    SOURCE_MAX = 64 << 20,   // of those of one URL
};

static const int64_t SECOND = 1000000000;

// --- files ---

static int read_descriptor(int fd, const char *name, struct arena *arena, struct str *text,
                           struct err *e)
{
    struct stat st;
    // A pipe would be waited for.
    if (fstat(fd, &st) || !S_ISREG(st.st_mode))
        return err_set(e, "%s: not a regular file", name);
    if (st.st_size > SCRAPE_DISCOVERY_MAX)
        return err_set(e, "%s: larger than %d MiB", name, SCRAPE_DISCOVERY_MAX >> 20);
    size_t room = (size_t)st.st_size, n = 0;
    char *p = arena_alloc(arena, room + 1);
    while (n < room) {
        ssize_t got = read(fd, p + n, room - n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return err_set(e, "%s: %s", name, strerror(errno));
        if (got == 0)
            break;
        n += (size_t)got;
    }
    *text = (struct str){p, n};
    return 0;
}

// Reads the groups of a file. In arena, which may jump: nothing else is held then.
static int read_file_groups(const char *name, int fd, struct arena *arena,
                            struct target_group **groups, size_t *n, struct err *e)
{
    struct arena_trap trap;
    struct str text;
    if (ARENA_TRY(arena, trap))
        return arena_caught(arena, e);
    int result = read_descriptor(fd, name, arena, &text, e);
    if (!result)
        result = scrape_read_groups(name, text, arena, groups, n, e);
    arena_try_end(arena);
    return result;
}

static void log_unread(const struct scrape_config *c, const struct err *e)
{
    server_log("error", "cannot read targets", "job", c->job.p, "error", e->message, NULL);
}

static void add_file(struct scrape_job *job, const char *name, struct scrape_targets *targets)
{
    struct target_group *groups = NULL;
    size_t n = 0;
    struct err e = {""};
    int fd = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    int result = fd < 0 ? err_set(&e, "%s: %s", name, strerror(errno))
                        : read_file_groups(name, fd, job->arena, &groups, &n, &e);
    if (fd >= 0)
        close(fd);
    if (result)
        log_unread(job->config, &e);
    else
        scrape_add_groups(job, groups, n, true, targets);
}

// The names of found in arena, which may jump: found is freed in any case.
static char **take_names(glob_t *found, struct arena *arena)
{
    struct arena_trap trap;
    if (ARENA_TRY(arena, trap)) {
        globfree(found);
        arena_fail(arena, "too many files with targets");
    }
    char **names = arena_array(arena, found->gl_pathc + 1, sizeof *names);
    for (size_t i = 0; i < found->gl_pathc; i++)
        names[i] = arena_copy(arena, found->gl_pathv[i], strlen(found->gl_pathv[i]));
    arena_try_end(arena);
    globfree(found);
    return names;
}

static void add_files(struct scrape_job *job, const struct discovery *d,
                      struct scrape_targets *targets)
{
    for (size_t i = 0; i < d->n_places; i++) {
        glob_t found;
        if (glob(d->places[i].p, 0, NULL, &found))
            continue;
        for (char **name = take_names(&found, job->arena); *name; name++)
            add_file(job, *name, targets);
    }
}

// --- URLs ---

static void free_text(struct scraper *s, char *text, size_t n)
{
    if (text)
        budget_release(&s->finding.account, n);
    free(text);
}

void scrape_source_drop(struct scrape_source *source)
{
    free_text(source->scraper, source->text, source->n);
    source->text = NULL;
}

void scrape_source_free(struct scrape_source *source)
{
    scrape_settings_unref(source->settings);
    arena_free(source->arena);
    scrape_source_drop(source);
    free(source->key);
    free(source);
}

static struct scrape_source *find_source(struct scraper *s, const char *key)
{
    for (struct scrape_source *at = s->sources; at; at = at->next)
        if (strcmp(at->key, key) == 0)
            return at;
    return NULL;
}

// The same URL in two jobs is asked twice: their credentials differ.
static const char *source_key(const struct scrape_config *c, const struct discovery *d,
                              struct arena *arena)
{
    return arena_printf(arena, "%s %s", c->job.p, d->places[0].p);
}

// Reads the last answer, if there is a new one. What was known stays if it cannot be read.
static void read_source(struct scraper *s, struct scrape_source *source)
{
    pthread_mutex_lock(&s->lock);
    char *text = source->text;
    size_t n = source->n;
    source->text = NULL;
    pthread_mutex_unlock(&s->lock);
    if (!text)
        return;
    struct arena *arena = arena_new_in(&s->finding, SOURCE_MAX);
    struct target_group *groups = NULL;
    size_t n_groups = 0;
    struct err e = {"out of memory"};
    struct str bytes = {text, n};
    int result = arena ? scrape_read_groups(source->key, bytes, arena, &groups, &n_groups, &e) : -1;
    free_text(s, text, n);
    if (result) {
        log_unread(source->config, &e);
        arena_free(arena);
        return;
    }
    arena_free(source->arena);
    source->arena = arena;
    source->groups = groups;
    source->n_groups = n_groups;
}

static void add_source(struct scraper *s, struct scrape_job *job, const struct discovery *d,
                       struct scrape_targets *targets)
{
    const char *key = source_key(job->config, d, job->arena);
    struct scrape_source *source = find_source(s, key);
    if (!source)
        return;
    read_source(s, source);
    scrape_add_groups(job, source->groups, source->n_groups, true, targets);
}

// With the lock held: there is a source for each URL of settings, and none besides.
static void update_sources(struct scraper *s, struct scrape_settings *settings, struct arena *arena)
{
    for (struct scrape_source *at = s->sources; at; at = at->next)
        at->used = false;
    for (size_t i = 0; i < settings->config->n_scrapes; i++) {
        const struct scrape_config *c = &settings->config->scrapes[i];
        for (size_t k = 0; k < c->n_urls; k++) {
            const char *key = source_key(c, &c->urls[k], arena);
            struct scrape_source *at = find_source(s, key);
            if (!at) {
                at = calloc(1, sizeof *at);
                if (!at || !(at->key = strdup(key))) {
                    free(at);
                    continue;
                }
                at->scraper = s;
                at->next = s->sources;
                s->sources = at;
            }
            settings->refs++;
            scrape_settings_unref(at->settings);
            at->settings = settings;
            at->config = c;
            at->discovery = &c->urls[k];
            at->used = true;
        }
    }
    for (struct scrape_source **link = &s->sources; *link;) {
        struct scrape_source *at = *link;
        if (at->used || at->busy) {
            link = &at->next;
            continue;
        }
        *link = at->next;
        scrape_source_free(at);
    }
}

// --- all of it ---

// 0, or -1 with e filled. arena may jump.
static int find_targets(struct scraper *s, const struct server_config *config, struct arena *arena,
                        struct scrape_targets *targets, int64_t *refresh, struct err *e)
{
    for (size_t i = 0; i < config->n_scrapes; i++) {
        const struct scrape_config *c = &config->scrapes[i];
        struct scrape_job job;
        size_t unusable = targets->unusable;
        if (scrape_job_init(&job, c, arena, e))
            return -1;
        scrape_add_groups(&job, c->groups, c->n_groups, false, targets);
        for (size_t k = 0; k < c->n_files; k++) {
            add_files(&job, &c->files[k], targets);
            *refresh = c->files[k].refresh < *refresh ? c->files[k].refresh : *refresh;
        }
        for (size_t k = 0; k < c->n_urls; k++)
            add_source(s, &job, &c->urls[k], targets);
        for (size_t k = 0; k < c->n_clusters; k++)
            kube_add_targets(s, &job, &c->clusters[k], targets);
        if (targets->unusable > unusable) {
            char n[24];
            snprintf(n, sizeof n, "%zu", targets->unusable - unusable);
            server_log("warn", "cannot use targets", "job", c->job.p, "targets", n, "error",
                       targets->why.message, NULL);
            targets->unusable = 0;
        }
    }
    return 0;
}

// The same, with what a jump means.
static int try_to_find(struct scraper *s, const struct server_config *config, struct arena *arena,
                       struct scrape_targets *targets, struct scrape_turn **turns, int64_t *refresh,
                       struct err *e)
{
    struct arena_trap trap;
    if (ARENA_TRY(arena, trap))
        return arena_caught(arena, e);
    *turns = arena_array(arena, config->n_scrapes + 1, sizeof **turns);
    int result = find_targets(s, config, arena, targets, refresh, e);
    arena_try_end(arena);
    return result;
}

static struct scrape_generation *generation_new(struct scraper *s, struct scrape_settings *settings,
                                                int64_t *refresh, struct err *e)
{
    struct scrape_generation *g = calloc(1, sizeof *g);
    struct arena *arena = g ? arena_new_in(&s->finding, TARGETS_MAX) : NULL;
    if (!arena) {
        free(g);
        err_set(e, "out of memory");
        return NULL;
    }
    *g = (struct scrape_generation){.refs = 1, .arena = arena, .settings = settings};
    if (try_to_find(s, settings->config, arena, &g->targets, &g->turns, refresh, e)) {
        arena_free(arena);
        free(g);
        return NULL;
    }
    return g;
}

// Publishes the targets of settings; false: they cannot be used, and nothing has changed.
static bool publish_targets(struct scraper *s, struct scrape_settings *settings, int64_t *refresh)
{
    struct err e = {""};
    struct scrape_generation *g = generation_new(s, settings, refresh, &e);
    struct arena *scratch = g ? arena_new(0) : NULL;
    if (!g || !scratch) {
        if (!s->finding.cancelled)
            server_log("error", "cannot reload scrape targets; keeping the old ones", "error",
                       g ? "out of memory" : e.message, NULL);
        if (g)
            arena_free(g->arena);
        free(g);
        return false;
    }
    pthread_mutex_lock(&s->lock);
    settings->refs++; // of g
    update_sources(s, settings, scratch);
    kube_watches_update(s, settings, scratch);
    scrape_generation_unref(s->found);
    s->found = g;
    s->look = true;
    pthread_mutex_unlock(&s->lock);
    arena_free(scratch);
    net_client_wake(s->client);
    return true;
}

// With the lock held, but for the time of looking.
static int64_t search_targets(struct scraper *s)
{
    int64_t refresh = 3600 * SECOND, begun = scrape_now();
    struct server_config *config = s->pending;
    struct scrape_settings *settings = s->settings;
    s->search = false;
    s->pending = NULL;
    if (config) {
        settings = calloc(1, sizeof *settings);
        if (!settings) {
            server_config_free(config);
            return begun + SECOND;
        }
        *settings = (struct scrape_settings){.config = config, .owned = config};
    }
    settings->refs++;
    pthread_mutex_unlock(&s->lock);
    bool good = publish_targets(s, settings, &refresh);
    pthread_mutex_lock(&s->lock);
    if (good && settings != s->settings) {
        settings->refs++;
        scrape_settings_unref(s->settings);
        s->settings = settings;
        server_log("info", "scrape targets reloaded", NULL);
    }
    // After a failure the refresh is that of the old targets: not known here, so soon.
    if (!good)
        refresh = 60 * SECOND;
    scrape_settings_unref(settings);
    return begun + refresh;
}

void *scrape_find(void *context)
{
    struct scraper *s = context;
    int64_t due = 0, changed = INT64_MAX, rested = 0;
    pthread_mutex_lock(&s->lock);
    while (!s->stop) {
        int64_t now = scrape_now(), next = due < changed ? due : changed;
        if (s->read_due && s->read_due <= now) {
            s->read_due = 0;
            pthread_mutex_unlock(&s->lock);
            if (kube_watches_read(s) && changed == INT64_MAX)
                changed = rested > now ? rested : now;
            pthread_mutex_lock(&s->lock);
        } else if (s->search || next <= now) {
            changed = INT64_MAX;
            due = search_targets(s);
            // A cluster that changes all the time takes a tenth of a CPU at most.
            int64_t pause = 10 * (scrape_now() - now);
            rested = scrape_now() + (pause > SECOND ? pause : SECOND);
        } else {
            next = s->read_due && s->read_due < next ? s->read_due : next;
            process_condition_wait(&s->wanted, &s->lock, (uint64_t)(next - now));
        }
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}
