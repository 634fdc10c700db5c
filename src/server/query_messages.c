#include "server/query_messages.h"

static const struct message_enum formats[] = {
    {"PROFILE_FORMAT_UNSPECIFIED", FORMAT_NONE}, {"PROFILE_FORMAT_FLAMEGRAPH", FORMAT_FLAME},
    {"PROFILE_FORMAT_TREE", FORMAT_TREE},        {"PROFILE_FORMAT_DOT", FORMAT_DOT},
    {"PROFILE_FORMAT_PPROF", FORMAT_PPROF},      {NULL, 0},
};
static const struct message_enum aggregations[] = {
    {"TIME_SERIES_AGGREGATION_TYPE_SUM", QUERY_SUM},
    {"TIME_SERIES_AGGREGATION_TYPE_AVERAGE", QUERY_AVERAGE},
    {NULL, 0},
};
static const struct message_enum exemplar_types[] = {
    {"EXEMPLAR_TYPE_UNSPECIFIED", EXEMPLARS_UNSPECIFIED},
    {"EXEMPLAR_TYPE_NONE", EXEMPLARS_NONE},
    {"EXEMPLAR_TYPE_INDIVIDUAL", EXEMPLARS_INDIVIDUAL},
    {"EXEMPLAR_TYPE_SPAN", EXEMPLARS_SPAN},
    {NULL, 0},
};

// ONE is a scalar or a message, MANY a list.
#define ONE(number, json, name, of, member, kind, ...)                               \
    {                                                                                \
        number, json, name, kind, .offset = offsetof(struct of, member), __VA_ARGS__ \
    }
#define MANY(number, json, name, of, member, kind, ...)                                    \
    {                                                                                      \
        number, json, name, kind, true, .offset = offsetof(struct of, member), __VA_ARGS__ \
    }

static const struct message_field range_request_fields[] = {
    ONE(1, "start", NULL, range_request, start, MESSAGE_INT, ),
    ONE(2, "end", NULL, range_request, end, MESSAGE_INT, ),
};
const struct message range_request_message = MESSAGE(struct range_request, range_request_fields);

static const struct message_field label_names_request_fields[] = {
    MANY(1, "matchers", NULL, labels_request, matchers, MESSAGE_STRING, ),
    ONE(2, "start", NULL, labels_request, start, MESSAGE_INT, ),
    ONE(3, "end", NULL, labels_request, end, MESSAGE_INT, ),
};
const struct message label_names_request_message =
    MESSAGE(struct labels_request, label_names_request_fields);

static const struct message_field label_values_request_fields[] = {
    ONE(1, "name", NULL, labels_request, name, MESSAGE_STRING, ),
    MANY(2, "matchers", NULL, labels_request, matchers, MESSAGE_STRING, ),
    ONE(3, "start", NULL, labels_request, start, MESSAGE_INT, ),
    ONE(4, "end", NULL, labels_request, end, MESSAGE_INT, ),
};
const struct message label_values_request_message =
    MESSAGE(struct labels_request, label_values_request_fields);

static const struct message_field sets_request_fields[] = {
    MANY(1, "matchers", NULL, labels_request, matchers, MESSAGE_STRING, ),
    MANY(2, "labelNames", "label_names", labels_request, label_names, MESSAGE_STRING, ),
    ONE(3, "start", NULL, labels_request, start, MESSAGE_INT, ),
    ONE(4, "end", NULL, labels_request, end, MESSAGE_INT, ),
};
const struct message sets_request_message = MESSAGE(struct labels_request, sets_request_fields);

static const struct message_field call_site_fields[] = {
    ONE(1, "name", NULL, call_site, name, MESSAGE_STRING, ),
};
static const struct message call_site_message = MESSAGE(struct call_site, call_site_fields);

static const struct message_field stack_selector_fields[] = {
    MANY(1, "callSite", "call_site", stack_selector, call_site, MESSAGE_MESSAGE,
         .message = &call_site_message),
};
static const struct message stack_selector_message =
    MESSAGE(struct stack_selector, stack_selector_fields);

