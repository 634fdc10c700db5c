// What the job keeps, one SQLite database per tenant. Every transaction is short: requests and the
// job write to the same file.
#pragma once

#include <pthread.h>

#include "changes/changes.h"
#include "query/query.h"
#include "store/db.h"

struct turn;

struct changes {
    struct changes_options options;
    char *directory;      // DATA/changes
    struct budget budget; // canceled while it is to stop or paused
    pthread_t thread;
    bool is_running;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool stopping, paused;
    int64_t worked; // CPU time of the thread when it rested last, ns
    // Looks that are under way, in the order of their turns.
    struct turn *first_turn, **last_turn;
    int64_t turns_end; // of the history of looks that begin; 0: none has begun
    struct changes_counters counters;
};

// 1 if there is no database and mode does not make one.
int state_open(const struct changes *c, struct str tenant, enum db_mode mode, struct db *db,
               struct err *e);
// What is open may be another now.
void state_changed(const struct changes *c);
int state_begin(struct db *db, struct err *e);
// Commits, or rolls back if code is not 0. code, or what committing gave.
int state_end(struct db *db, int code, struct err *e);

// Numbers by name, 0 at first.
int state_number(struct db *db, const char *name, int64_t *value, struct err *e);
int state_set_number(struct db *db, const char *name, int64_t value, struct err *e);

// Of rows of change, and of mute beside it, at the time :now.
#define CHANGE_MUTED "(mute.time IS NOT NULL AND (mute.until = 0 OR mute.until > :now))"
// What an index of change has.
#define CHANGE_LASTS "verdict = 1 AND gone = 0 AND acknowledged = 0"

// A copy in arena, out of which it may jump.
struct str state_text(sqlite3_stmt *statement, int column, struct arena *arena);
// A column of a row that was fetched; 1: there is a row, 0: none, else an enum store_code.
int state_step(struct db *db, sqlite3_stmt *statement, struct err *e);

// What may have caused a change, of one service or, if that is empty, of all. annotation: its id, 0
// if labels told it. Of a long text the beginning: candidates and changes have a copy each.
int state_add_marker(struct db *db, struct str service, int64_t time, struct str text,
                     int64_t annotation, struct err *e);
