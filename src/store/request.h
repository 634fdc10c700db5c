// Turns the puts of a caller into requests for the committer: one request, or several parts if
// there are many days or many puts, so that other callers do not wait for all of it. A day is a
// file and a commit of its own. If a part fails, the others are stored anyway, so a client that
// retries needs put ids.
#pragma once

#include "store/driver.h"

enum { PART_PUTS = 500 }; // maximum number of puts in a part

// Returns a list of requests in *first. done is called once, when all of them are complete. Returns
// 0 or an enum store_code.
int request_new(const struct store_put *puts, size_t n, store_done_fn *done, void *ctx,
                struct store_request **first, struct err *e);
// Frees a list that was not queued.
void request_free(struct store_request *first);
