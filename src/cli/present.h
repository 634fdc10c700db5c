// Reports for a terminal: a readable layout of what report_write prints for programs.
#pragma once

#include "cli/terminal.h"
#include "cli/view.h"

// top: as many rows as fit the window unless config sets a number. *r is prepared by view_prepare
// from config.
int present_top(struct report *r, const struct config *config, const struct terminal *t,
                struct out *out, struct err *e);
// The number of table rows that fit below a header with n_filters filters; 0: unlimited.
int present_rows_that_fit(const struct terminal *t, size_t n_filters);
// tree and peek.
int present_tree(struct report *r, const struct terminal *t, struct out *out, struct err *e);
// Any other report, with lines cut to the window.
int present_lines(struct report *r, const struct terminal *t, struct out *out, struct err *e);
// top with a pair of columns for each sample type of p, sorted by the type that config selects.
// Also for output that is not a terminal.
int present_all_types(const struct model_profile *p, const struct config *config,
                      struct arena *arena, const struct terminal *t, struct out *out,
                      struct err *e);

// Describes the profile in one line: binary, sample type, time, duration.
void present_title(const struct report *r, const struct terminal *t, struct out *out);
// A share of total, seven columns wide, colored by its weight.
void present_share(const struct terminal *t, struct out *out, int64_t value, int64_t total);
enum style present_heat(int64_t value, int64_t total);
