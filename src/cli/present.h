// Reports laid out for a terminal: what report_write prints for programs, for a person.
#pragma once

#include "cli/terminal.h"
#include "cli/view.h"

// top: as many rows as the window holds unless config says how many. *r is prepared by
// view_prepare from config.
int present_top(struct report *r, const struct config *config, const struct terminal *t,
                struct out *out, struct err *e);
// How many rows of a table fit below a header with so many filters; 0: any number.
int present_rows_that_fit(const struct terminal *t, size_t n_filters);
// tree and peek.
int present_tree(struct report *r, const struct terminal *t, struct out *out, struct err *e);
// Any other report, its lines cut to the window.
int present_lines(struct report *r, const struct terminal *t, struct out *out, struct err *e);
// top with a pair of columns for each sample type of p, sorted by the one that config
// names. Also for what is no terminal.
int present_all_types(const struct model_profile *p, const struct config *config,
                      struct arena *arena, const struct terminal *t, struct out *out,
                      struct err *e);

// What the profile is of, on one line: binary, sample type, time, duration.
void present_title(const struct report *r, const struct terminal *t, struct out *out);
// A share of total, seven columns wide, in the colour of its weight.
void present_share(const struct terminal *t, struct out *out, int64_t value, int64_t total);
enum style present_heat(int64_t value, int64_t total);
