// What a caller puts, as requests for the committer: one, or parts if it has many days or many
// puts, so that others do not wait for all of it. A day is a file and a commit of its own. If a
// part fails, the others are stored all the same: a client that sends the profiles again needs ids.
#pragma once

#include "store/driver.h"

enum { PART_PUTS = 500 }; // puts that are stored at once at most

// A list of them in *first; done is called once, when all have ended. 0 or an enum store_code.
int request_new(const struct store_put *puts, size_t n, store_done_fn *done, void *ctx,
                struct store_request **first, struct err *e);
// Of a list that was not queued.
void request_free(struct store_request *first);
