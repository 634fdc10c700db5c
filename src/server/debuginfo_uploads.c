// Debug files on their way in, and the room that they may take.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "process/clock.h"
#include "server/debuginfo_internal.h"

// How long a part waits for the next one, and how many files of a tenant may come at a time.
#define PART_LIFETIME (INT64_C(600) * 1000000000)
enum {
    UPLOADS_MAX = 64,
    FILES_MAX = 100000, // of a tenant: each is looked at when they are counted
    USAGES_MAX = 1024,  // tenants whose files are remembered
};
// When a tenant's files are counted again that may have been removed by hand.
#define RECOUNT (INT64_C(10) * 1000000000)

// --- the list ---

static bool is_of(const struct upload *u, struct str tenant)
{
    return str_eq(str_from(u->tenant), tenant);
}

static struct upload *find_upload(const struct debuginfo *d, struct str tenant, struct str id)
{
    struct upload *u = d->uploads;
    while (u && !(is_of(u, tenant) && str_eq(str_from(u->id), id)))
        u = u->next;
    return u;
}

static void remove_upload(struct debuginfo *d, struct upload *upload)
{
    struct upload **at = &d->uploads;
    while (*at != upload)
        at = &(*at)->next;
    *at = upload->next;
    unlink(upload->path); // it is not there if it was put in place
    free(upload);
}

// The one of a tenant that waits for the longest time; NULL: none waits.
static struct upload *stalest_upload(const struct debuginfo *d, struct str tenant,
                                     const struct upload *own)
{
    struct upload *found = NULL;
    for (struct upload *u = d->uploads; u; u = u->next)
        if (u != own && !u->busy && is_of(u, tenant) && (!found || u->progress < found->progress))
            found = u;
    return found;
}

static void remove_stale(struct debuginfo *d)
{
    uint64_t now = process_now_ns();
    for (struct upload *u = d->uploads, *next; u; u = next) {
        next = u->next;
        if (!u->busy && now - u->progress >= (uint64_t)d->o.part_lifetime)
            remove_upload(d, u);
    }
}

static void *sweep_uploads(void *arg)
{
    struct debuginfo *d = arg;
    pthread_setname_np(pthread_self(), "debuginfo");
    pthread_mutex_lock(&d->uploads_lock);
    while (!d->stopping) {
        process_condition_wait(&d->stop, &d->uploads_lock, (uint64_t)d->o.part_lifetime / 4);
        remove_stale(d);
    }
    pthread_mutex_unlock(&d->uploads_lock);
    return NULL;
}

// Forgets the tenant that came first, of those whose files are not being counted.
static void remove_last_usage(struct debuginfo *d)
{
    struct usage **last = NULL;
    for (struct usage **at = &d->usage; *at; at = &(*at)->next)
        last = (*at)->counting ? last : at;
    if (!last)
        return;
    struct usage *u = *last;
    *last = u->next;
    free(u);
    d->n_usage--;
}

void uploads_init(struct debuginfo *d)
{
    d->o.part_lifetime = d->o.part_lifetime ? d->o.part_lifetime : PART_LIFETIME;
    d->o.files_limit = d->o.files_limit ? d->o.files_limit : FILES_MAX;
    pthread_mutex_init(&d->uploads_lock, NULL);
    process_condition_init(&d->stop);
    process_condition_init(&d->counted);
}

int uploads_start(struct debuginfo *d, struct err *e)
{
    int error = pthread_create(&d->sweeper, NULL, sweep_uploads, d);
    d->has_sweeper = !error;
    return error ? err_set(e, "cannot start a thread: %s", strerror(error)) : 0;
}

void uploads_fini(struct debuginfo *d)
{
    pthread_mutex_lock(&d->uploads_lock);
    d->stopping = true;
    pthread_cond_broadcast(&d->stop);
    pthread_mutex_unlock(&d->uploads_lock);
    if (d->has_sweeper)
        pthread_join(d->sweeper, NULL);
    while (d->uploads)
        remove_upload(d, d->uploads);
    while (d->usage)
        remove_last_usage(d);
    pthread_cond_destroy(&d->stop);
    pthread_cond_destroy(&d->counted);
    pthread_mutex_destroy(&d->uploads_lock);
}

// --- room ---

