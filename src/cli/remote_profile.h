// Questions about profiles to a server, and its merged profiles as files that the commands read.
#pragma once

#include "cli/remote.h"
#include "codec/message.h"
#include "server/query_messages.h"

struct remote_range {
    const char *type; // may be NULL where it does not matter
    const char *selector;
    int64_t start, end; // milliseconds since 1970
};

// now-1h, 1700000000, ...: milliseconds since 1970. The server reports what is wrong with a time.
int64_t remote_milliseconds(const char *text);
// A time of an answer, in milliseconds, as 2026-01-31T23:59:59Z in arena.
const char *remote_time(double milliseconds, struct arena *arena);

// Calls a method of the querier. NULL with e filled.
void *remote_query(const struct remote *r, const char *method, const struct message *request,
                   const void *object, const struct message *answer, struct arena *arena,
                   struct err *e);
// The names of labels, or the values of one. NULL with e filled.
const struct message_list *remote_labels(const struct remote *r, const struct remote_range *range,
                                         const char *label, struct arena *arena, struct err *e);
// Of these types of profiles the one to show by default: CPU time, else what comes closest. NULL:
// there are none.
const char *remote_choose_type(const struct message_list *types, struct arena *arena, bool *is_cpu);
// The merged profile of a range: *name is a name that the commands can open, NULL if there is
// nothing in the range. -1 with e filled.
int remote_profile(const struct remote *r, const struct remote_range *range, struct arena *arena,
                   const char **name, struct err *e);
// The same in parts (model/blocks.h), to be compared with another range. A server that does not
// split gives the whole.
int remote_blocks(const struct remote *r, const struct remote_range *range,
                  const struct remote_range *other, struct arena *arena, const char **name,
                  struct err *e);
// Whether the server knows how many samples the values of a range come from.
int remote_is_counted(const struct remote *r, const struct remote_range *range, bool *is_counted,
                      struct arena *arena, struct err *e);
