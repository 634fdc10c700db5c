#pragma once

#include <pthread.h>

#include "server/debuginfo.h"

enum { DEBUGINFO_UNKNOWN = 1 << 15 };

struct debuginfo {
    struct debuginfo_options o;
    char *directory;
    pthread_mutex_t upload; // parts; taken before lock
    // A file is put in place, or names are looked up: one at a time, so that their memory is
    // bounded and names of a file that was replaced are not kept.
    pthread_mutex_t lock;
    // Hashes of addresses that their file has no name for: it is not opened for them again.
    uint64_t unknown[DEBUGINFO_UNKNOWN];
};

// Calls back for every entry of a directory, those with a dot in front aside.
void debuginfo_each(const char *path, void (*call)(void *ctx, const char *path, const char *name),
                    void *ctx);
// The debug file of a build id, or a negative number.
int debuginfo_find(const struct debuginfo *d, struct str tenant, struct str id);
// Forgets names that came of an earlier file. Under lock.
void debuginfo_forget(struct debuginfo *d, struct str tenant, struct str id);