static struct usage *find_usage(const struct debuginfo *d, struct str tenant)
{
    struct usage *u = d->usage;
    while (u && !str_eq(str_from(u->tenant), tenant))
        u = u->next;
    return u;
}

// NULL: no memory.
static struct usage *usage_of(struct debuginfo *d, struct str tenant)
{
    struct usage *u = find_usage(d, tenant);
    if (u)
        return u;
    if (d->n_usage >= USAGES_MAX)
        remove_last_usage(d);
    u = calloc(1, sizeof *u);
    if (!u)
        return NULL;
    snprintf(u->tenant, sizeof u->tenant, "%.*s", (int)tenant.n, tenant.p);
    u->next = d->usage;
    d->usage = u;
    d->n_usage++;
    return u;
}

// Without the lock while it reads the tenant's directories. What is added meanwhile may count twice
// and what is removed may still count, until the files are counted again.
static void count_files(struct debuginfo *d, struct usage *u)
{
    size_t files;
    u->counting = true;
    u->bytes = u->files = 0;
    pthread_mutex_unlock(&d->uploads_lock);
    int64_t bytes = (int64_t)debuginfo_stored(d, str_from(u->tenant), &files);
    pthread_mutex_lock(&d->uploads_lock);
    u->bytes += bytes;
    u->files += (int64_t)files;
    u->counted = (int64_t)process_now_ns();
    u->counting = false;
    pthread_cond_broadcast(&d->counted);
}

// The tenant's files as they were counted at this time or later. Gives up the lock meanwhile. NULL:
// no memory.
static struct usage *usage_since(struct debuginfo *d, struct str tenant, int64_t time)
{
    struct usage *u;
    while ((u = usage_of(d, tenant)) && (u->counting || u->counted < time)) {
        if (u->counting)
            pthread_cond_wait(&d->counted, &d->uploads_lock);
        else
            count_files(d, u);
    }
    return u;
}

void uploads_removed(struct debuginfo *d, struct str tenant, uint64_t bytes)
{
    pthread_mutex_lock(&d->uploads_lock);
    struct usage *u = find_usage(d, tenant);
    if (u && !u->counting) {
        u->bytes -= (int64_t)bytes;
        u->files--;
    }
    pthread_mutex_unlock(&d->uploads_lock);
}

static uint64_t waiting_bytes(const struct debuginfo *d, struct str tenant,
                              const struct upload *own)
{
    uint64_t bytes = 0;
    for (const struct upload *u = d->uploads; u; u = u->next)
        if (u != own && is_of(u, tenant))
            bytes += u->received;
    return bytes;
}

// A file that this put completes takes the place of parts that wait: they may never be completed.
static bool has_upload_room(struct debuginfo *d, const struct debuginfo_put *p,
                            const struct upload *own, const struct usage *usage, uint64_t *wanted)
{
    uint64_t stored = usage->bytes > 0 ? (uint64_t)usage->bytes : 0;
    uint64_t end = p->offset + p->bytes.n;
    *wanted = stored + p->size;
    if (*wanted > d->o.total_limit)
        return false;
    while ((*wanted = stored + waiting_bytes(d, p->tenant, own) + end) > d->o.total_limit) {
        struct upload *oldest = end == p->size ? stalest_upload(d, p->tenant, own) : NULL;
        if (!oldest)
            return false;
        remove_upload(d, oldest);
    }
    return true;
}

static int check_room(struct debuginfo *d, const struct debuginfo_put *p, const struct upload *own,
                      const struct usage *usage, struct err *e)
{
    struct statvfs disk;
    uint64_t wanted;
    if (usage->files >= (int64_t)d->o.files_limit) {
        err_set(
            e,
            "the tenant has %lld debug files; limit %zu; delete some with `kiln debuginfo delete`",
            (long long)usage->files, d->o.files_limit);
        return 413;
    }
    if (!has_upload_room(d, p, own, usage, &wanted)) {
        err_set(e,
                "the tenant's debug files would use %llu bytes; limit %llu; delete some with `kiln "
                "debuginfo delete`",
                (unsigned long long)wanted, (unsigned long long)d->o.total_limit);
        return 413;
    }
    uint64_t rest = p->size - p->offset;
    if (statvfs(d->o.data, &disk) == 0 &&
        (uint64_t)disk.f_bavail * disk.f_frsize < rest + d->o.keep_free) {
        err_set(e, "disk full: no space for %llu bytes of a debug file", (unsigned long long)rest);
        return 503;
    }
    return 0;
}

