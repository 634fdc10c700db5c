// What a target answered: a profile, counters that became differences, or an error to be shown.
#pragma once

#include "net/client.h"
#include "server/scrape_discover.h"
#include "server/server.h"

struct scrape_health {
    bool up;
    int64_t last;    // ns since 1970; 0: not yet
    double duration; // seconds
    char error[256];
};

// The last answer of a target with cumulative counters, as it came.
struct scrape_memory {
    uint8_t *data;
    size_t n;
};

void scrape_memory_fini(struct scrape_memory *m);

// Stores the profile of an answer; counters that only ever grow (alloc_*, contentions, delay) are
// stored as what they grew by, and not at all the first time or after a restart.
void scrape_take(struct server *s, const struct scrape_target *target,
                 const struct net_answer *answer, struct scrape_memory *memory,
                 struct scrape_health *health);

int scrape_read_secret(const char *file, char *text, size_t size, struct err *e);