static const struct message_field merge_request_fields[] = {
    ONE(1, "profileTypeID", "profile_typeID", merge_request, type, MESSAGE_STRING, ),
    ONE(2, "labelSelector", "label_selector", merge_request, selector, MESSAGE_STRING, ),
    ONE(3, "start", NULL, merge_request, start, MESSAGE_INT, ),
    ONE(4, "end", NULL, merge_request, end, MESSAGE_INT, ),
    ONE(5, "maxNodes", "max_nodes", merge_request, max_nodes, MESSAGE_INT, ),
    ONE(6, "format", NULL, merge_request, format, MESSAGE_INT, .names = formats),
    ONE(7, "stackTraceSelector", "stack_trace_selector", merge_request, stacks, MESSAGE_MESSAGE,
        .message = &stack_selector_message),
    MANY(8, "profileIdSelector", "profile_id_selector", merge_request, profile_ids,
         MESSAGE_STRING, ),
    MANY(10, "traceIdSelector", "trace_id_selector", merge_request, trace_ids, MESSAGE_STRING, ),
    MANY(11, "spanSelector", "span_selector", merge_request, spans, MESSAGE_STRING, ),
};
const struct message merge_request_message = MESSAGE(struct merge_request, merge_request_fields);

static const struct message_field profile_request_fields[] = {
    ONE(1, "profileTypeID", "profile_typeID", merge_request, type, MESSAGE_STRING, ),
    ONE(2, "labelSelector", "label_selector", merge_request, selector, MESSAGE_STRING, ),
    ONE(3, "start", NULL, merge_request, start, MESSAGE_INT, ),
    ONE(4, "end", NULL, merge_request, end, MESSAGE_INT, ),
    ONE(5, "maxNodes", "max_nodes", merge_request, max_nodes, MESSAGE_INT, ),
    ONE(6, "stackTraceSelector", "stack_trace_selector", merge_request, stacks, MESSAGE_MESSAGE,
        .message = &stack_selector_message),
    MANY(7, "profileIdSelector", "profile_id_selector", merge_request, profile_ids,
         MESSAGE_STRING, ),
    MANY(8, "traceIdSelector", "trace_id_selector", merge_request, trace_ids, MESSAGE_STRING, ),
};
const struct message profile_request_message =
    MESSAGE(struct merge_request, profile_request_fields);

static const struct message_field span_request_fields[] = {
    ONE(1, "profileTypeID", "profile_typeID", merge_request, type, MESSAGE_STRING, ),
    ONE(2, "labelSelector", "label_selector", merge_request, selector, MESSAGE_STRING, ),
    MANY(3, "spanSelector", "span_selector", merge_request, spans, MESSAGE_STRING, ),
    ONE(4, "start", NULL, merge_request, start, MESSAGE_INT, ),
    ONE(5, "end", NULL, merge_request, end, MESSAGE_INT, ),
    ONE(6, "maxNodes", "max_nodes", merge_request, max_nodes, MESSAGE_INT, ),
    ONE(7, "format", NULL, merge_request, format, MESSAGE_INT, .names = formats),
};
const struct message span_request_message = MESSAGE(struct merge_request, span_request_fields);

static const struct message_field series_request_fields[] = {
    ONE(1, "profileTypeID", "profile_typeID", series_request, type, MESSAGE_STRING, ),
    ONE(2, "labelSelector", "label_selector", series_request, selector, MESSAGE_STRING, ),
    ONE(3, "start", NULL, series_request, start, MESSAGE_INT, ),
    ONE(4, "end", NULL, series_request, end, MESSAGE_INT, ),
    MANY(5, "groupBy", "group_by", series_request, group_by, MESSAGE_STRING, ),
    ONE(6, "step", NULL, series_request, step, MESSAGE_DOUBLE, ),
    ONE(7, "aggregation", NULL, series_request, aggregation, MESSAGE_INT, .names = aggregations),
    ONE(8, "stackTraceSelector", "stack_trace_selector", series_request, stacks, MESSAGE_MESSAGE,
        .message = &stack_selector_message),
    ONE(9, "limit", NULL, series_request, limit, MESSAGE_INT, ),
    ONE(10, "exemplarType", "exemplar_type", series_request, exemplars, MESSAGE_INT,
        .names = exemplar_types),
};
const struct message series_request_message = MESSAGE(struct series_request, series_request_fields);

static const struct message_field diff_request_fields[] = {
    ONE(1, "left", NULL, diff_request, left, MESSAGE_MESSAGE, .message = &merge_request_message),
    ONE(2, "right", NULL, diff_request, right, MESSAGE_MESSAGE, .message = &merge_request_message),
};
const struct message diff_request_message = MESSAGE(struct diff_request, diff_request_fields);

