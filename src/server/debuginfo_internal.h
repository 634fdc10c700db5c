#pragma once

#include <linux/limits.h>
#include <pthread.h>
#include <stdatomic.h>

#include "server/debuginfo.h"

enum { DEBUGINFO_UNKNOWN = 1 << 15, DEBUGINFO_LOCKS = 256 };

struct upload;
struct naming;

// A tenant's complete files. Counted once, because a tenant may have very many.
struct usage {
    char tenant[151];
    int64_t bytes, files; // below 0 for a moment if a file is removed while it is put in place
    int64_t counted;      // CLOCK_MONOTONIC, ns; 0: never
    bool counting;        // by a thread that does not hold the lock: it must not be removed
    struct usage *next;
};

struct debuginfo {
    struct debuginfo_options o;
    char *directory;

    pthread_mutex_t uploads_lock; // everything up to the next blank line; not held to write files
    struct upload *uploads;
    struct usage *usage;
    size_t n_usage;
    pthread_cond_t stop, counted; // counted: when a count of files ends
    bool stopping;

    pthread_t sweeper; // removes parts that nobody continues
    bool has_sweeper;

    // Queries that look up names, one of each tenant at a time.
    pthread_mutex_t naming_lock;
    struct naming *naming;
    // By a hash of the tenant. Held while names of it are written to the store, or deleted from it
    // because their file was replaced. replaced counts that: names that were looked up before it
    // are not written.
    pthread_mutex_t names[DEBUGINFO_LOCKS];
    _Atomic uint64_t replaced;
    // Hashes of addresses that their file has no name for: it is not opened for them again.
    _Atomic uint64_t unknown[DEBUGINFO_UNKNOWN];
};

// Calls back for every entry of a directory.
void debuginfo_each(const char *path, void (*call)(void *ctx, const char *path, const char *name),
                    void *ctx);
void debuginfo_tenant_path(const struct debuginfo *d, struct str tenant, char path[PATH_MAX]);
void debuginfo_file_path(const struct debuginfo *d, struct str tenant, struct str id,
                         char path[PATH_MAX]);
// The debug file of a build id, or a negative number; and that of uploaded ones only.
int debuginfo_find(const struct debuginfo *d, struct str tenant, struct str id);
int debuginfo_open_uploaded(const struct debuginfo *d, struct str tenant, struct str id);
// Bytes and number of a tenant's complete files, by reading its directories.
uint64_t debuginfo_stored(const struct debuginfo *d, struct str tenant, size_t *files);
// Forgets names that came of an earlier file, which was replaced.
void debuginfo_forget(struct debuginfo *d, struct str tenant, struct str id);

// --- uploads (debuginfo_uploads.c) ---

// A file that is received in parts. Under uploads_lock, but while busy, only its user's.
struct upload {
    char tenant[151];
    char id[2 * ELF_BUILD_ID_MAX + 1];
    char path[PATH_MAX]; // of the part
    uint64_t size;       // of the whole file
    uint64_t received;   // including what is being written
    uint64_t progress;   // CLOCK_MONOTONIC, ns, when the last part came
    uint64_t replaced;   // bytes of the file that it took the place of
    bool busy, stored;   // stored: it is a complete file now
    bool is_new;         // there was none before it
    struct upload *next;
};

void uploads_init(struct debuginfo *d);
// The thread that removes stale parts.
int uploads_start(struct debuginfo *d, struct err *e);
void uploads_fini(struct debuginfo *d);
// Takes room for the next bytes of put and returns their upload, which is busy until uploads_give.
// 0, or the status to answer with e filled.
int uploads_take(struct debuginfo *d, const struct debuginfo_put *put, struct str id,
                 struct upload **upload, struct err *e);
// done: nothing more is to come, and the part, if it is still there, is removed.
void uploads_give(struct debuginfo *d, struct upload *upload, bool done);
// A complete file of so many bytes was removed.
void uploads_removed(struct debuginfo *d, struct str tenant, uint64_t bytes);
