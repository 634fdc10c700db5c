// Profiles on their way into the store, from whichever endpoint they came.
#pragma once

#include "server/call.h"

struct ingest_item {
    struct store_label *labels; // any order; has room for one more
    size_t n_labels;
    struct model_profile *profile;
    struct str id;
    int64_t fallback_time; // ns, for a profile without one; 0: now
};

// Before anything of the call's body is decoded; false: it is answered (429).
bool ingest_may_begin(struct call *c);

// Checks all of them, splits them by the labels of their samples and stores all or none; the call
// is answered when they are durable: 200 with what x->body_out holds. bad_profile is the status
// for a profile that is no good. `?backfill=1`, which needs the admin scope as well, lifts
// limits.past.
void ingest_items(struct call *c, struct ingest_item *items, size_t n, int bad_profile);

// A pprof profile, gzipped or not. NULL with e filled.
struct model_profile *ingest_pprof(const struct server_limits *limits, struct arena *arena,
                                   struct str data, struct err *e);

// The same without a call: on success arena, in which everything of item is, is freed when it is
// durable, and then done(context) is called; else e says why it was not taken. A deadline of the
// arena's budget holds until the store has it.
int ingest_later(struct server *s, struct str tenant, struct ingest_item *item, struct arena *arena,
                 void (*done)(void *context), void *context, struct err *e);

void ingest_push(struct call *c);   // /push.v1.PusherService/Push
void ingest_legacy(struct call *c); // /ingest
void ingest_otlp(struct call *c);   // /v1development/profiles
