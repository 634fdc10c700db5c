// Queries a server for profiles, and makes merged profiles available as files that the commands can
// read.
#pragma once

#include "cli/remote.h"
#include "codec/message.h"
#include "server/query_messages.h"

struct remote_range {
    const char *type; // may be NULL if irrelevant
    const char *selector;
    int64_t start, end; // milliseconds since 1970
};

// Parses now-1h, 1700000000, ... to milliseconds since 1970. The server reports invalid times.
int64_t remote_milliseconds(const char *text);
// Formats a time in milliseconds as 2026-01-31T23:59:59Z, in arena.
const char *remote_time(double milliseconds, struct arena *arena);

// Calls a method of the querier. Returns NULL and fills e on failure.
void *remote_query(const struct remote *r, const char *method, const struct message *request,
                   const void *object, const struct message *answer, struct arena *arena,
                   struct err *e);
// Lists label names, or the values of one label. Returns NULL and fills e on failure.
const struct message_list *remote_labels(const struct remote *r, const struct remote_range *range,
                                         const char *label, struct arena *arena, struct err *e);
// Chooses the default profile type: CPU time, else the closest one. NULL: there are none.
const char *remote_choose_type(const struct message_list *types, struct arena *arena, bool *is_cpu);
// Fetches the merged profile of a range. *name is a name that the commands can open; NULL: no data
// in the range. Returns -1 and fills e on failure.
int remote_profile(const struct remote *r, const struct remote_range *range, struct arena *arena,
                   const char **name, struct err *e);
// Like remote_profile, but split into parts (model/blocks.h) for a comparison with other. A server
// without splitting returns the whole profile.
int remote_blocks(const struct remote *r, const struct remote_range *range,
                  const struct remote_range *other, struct arena *arena, const char **name,
                  struct err *e);
// Whether the server knows the number of samples behind the values of a range.
int remote_is_counted(const struct remote *r, const struct remote_range *range, bool *is_counted,
                      struct arena *arena, struct err *e);