static const struct message_field flame_request_fields[] = {
    ONE(1, "base", NULL, flame_request, base, MESSAGE_MESSAGE, .message = &merge_request_message),
    ONE(2, "profile", NULL, flame_request, profile, MESSAGE_MESSAGE,
        .message = &merge_request_message),
    ONE(3, "focus", NULL, flame_request, focus, MESSAGE_STRING, ),
    ONE(4, "ignore", NULL, flame_request, ignore, MESSAGE_STRING, ),
    ONE(5, "hide", NULL, flame_request, hide, MESSAGE_STRING, ),
    ONE(6, "show", NULL, flame_request, show, MESSAGE_STRING, ),
    ONE(7, "showFrom", "show_from", flame_request, show_from, MESSAGE_STRING, ),
    ONE(8, "pruneFrom", "prune_from", flame_request, prune_from, MESSAGE_STRING, ),
    MANY(9, "path", NULL, flame_request, path, MESSAGE_STRING, ),
    ONE(10, "by", NULL, flame_request, by, MESSAGE_STRING, ),
    ONE(11, "format", NULL, flame_request, format, MESSAGE_STRING, ),
    ONE(12, "title", NULL, flame_request, title, MESSAGE_STRING, ),
    ONE(13, "reverse", NULL, flame_request, reverse, MESSAGE_BOOL, ),
    ONE(14, "normalize", NULL, flame_request, normalize, MESSAGE_BOOL, ),
    ONE(15, "maxNodes", "max_nodes", flame_request, max_nodes, MESSAGE_INT, ),
};
const struct message flame_request_message = MESSAGE(struct flame_request, flame_request_fields);

static const struct message_field profile_type_fields[] = {
    ONE(1, "ID", NULL, profile_type, id, MESSAGE_STRING, ),
    ONE(2, "name", NULL, profile_type, name, MESSAGE_STRING, ),
    ONE(4, "sampleType", "sample_type", profile_type, sample_type, MESSAGE_STRING, ),
    ONE(5, "sampleUnit", "sample_unit", profile_type, sample_unit, MESSAGE_STRING, ),
    ONE(6, "periodType", "period_type", profile_type, period_type, MESSAGE_STRING, ),
    ONE(7, "periodUnit", "period_unit", profile_type, period_unit, MESSAGE_STRING, ),
};
static const struct message profile_type_message =
    MESSAGE(struct profile_type, profile_type_fields);

static const struct message_field types_answer_fields[] = {
    MANY(1, "profileTypes", "profile_types", types_answer, types, MESSAGE_MESSAGE,
         .message = &profile_type_message),
};
const struct message types_answer_message = MESSAGE(struct types_answer, types_answer_fields);

static const struct message_field names_answer_fields[] = {
    MANY(1, "names", NULL, names_answer, names, MESSAGE_STRING, ),
};
const struct message names_answer_message = MESSAGE(struct names_answer, names_answer_fields);

static const struct message_field label_fields[] = {
    ONE(1, "name", NULL, store_label, name, MESSAGE_STRING, ),
    ONE(2, "value", NULL, store_label, value, MESSAGE_STRING, ),
};
static const struct message label_message = MESSAGE(struct store_label, label_fields);

static const struct message_field labels_fields[] = {
    MANY(1, "labels", NULL, labels, labels, MESSAGE_MESSAGE, .message = &label_message),
};
static const struct message labels_message = MESSAGE(struct labels, labels_fields);

static const struct message_field sets_answer_fields[] = {
    MANY(2, "labelsSet", "labels_set", sets_answer, sets, MESSAGE_MESSAGE,
         .message = &labels_message),
};
const struct message sets_answer_message = MESSAGE(struct sets_answer, sets_answer_fields);

static const struct message_field level_fields[] = {
    MANY(1, "values", NULL, flame_level, values, MESSAGE_INT, ),
};
static const struct message level_message = MESSAGE(struct flame_level, level_fields);

static const struct message_field flame_fields[] = {
    MANY(1, "names", NULL, flame_graph, names, MESSAGE_STRING, ),
    MANY(2, "levels", NULL, flame_graph, levels, MESSAGE_MESSAGE, .message = &level_message),
    ONE(3, "total", NULL, flame_graph, total, MESSAGE_INT, ),
    ONE(4, "maxSelf", "max_self", flame_graph, max_self, MESSAGE_INT, ),
};
static const struct message flame_message = MESSAGE(struct flame_graph, flame_fields);

static const struct message_field flame_diff_fields[] = {
    MANY(1, "names", NULL, flame_graph, names, MESSAGE_STRING, ),
    MANY(2, "levels", NULL, flame_graph, levels, MESSAGE_MESSAGE, .message = &level_message),
    ONE(3, "total", NULL, flame_graph, total, MESSAGE_INT, ),
    ONE(4, "maxSelf", "max_self", flame_graph, max_self, MESSAGE_INT, ),
    ONE(5, "leftTicks", NULL, flame_graph, left_ticks, MESSAGE_INT, ),
    ONE(6, "rightTicks", NULL, flame_graph, right_ticks, MESSAGE_INT, ),
};
static const struct message flame_diff_message = MESSAGE(struct flame_graph, flame_diff_fields);

