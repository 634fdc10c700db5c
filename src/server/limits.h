// What is taken in and what is not: labels and profiles against the configured limits.
#pragma once

#include "server/config.h"

// Sorts the labels and checks them: a service name (put in if there is none), no name twice, sizes,
// UTF-8. labels has room for one more. 0, or -1 with a sentence that says what and by how much.
int limits_labels(const struct server_limits *limits, struct store_label *labels, size_t *n,
                  struct err *e);

// Whether the profile's time is neither limits->past before oldest_now nor limits->future after now
// (which differ while the clock is not believed). 0, or -1 with e filled. backfill: any time of the
// past is.
int limits_time(const struct server_limits *limits, int64_t time, int64_t oldest_now, int64_t now,
                bool backfill, const struct store_label *labels, size_t n, struct err *e);

// Whether the profile has types, and no more than the store takes. 0, or -1 with e filled.
int limits_types(const struct model_profile *p, struct err *e);

// The profile as it is kept: without samples that are zero, negative or without a stack, stacks cut
// to the limit at the leaf's side, long symbols to their tails. May be p itself. NULL with e filled
// if it is malformed.
const struct model_profile *limits_profile(const struct server_limits *limits,
                                           const struct model_profile *p, struct arena *arena,
                                           struct err *e);

// `[a-zA-Z_][a-zA-Z0-9_]*`: what every client can show.
bool limits_is_plain_name(struct str name);
