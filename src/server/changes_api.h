// What src/changes found, what people say about it, and notes from outside: docs/changes.md.
#pragma once

#include "server/call.h"

// GET /api/v1/changes
void changes_api_list(struct call *c);
// POST /api/v1/changes/state
void changes_api_mark(struct call *c);
// GET and POST /api/v1/annotations
void changes_api_annotations(struct call *c);
// POST /api/v1/annotations/delete
void changes_api_remove_annotation(struct call *c);

// The JSON object of a small body; -1: the call has failed.
struct json;
int changes_api_body(struct call *c, struct json *root);
// Who asks, as far as that is known.
struct str changes_api_user(const struct call *c);
