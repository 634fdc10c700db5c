// What src/changes found, what people say about it, and notes from outside: docs/guides/changes.md.
#pragma once

#include "changes/changes.h"
#include "server/call.h"

// GET /api/v1/changes
void changes_api_list(struct call *c);
// POST /api/v1/changes/state
void changes_api_mark(struct call *c);
// GET and POST /api/v1/annotations
void changes_api_annotations(struct call *c);
// GET /api/v1/deploys: markers
void changes_api_deploys(struct call *c);
// POST /api/v1/annotations/delete
void changes_api_remove_annotation(struct call *c);

// The JSON object of a small body; -1: the call has failed.
struct json;
int changes_api_body(struct call *c, struct json *root);
// The caller, if known.
struct str changes_api_user(const struct call *c);

// The units of a change's values and of its cost, and what to divide them by.
struct changes_units {
    struct str value, cost; // value: "share" of functions, unless it is memory in use
    double value_per, cost_per;
};
// What selects the profiles of a side.
struct str changes_api_selector(const struct changes_entry *entry, int side, struct arena *arena);
struct changes_units changes_api_units(const struct changes_entry *entry, struct arena *arena);