static const struct message_field pprof_answer_fields[] = {
    ONE(1, "profile", NULL, pprof_answer, profile, MESSAGE_MESSAGE, .message = &pprof_message),
};
static const struct message pprof_answer_message =
    MESSAGE(struct pprof_answer, pprof_answer_fields);

static const struct message_field merge_answer_fields[] = {
    ONE(1, "flamegraph", NULL, merge_answer, flame, MESSAGE_MESSAGE, .message = &flame_message),
    ONE(2, "tree", NULL, merge_answer, tree, MESSAGE_BYTES, ),
    ONE(3, "dot", NULL, merge_answer, dot, MESSAGE_STRING, ),
    ONE(5, "pprof", NULL, merge_answer, pprof, MESSAGE_MESSAGE, .message = &pprof_answer_message),
};
const struct message merge_answer_message = MESSAGE(struct merge_answer, merge_answer_fields);

static const struct message_field diff_answer_fields[] = {
    ONE(1, "flamegraph", NULL, diff_answer, flame, MESSAGE_MESSAGE, .message = &flame_diff_message),
};
const struct message diff_answer_message = MESSAGE(struct diff_answer, diff_answer_fields);

static const struct message_field exemplar_fields[] = {
    ONE(1, "timestamp", NULL, series_exemplar, time, MESSAGE_INT, ),
    ONE(2, "profileId", "profile_id", series_exemplar, id, MESSAGE_STRING, ),
    ONE(4, "value", NULL, series_exemplar, value, MESSAGE_INT, ),
    MANY(5, "labels", NULL, series_exemplar, labels, MESSAGE_MESSAGE, .message = &label_message),
};
static const struct message exemplar_message = MESSAGE(struct series_exemplar, exemplar_fields);

static const struct message_field point_fields[] = {
    ONE(1, "value", NULL, series_point, value, MESSAGE_DOUBLE, ),
    ONE(2, "timestamp", NULL, series_point, time, MESSAGE_INT, ),
    MANY(4, "exemplars", NULL, series_point, exemplars, MESSAGE_MESSAGE,
         .message = &exemplar_message),
};
static const struct message point_message = MESSAGE(struct series_point, point_fields);

static const struct message_field point_series_fields[] = {
    MANY(1, "labels", NULL, point_series, labels, MESSAGE_MESSAGE, .message = &label_message),
    MANY(2, "points", NULL, point_series, points, MESSAGE_MESSAGE, .message = &point_message),
};
static const struct message point_series_message =
    MESSAGE(struct point_series, point_series_fields);

static const struct message_field series_answer_fields[] = {
    MANY(1, "series", NULL, series_answer, series, MESSAGE_MESSAGE,
         .message = &point_series_message),
};
const struct message series_answer_message = MESSAGE(struct series_answer, series_answer_fields);

static const struct message_field function_series_fields[] = {
    MANY(1, "labels", NULL, function_series, labels, MESSAGE_MESSAGE, .message = &label_message),
    MANY(2, "times", NULL, function_series, times, MESSAGE_DOUBLE, ),
    MANY(3, "self", NULL, function_series, self, MESSAGE_DOUBLE, ),
    MANY(4, "total", NULL, function_series, total, MESSAGE_DOUBLE, ),
    MANY(5, "all", NULL, function_series, all, MESSAGE_DOUBLE, ),
};
static const struct message function_series_message =
    MESSAGE(struct function_series, function_series_fields);

static const struct message_field function_answer_fields[] = {
    ONE(1, "profileTypeID", NULL, function_answer, type, MESSAGE_STRING, ),
    ONE(2, "function", NULL, function_answer, function, MESSAGE_STRING, ),
    ONE(3, "start", NULL, function_answer, start, MESSAGE_DOUBLE, ),
    ONE(4, "step", NULL, function_answer, step, MESSAGE_DOUBLE, ),
    MANY(5, "series", NULL, function_answer, series, MESSAGE_MESSAGE,
         .message = &function_series_message),
};
const struct message function_answer_message =
    MESSAGE(struct function_answer, function_answer_fields);

static const struct message_field stats_answer_fields[] = {
    ONE(1, "dataIngested", "data_ingested", stats_answer, ingested, MESSAGE_BOOL, ),
    ONE(2, "oldestProfileTime", "oldest_profile_time", stats_answer, oldest, MESSAGE_INT, ),
    ONE(3, "newestProfileTime", "newest_profile_time", stats_answer, newest, MESSAGE_INT, ),
};
const struct message stats_answer_message = MESSAGE(struct stats_answer, stats_answer_fields);
