// Rules: the cost of functions as metrics, on /metrics/functions. A thread of low priority asks for
// each rule's functions once a window (query_series), and the last answers are shown.
#pragma once

#include "server/call.h"

struct rules;

// NULL if there is no memory.
struct rules *rules_new(struct server *s);
// Takes the rules of config; the thread starts with the first ones.
void rules_reload(struct rules *r, struct server_config *config);
void rules_stop(struct rules *r);
void rules_free(struct rules *r); // after rules_stop

// GET /metrics/functions: rules of the tenants that the caller may see.
void rules_answer(struct call *c);
// What /metrics has about them.
void rules_metrics(struct call *c);

// How metrics of a profile type end, such as "cpu_cores"; NULL: it can be none.
const char *rules_metric(struct str type);
// A label's name as Prometheus takes it.
struct str rules_label_name(struct str name, struct arena *arena);