static size_t count_uploads(const struct debuginfo *d, struct str tenant)
{
    size_t n = 0;
    for (const struct upload *u = d->uploads; u; u = u->next)
        n += is_of(u, tenant);
    return n;
}

static struct upload *begin_upload(struct debuginfo *d, const struct debuginfo_put *p,
                                   struct str id)
{
    while (count_uploads(d, p->tenant) >= UPLOADS_MAX) {
        struct upload *oldest = stalest_upload(d, p->tenant, NULL);
        if (!oldest)
            return NULL;
        remove_upload(d, oldest);
    }
    struct upload *u = calloc(1, sizeof *u);
    if (!u)
        return NULL;
    snprintf(u->tenant, sizeof u->tenant, "%.*s", (int)p->tenant.n, p->tenant.p);
    snprintf(u->id, sizeof u->id, "%.*s", (int)id.n, id.p);
    snprintf(u->path, sizeof u->path, "%s/%s/parts/%s", d->directory, u->tenant, u->id);
    u->size = p->size;
    u->next = d->uploads;
    d->uploads = u;
    return u;
}

// *lacks_room: this is why it failed.
static int take_locked(struct debuginfo *d, const struct debuginfo_put *p, struct str id,
                       const struct usage *usage, struct upload **upload, bool *lacks_room,
                       struct err *e)
{
    struct upload *u = find_upload(d, p->tenant, id);
    *lacks_room = false;
    if (u && u->busy) {
        err_set(e, "build id %s: another upload of this file is being written", u->id);
        return 409;
    }
    if (u && p->offset == 0) { // it starts again
        remove_upload(d, u);
        u = NULL;
    }
    uint64_t has = u ? u->received : 0;
    if (has != p->offset) {
        err_set(e,
                "unexpected offset %llu of the debug file; expected %llu; another upload may have "
                "begun",
                (unsigned long long)p->offset, (unsigned long long)has);
        return 409;
    }
    if (u && u->size != p->size) {
        err_set(e, "size: the upload began with %llu bytes, not %llu", (unsigned long long)u->size,
                (unsigned long long)p->size);
        return 400;
    }
    int status = check_room(d, p, u, usage, e);
    *lacks_room = status;
    if (status)
        return status;
    if (!u && !(u = begin_upload(d, p, id))) {
        err_set(e, "too many uploads of debug files at a time; try again later");
        return 503;
    }
    u->received = p->offset + p->bytes.n;
    u->busy = true;
    *upload = u;
    return 0;
}

// As uploads_take, with the lock held. time: as for usage_since.
static int take_counted(struct debuginfo *d, const struct debuginfo_put *p, struct str id,
                        int64_t time, struct upload **upload, bool *lacks_room, struct err *e)
{
    const struct usage *usage = usage_since(d, p->tenant, time);
    *lacks_room = false;
    if (usage)
        return take_locked(d, p, id, usage, upload, lacks_room, e);
    err_set(e, "no memory for a debug file");
    return 503;
}

int uploads_take(struct debuginfo *d, const struct debuginfo_put *p, struct str id,
                 struct upload **upload, struct err *e)
{
    bool lacks_room;
    pthread_mutex_lock(&d->uploads_lock);
    remove_stale(d);
    int status = take_counted(d, p, id, 1, upload, &lacks_room, e);
    if (lacks_room && status == 413) // some may have been removed by hand
        status =
            take_counted(d, p, id, (int64_t)process_now_ns() - RECOUNT, upload, &lacks_room, e);
    struct upload *part = lacks_room ? find_upload(d, p->tenant, id) : NULL;
    if (part)
        remove_upload(d, part);
    pthread_mutex_unlock(&d->uploads_lock);
    return status;
}

void uploads_give(struct debuginfo *d, struct upload *u, bool done)
{
    pthread_mutex_lock(&d->uploads_lock);
    struct usage *usage = u->stored ? find_usage(d, str_from(u->tenant)) : NULL;
    if (usage) {
        usage->bytes += (int64_t)u->size - (int64_t)u->replaced;
        usage->files += u->is_new;
    }
    u->busy = false;
    u->progress = process_now_ns();
    if (done)
        remove_upload(d, u);
    pthread_mutex_unlock(&d->uploads_lock);
}
