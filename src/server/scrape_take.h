// What a target answered: a profile, counters that became differences, or an error to be shown.
#pragma once

#include "server/ingest.h"

#include "net/client.h"
#include "server/scrape_discover.h"
#include "server/server.h"

struct scrape_health {
    bool up;
    int64_t last;    // ns since 1970; 0: not yet
    double duration; // seconds
    char error[256];
};

// The last answer of a target with cumulative counters, as it came; nothing if it is too large, or
// if those of all targets together are.
struct scrape_memory {
    struct budget_account *account; // of all targets
    uint8_t *data;
    size_t n;
};

void scrape_memory_fini(struct scrape_memory *m);

// Why there is no profile.
void scrape_explain(const struct net_answer *answer, struct scrape_health *health);

// A profile on its way into the store.
struct scrape_taken {
    struct ingest_item item;
    struct arena *arena;
};

// Decodes an answer; counters that only ever grow (alloc_*, contentions, delay) become what they
// grew by, and nothing the first time or after a restart. Limits are those of budget. -1 with e
// filled.
int scrape_read(struct server *s, const struct scrape_target *target, struct str data,
                struct scrape_memory *memory, struct budget *budget, struct scrape_taken *taken,
                struct err *e);
// Stores it. Takes what is in taken; done(context) is called, in any case, when the budget is not
// needed any more. -1 with e filled.
int scrape_store(struct server *s, const struct scrape_target *target, struct scrape_taken *taken,
                 void (*done)(void *context), void *context, struct err *e);
