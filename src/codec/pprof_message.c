#include "codec/pprof_message.h"

// ONE describes a scalar, MANY a list of scalars, OF a message or a list of messages.
#define ONE(number, json, of, member, kind)                                        \
    {                                                                              \
        number, json, #member, kind, .offset = offsetof(struct pprof_##of, member) \
    }
#define MANY(number, json, of, member, kind)                                             \
    {                                                                                    \
        number, json, #member, kind, true, .offset = offsetof(struct pprof_##of, member) \
    }
#define OF(number, json, of, member, many, element)                                      \
    {                                                                                    \
        number, json, #member, MESSAGE_MESSAGE, many,                                    \
            .offset = offsetof(struct pprof_##of, member), .message = &element##_message \
    }

static const struct message_field value_type_fields[] = {
    ONE(1, "type", value_type, type, MESSAGE_INT),
    ONE(2, "unit", value_type, unit, MESSAGE_INT),
};
static const struct message value_type_message =
    MESSAGE(struct pprof_value_type, value_type_fields);

static const struct message_field label_fields[] = {
    ONE(1, "key", label, key, MESSAGE_INT),
    ONE(2, "str", label, str, MESSAGE_INT),
    ONE(3, "num", label, num, MESSAGE_INT),
    ONE(4, "numUnit", label, num_unit, MESSAGE_INT),
};
static const struct message label_message = MESSAGE(struct pprof_label, label_fields);

static const struct message_field sample_fields[] = {
    MANY(1, "locationId", sample, location_id, MESSAGE_INT),
    MANY(2, "value", sample, value, MESSAGE_INT),
    OF(3, "label", sample, label, true, label),
};
static const struct message sample_message = MESSAGE(struct pprof_sample, sample_fields);

static const struct message_field mapping_fields[] = {
    ONE(1, "id", mapping, id, MESSAGE_INT),
    ONE(2, "memoryStart", mapping, memory_start, MESSAGE_INT),
    ONE(3, "memoryLimit", mapping, memory_limit, MESSAGE_INT),
    ONE(4, "fileOffset", mapping, file_offset, MESSAGE_INT),
    ONE(5, "filename", mapping, filename, MESSAGE_INT),
    ONE(6, "buildId", mapping, build_id, MESSAGE_INT),
    ONE(7, "hasFunctions", mapping, has_functions, MESSAGE_BOOL),
    ONE(8, "hasFilenames", mapping, has_filenames, MESSAGE_BOOL),
    ONE(9, "hasLineNumbers", mapping, has_line_numbers, MESSAGE_BOOL),
    ONE(10, "hasInlineFrames", mapping, has_inline_frames, MESSAGE_BOOL),
};
static const struct message mapping_message = MESSAGE(struct pprof_mapping, mapping_fields);

static const struct message_field line_fields[] = {
    ONE(1, "functionId", line, function_id, MESSAGE_INT),
    ONE(2, "line", line, line, MESSAGE_INT),
    ONE(3, "column", line, column, MESSAGE_INT),
};
static const struct message line_message = MESSAGE(struct pprof_line, line_fields);

static const struct message_field location_fields[] = {
    ONE(1, "id", location, id, MESSAGE_INT),
    ONE(2, "mappingId", location, mapping_id, MESSAGE_INT),
    ONE(3, "address", location, address, MESSAGE_INT),
    OF(4, "line", location, line, true, line),
    ONE(5, "isFolded", location, is_folded, MESSAGE_BOOL),
};
static const struct message location_message = MESSAGE(struct pprof_location, location_fields);

static const struct message_field function_fields[] = {
    ONE(1, "id", function, id, MESSAGE_INT),
    ONE(2, "name", function, name, MESSAGE_INT),
    ONE(3, "systemName", function, system_name, MESSAGE_INT),
    ONE(4, "filename", function, filename, MESSAGE_INT),
    ONE(5, "startLine", function, start_line, MESSAGE_INT),
};
static const struct message function_message = MESSAGE(struct pprof_function, function_fields);

static const struct message_field profile_fields[] = {
    OF(1, "sampleType", profile, sample_type, true, value_type),
    OF(2, "sample", profile, sample, true, sample),
    OF(3, "mapping", profile, mapping, true, mapping),
    OF(4, "location", profile, location, true, location),
    OF(5, "function", profile, function, true, function),
    MANY(6, "stringTable", profile, string_table, MESSAGE_STRING),
    ONE(7, "dropFrames", profile, drop_frames, MESSAGE_INT),
    ONE(8, "keepFrames", profile, keep_frames, MESSAGE_INT),
    ONE(9, "timeNanos", profile, time_nanos, MESSAGE_INT),
    ONE(10, "durationNanos", profile, duration_nanos, MESSAGE_INT),
    OF(11, "periodType", profile, period_type, false, value_type),
    ONE(12, "period", profile, period, MESSAGE_INT),
    MANY(13, "comment", profile, comment, MESSAGE_INT),
    ONE(14, "defaultSampleType", profile, default_sample_type, MESSAGE_INT),
    ONE(15, "docUrl", profile, doc_url, MESSAGE_INT),
};
const struct message pprof_message = MESSAGE(struct pprof_profile, profile_fields);
