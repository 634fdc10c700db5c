// Questions: the methods of querier.v1.QuerierService, and what the older endpoints share with
// them.
#pragma once

#include "server/call.h"
#include "server/query_messages.h"

enum { API_MAX_NODES = 1 << 20, API_MAX_GROUP_BY = 64 };

void api_profile_types(struct call *c);
void api_label_names(struct call *c);
void api_label_values(struct call *c);
void api_series(struct call *c);
void api_merge_stacktraces(struct call *c);
void api_merge_profile(struct call *c);
void api_merge_span_profile(struct call *c);
void api_select_series(struct call *c);
void api_diff(struct call *c);
void api_stats(struct call *c);
void api_analyze(struct call *c);

// The flame graph as the pages read it, or as a file: of profiles that are stored (flame_request as
// JSON), or of files that are sent along (multipart/form-data with profile, and perhaps base, and
// the rest of flame_request's fields as parts). Nothing is kept.
void api_flame(struct call *c);
// GET /api/v1/functions/series: see docs/reference/api.md.
void api_function_series(struct call *c);
// The latter; the body is read.
void api_flame_files(struct call *c, struct str body);
// POST /api/v1/services/delete
void api_delete_service(struct call *c);

// The older endpoints.
void api_render(struct call *c);
void api_render_diff(struct call *c);
void api_legacy_labels(struct call *c);
void api_legacy_label_values(struct call *c);

// What they share. Each returns 0, or -1 when the call has ended with an error.

// The time in a parameter, in nanoseconds; usual if there is none.
int api_time(struct call *c, const char *name, int64_t usual, int64_t *time);
int api_check_range(struct call *c, int64_t start, int64_t end);
// The metric selector in a parameter, `type{label="value"}`, as type and labels of r.
int api_query(struct call *c, const char *name, struct merge_request *r);
int api_check_groups(struct call *c, size_t n);
int api_check_nodes(struct call *c, int64_t max_nodes);
int api_select(struct call *c, struct str type, struct str selector, int64_t start, int64_t end,
               struct store_select *select);
// What r selects, with range, type and selector checked.
int api_merge_select(struct call *c, const struct merge_request *r, struct store_select *select);
// The stacks of a select.
int api_stacks(struct call *c, const struct store_select *select, struct store_stacks **stacks);
int api_tree(struct call *c, const struct merge_request *r, struct query_tree **tree);
// The same as a profile, cut as query_profile cuts; its period is what Pyroscope's clients expect,
// unless it has weights, which are in the profiles' own.
int api_profile(struct call *c, const struct merge_request *r, int64_t max_nodes,
                struct model_profile **p);
// The profile of a select that r made.
int api_profile_of(struct call *c, const struct merge_request *r, const struct store_stacks *stacks,
                   int64_t max_nodes, struct model_profile **p);
int api_points(struct call *c, const struct series_request *r, struct query_series **series,
               size_t *n);
// The graph of r for Graphviz; empty if there is nothing.
int api_dot(struct call *c, const struct merge_request *r, struct out *out);
// Draws sides[1], compared with sides[0] unless that is NULL, and ends the call. types: all that
// the profile has are carried; weights: of an event on each side, 0: from the profiles. note: about
// the answer, or NULL.
int api_draw(struct call *c, const struct model_profile *sides[2], const struct flame_request *r,
             bool types, const double weights[2], const char *text, struct err *e);
struct profile_type api_type_parts(struct str id);
