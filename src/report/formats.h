// The writers behind report_write. They report errors by arena_fail of the report's arena.
#pragma once

#include "report/graph.h"

void report_text(struct report *r, struct out *out);
void report_tree(struct report *r, struct out *out);
void report_traces(struct report *r, struct out *out);
void report_tags(struct report *r, struct out *out);
void report_raw(struct report *r, struct out *out);
void report_comments(struct report *r, struct out *out);
void report_dot(struct report *r, struct out *out);
void report_callgrind(struct report *r, struct out *out);
void report_proto(struct report *r, struct out *out);
void report_topproto(struct report *r, struct out *out);
void report_list(struct report *r, struct out *out);
void report_disasm(struct report *r, struct out *out);
void report_weblist(struct report *r, struct out *out);

// Whether the requested symbol is an address.
bool report_symbol_address(const struct report *r, uint64_t *address);

// Write a value or a percentage, right-aligned in width columns.
void report_put_value(const struct report *r, struct out *out, int64_t value, size_t width);
void report_put_percentage(struct out *out, int64_t value, int64_t total);
// Writes the value, or a dot for zero.
void report_put_value_or_dot(const struct report *r, struct out *out, int64_t value, size_t width);
// Writes the line above a listing: "flat cum (flat, cum) share".
void report_put_sums(const struct report *r, struct out *out, int64_t flat, int64_t cum);
