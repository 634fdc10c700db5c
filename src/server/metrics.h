// /metrics, for Prometheus.
#pragma once

#include "server/call.h"

void metrics_answer(struct call *c);
// Whether the caller may see what is of this tenant alone: it is the caller's own, or one that the
// caller administers.
bool metrics_may_see(const struct call *c, struct str tenant);
