// Computes when a client may retry: the server's Retry-After, exponential backoff with full jitter,
// and a pace for the backlog. A thousand clients that were rejected in the same millisecond come
// back spread over an interval.
//
// Pure arithmetic: the caller owns the clock, so that tests can simulate hours in milliseconds.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

enum {
    RETRY_FIRST_MS = 500,     // the first backoff after a request without a response
    RETRY_LONGEST_MS = 60000, // maximum backoff, unless the interval is longer
    RETRY_AFTER_MAX_S = 300,  // maximum Retry-After; larger values are reduced to it
};

struct retry {
    uint64_t interval_ms; // usual time between two requests of this client
    uint64_t pace_ms;     // time between requests of the backlog; 0: no backlog
    uint64_t random;
    unsigned failures; // consecutive failures
};

// seed must differ between processes.
void retry_init(struct retry *r, uint64_t interval_ms, uint64_t seed);
// Returns a random seed from the kernel.
uint64_t retry_seed(void);
// Returns a random number from 0 to most.
uint64_t retry_random(struct retry *r, uint64_t most);

// Each returns the milliseconds to wait before the next request. retry_refused: the server
// responded with 429 or 503; after_s is its Retry-After, or -1.
uint64_t retry_refused(struct retry *r, int64_t after_s);
// There was no response.
uint64_t retry_no_answer(struct retry *r);
// The server accepted the request. more: the backlog is not empty. The backlog is sent at most
// twice as fast as usual, so that a fleet does not flood a server that has just recovered.
uint64_t retry_taken(struct retry *r, bool more);

// Parses a Retry-After header: seconds, or an HTTP date (IMF-fixdate). now is in seconds since
// 1970. Returns 0 to RETRY_AFTER_MAX_S seconds, or -1 if the value is invalid.
int64_t retry_after_parse(struct str value, int64_t now);
