// /metrics, for Prometheus.
#pragma once

#include "server/call.h"

void metrics_answer(struct call *c);
