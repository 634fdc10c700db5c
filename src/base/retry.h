// When a client may try again: the server's Retry-After, exponential backoff with full jitter, and
// a pace for requests that piled up meanwhile. A thousand clients that were refused in the same
// millisecond come back spread over an interval, not together.
//
// Pure arithmetic: the caller owns the clock, so that tests can run hours in milliseconds.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

enum {
    RETRY_FIRST_MS = 500,     // the first backoff after no answer at all
    RETRY_LONGEST_MS = 60000, // the longest backoff, unless the interval is longer
    RETRY_AFTER_MAX_S = 300,  // a larger Retry-After counts as this
};

struct retry {
    uint64_t interval_ms; // the usual time between two requests of this client
    uint64_t pace_ms;     // between requests that piled up; 0: nothing went wrong
    uint64_t random;
    unsigned failures; // in a row
};

// seed: different in every process.
void retry_init(struct retry *r, uint64_t interval_ms, uint64_t seed);
// A seed from the kernel.
uint64_t retry_seed(void);
// A random number from 0 to most.
uint64_t retry_random(struct retry *r, uint64_t most);

// Each returns the milliseconds to wait before the next request.
// The server refused with 429 or 503; after_s: its Retry-After, or -1.
uint64_t retry_refused(struct retry *r, int64_t after_s);
// There was no answer.
uint64_t retry_no_answer(struct retry *r);
// The server took it; more: others wait to be sent. These go at most twice as fast as usual, so
// that a server that has just recovered is not flooded by what a whole fleet kept for it.
uint64_t retry_taken(struct retry *r, bool more);

// The value of a Retry-After header: seconds, or an HTTP date (IMF-fixdate) relative to now, in
// seconds since 1970. 0 to RETRY_AFTER_MAX_S; -1 if it is neither.
int64_t retry_after_parse(struct str value, int64_t now);
