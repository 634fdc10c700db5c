// Requests and answers of querier.v1.QuerierService.
#pragma once

#include "codec/pprof_message.h"
#include "query/query.h"

struct range_request {
    int64_t start, end; // ms
};

struct labels_request { // LabelNames, LabelValues and Series
    struct str name;
    struct message_list matchers, label_names;
    int64_t start, end;
};

struct call_site {
    struct str name;
};

struct stack_selector {
    struct message_list call_site;
};

struct merge_request { // SelectMergeStacktraces, SelectMergeProfile and SelectMergeSpanProfile
    struct str type, selector;
    int64_t start, end, max_nodes, format;
    struct stack_selector *stacks;
    struct message_list profile_ids, trace_ids, spans;
};

enum merge_format { FORMAT_NONE, FORMAT_FLAME, FORMAT_TREE, FORMAT_DOT, FORMAT_PPROF };

struct series_request {
    struct str type, selector;
    int64_t start, end, aggregation, limit, exemplars;
    struct message_list group_by;
    double step; // seconds
    struct stack_selector *stacks;
};

struct diff_request {
    struct merge_request *left, *right;
};

struct flame_request { // kiln's own: see api_flame
    struct merge_request *base, *profile;
    struct str type; // of a file: which of its sample types
    struct str focus, ignore, hide, show, show_from, prune_from; // as pprof has them
    struct message_list path; // frames from the root to what is wanted
    struct str by;            // what a frame is: functions (or empty), files, lines, addresses
    struct str format;        // json (or empty), html, pprof
    struct str title;         // of a page
    bool reverse, normalize;
    int64_t max_nodes;
};

struct profile_type {
    struct str id, name, sample_type, sample_unit, period_type, period_unit;
};

struct types_answer {
    struct message_list types;
};

struct names_answer {
    struct message_list names;
};

struct labels {
    struct message_list labels; // struct store_label
};

struct sets_answer {
    struct message_list sets;
};

struct flame_level {
    struct message_list values;
};

struct flame_graph {
    struct message_list names, levels;
    int64_t total, max_self, left_ticks, right_ticks;
};

struct pprof_answer {
    struct pprof_profile *profile;
};

struct merge_answer {
    struct flame_graph *flame;
    struct str tree, dot;
    struct pprof_answer *pprof;
};

struct diff_answer {
    struct flame_graph *flame;
};

enum exemplar_type { EXEMPLARS_UNSPECIFIED, EXEMPLARS_NONE, EXEMPLARS_INDIVIDUAL, EXEMPLARS_SPAN };

struct series_exemplar {
    int64_t time; // ms
    struct str id;
    int64_t value;
    struct message_list labels;
};

struct series_point {
    double value;
    int64_t time; // ms
    struct message_list exemplars;
};

struct point_series {
    struct message_list labels, points;
};

struct series_answer {
    struct message_list series;
};

struct function_series { // A column of numbers for each of them, all of one length.
    struct message_list labels, times, self, total, all;
};

struct function_answer { // kiln's own: see api_function_series
    struct str type, function;
    double start, step; // ms, seconds
    struct message_list series;
};

struct stats_answer {
    bool ingested;
    int64_t oldest, newest; // ms
};

extern const struct message range_request_message, label_names_request_message,
    label_values_request_message, sets_request_message, merge_request_message,
    profile_request_message, span_request_message, series_request_message, diff_request_message,
    flame_request_message, types_answer_message, names_answer_message, sets_answer_message,
    merge_answer_message, diff_answer_message, series_answer_message, function_answer_message,
    stats_answer_message;
