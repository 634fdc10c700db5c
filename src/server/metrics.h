// /metrics, for Prometheus.
#pragma once

#include "server/call.h"

void metrics_answer(struct call *c);
// Whether the caller may see what is of this tenant alone: it is the caller's own, or one that the
// caller administers.
bool metrics_may_see(const struct call *c, struct str tenant);
// The lines before the values of a metric. type: counter or gauge.
void metrics_put_head(struct out *out, const char *type, const char *name, const char *help);
// A metric of one value.
void metrics_put(struct out *out, const char *type, const char *name, const char *help, uint64_t v);
void metrics_put_seconds(struct out *out, const char *type, const char *name, const char *help,
                         uint64_t nanos);
// name="value", as Prometheus reads it: bytes that are not UTF-8 become U+FFFD.
void metrics_put_label(struct out *out, const char *name, struct str value);
// Adds to the answer what was written into memory of its own while a lock was held (the answer's
// may run out, which jumps), and frees it.
void metrics_take(struct call *c, struct out *out);
