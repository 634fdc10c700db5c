#include "codec/otlp_message.h"

// ONE describes a scalar or a message, MANY a list. Fields with number 0 exist only in JSON, fields
// with an empty name only in protocol buffers.
#define ONE(number, json, name, of, member, kind, ...)                               \
    {                                                                                \
        number, json, name, kind, .offset = offsetof(struct of, member), __VA_ARGS__ \
    }
#define MANY(number, json, name, of, member, kind, ...)                                    \
    {                                                                                      \
        number, json, name, kind, true, .offset = offsetof(struct of, member), __VA_ARGS__ \
    }

static const struct message value_message; // declared here because an array contains values

static const struct message_field array_fields[] = {
    MANY(1, "values", NULL, otlp_array, values, MESSAGE_MESSAGE, .message = &value_message),
};
static const struct message array_message = MESSAGE(struct otlp_array, array_fields);

static const struct message_field value_fields[] = {
    ONE(1, "stringValue", "string_value", otlp_value, string, MESSAGE_STRING, ),
    ONE(2, "boolValue", "bool_value", otlp_value, boolean, MESSAGE_BOOL, ),
    ONE(3, "intValue", "int_value", otlp_value, integer, MESSAGE_INT, ),
    ONE(4, "doubleValue", "double_value", otlp_value, real, MESSAGE_DOUBLE, ),
    ONE(5, "arrayValue", "array_value", otlp_value, array, MESSAGE_MESSAGE,
        .message = &array_message),
    ONE(7, "bytesValue", "bytes_value", otlp_value, bytes, MESSAGE_BYTES, ),
    ONE(8, "stringValueStrindex", "string_value_strindex", otlp_value, strindex, MESSAGE_INT, ),
};
static const struct message value_message = MESSAGE(struct otlp_value, value_fields);

static const struct message_field key_value_fields[] = {
    ONE(1, "key", NULL, otlp_key_value, key, MESSAGE_STRING, ),
    ONE(2, "value", NULL, otlp_key_value, value, MESSAGE_MESSAGE, .message = &value_message),
    ONE(3, "keyStrindex", "key_strindex", otlp_key_value, key_strindex, MESSAGE_INT, ),
};
static const struct message key_value_message = MESSAGE(struct otlp_key_value, key_value_fields);

static const struct message_field resource_fields[] = {
    MANY(1, "attributes", NULL, otlp_resource, attributes, MESSAGE_MESSAGE,
         .message = &key_value_message),
};
static const struct message resource_message = MESSAGE(struct otlp_resource, resource_fields);

static const struct message_field scope_fields[] = {
    MANY(3, "attributes", NULL, otlp_resource, attributes, MESSAGE_MESSAGE,
         .message = &key_value_message),
};
static const struct message scope_message = MESSAGE(struct otlp_resource, scope_fields);

static const struct message_field mapping_fields[] = {
    ONE(1, "memoryStart", "memory_start", otlp_mapping, start, MESSAGE_INT, ),
    ONE(2, "memoryLimit", "memory_limit", otlp_mapping, limit, MESSAGE_INT, ),
    ONE(3, "fileOffset", "file_offset", otlp_mapping, offset, MESSAGE_INT, ),
    ONE(4, "filenameStrindex", "filename_strindex", otlp_mapping, filename, MESSAGE_INT, ),
    MANY(5, "attributeIndices", "attribute_indices", otlp_mapping, attributes, MESSAGE_INT, ),
};
static const struct message mapping_message = MESSAGE(struct otlp_mapping, mapping_fields);

static const struct message_field line_fields[] = {
    ONE(1, "functionIndex", "function_index", otlp_line, function, MESSAGE_INT, ),
    ONE(2, "line", NULL, otlp_line, line, MESSAGE_INT, ),
    ONE(3, "column", NULL, otlp_line, column, MESSAGE_INT, ),
};
static const struct message line_message = MESSAGE(struct otlp_line, line_fields);

static const struct message_field location_fields[] = {
    ONE(1, "mappingIndex", "mapping_index", otlp_location, mapping, MESSAGE_INT, ),
    ONE(2, "address", NULL, otlp_location, address, MESSAGE_INT, ),
    MANY(3, "lines", NULL, otlp_location, lines, MESSAGE_MESSAGE, .message = &line_message),
};
static const struct message location_message = MESSAGE(struct otlp_location, location_fields);

static const struct message_field function_fields[] = {
    ONE(1, "nameStrindex", "name_strindex", otlp_function, name, MESSAGE_INT, ),
    ONE(2, "systemNameStrindex", "system_name_strindex", otlp_function, system_name, MESSAGE_INT, ),
    ONE(3, "filenameStrindex", "filename_strindex", otlp_function, filename, MESSAGE_INT, ),
    ONE(4, "startLine", "start_line", otlp_function, start_line, MESSAGE_INT, ),
};
static const struct message function_message = MESSAGE(struct otlp_function, function_fields);

static const struct message_field link_fields[] = {
    ONE(1, "traceId", "trace_id", otlp_link, trace_id, MESSAGE_HEX, ),
    ONE(2, "spanId", "span_id", otlp_link, span_id, MESSAGE_HEX, ),
};
static const struct message link_message = MESSAGE(struct otlp_link, link_fields);

static const struct message_field indexed_fields[] = {
    ONE(1, "keyStrindex", "key_strindex", otlp_indexed, key, MESSAGE_INT, ),
    ONE(2, "value", NULL, otlp_indexed, value, MESSAGE_MESSAGE, .message = &value_message),
};
static const struct message indexed_message = MESSAGE(struct otlp_indexed, indexed_fields);

static const struct message_field stack_fields[] = {
    MANY(1, "locationIndices", "location_indices", otlp_stack, locations, MESSAGE_INT, ),
};
static const struct message stack_message = MESSAGE(struct otlp_stack, stack_fields);

static const struct message_field type_fields[] = {
    ONE(1, "typeStrindex", "type_strindex", otlp_type, type, MESSAGE_INT, ),
    ONE(2, "unitStrindex", "unit_strindex", otlp_type, unit, MESSAGE_INT, ),
};
static const struct message type_message = MESSAGE(struct otlp_type, type_fields);

static const struct message_field sample_fields[] = {
    ONE(1, "stackIndex", "stack_index", otlp_sample, stack, MESSAGE_INT, ),
    MANY(2, "", NULL, otlp_sample, two, MESSAGE_INT, ),
    MANY(3, "", NULL, otlp_sample, three, MESSAGE_INT, ),
    MANY(4, "", NULL, otlp_sample, four, MESSAGE_INT, ),
    MANY(5, "timestampsUnixNano", "timestamps_unix_nano", otlp_sample, timestamps, MESSAGE_INT,
         .fixed = true),
    MANY(0, "values", NULL, otlp_sample, values, MESSAGE_INT, ),
    MANY(0, "attributeIndices", "attribute_indices", otlp_sample, attributes, MESSAGE_INT, ),
    ONE(0, "linkIndex", "link_index", otlp_sample, link, MESSAGE_INT, ),
};
static const struct message sample_message = MESSAGE(struct otlp_sample, sample_fields);

static const struct message_field profile_fields[] = {
    ONE(1, "sampleType", "sample_type", otlp_raw_profile, sample_type, MESSAGE_MESSAGE,
        .message = &type_message),
    MANY(2, "samples", NULL, otlp_raw_profile, samples, MESSAGE_MESSAGE,
         .message = &sample_message),
    ONE(3, "timeUnixNano", "time_unix_nano", otlp_raw_profile, time, MESSAGE_INT, ),
    ONE(4, "durationNano", "duration_nano", otlp_raw_profile, duration, MESSAGE_INT, ),
    ONE(5, "periodType", "period_type", otlp_raw_profile, period_type, MESSAGE_MESSAGE,
        .message = &type_message),
    ONE(6, "period", NULL, otlp_raw_profile, period, MESSAGE_INT, ),
};
static const struct message profile_message = MESSAGE(struct otlp_raw_profile, profile_fields);

static const struct message_field scope_profiles_fields[] = {
    ONE(1, "scope", NULL, otlp_scope_profiles, scope, MESSAGE_MESSAGE, .message = &scope_message),
    MANY(2, "profiles", NULL, otlp_scope_profiles, profiles, MESSAGE_MESSAGE,
         .message = &profile_message),
};
static const struct message scope_profiles_message =
    MESSAGE(struct otlp_scope_profiles, scope_profiles_fields);

static const struct message_field resource_profiles_fields[] = {
    ONE(1, "resource", NULL, otlp_resource_profiles, resource, MESSAGE_MESSAGE,
        .message = &resource_message),
    MANY(2, "scopeProfiles", "scope_profiles", otlp_resource_profiles, scopes, MESSAGE_MESSAGE,
         .message = &scope_profiles_message),
};
static const struct message resource_profiles_message =
    MESSAGE(struct otlp_resource_profiles, resource_profiles_fields);

static const struct message_field dictionary_fields[] = {
    MANY(1, "mappingTable", "mapping_table", otlp_dictionary, mappings, MESSAGE_MESSAGE,
         .message = &mapping_message),
    MANY(2, "locationTable", "location_table", otlp_dictionary, locations, MESSAGE_MESSAGE,
         .message = &location_message),
    MANY(3, "functionTable", "function_table", otlp_dictionary, functions, MESSAGE_MESSAGE,
         .message = &function_message),
    MANY(4, "linkTable", "link_table", otlp_dictionary, links, MESSAGE_MESSAGE,
         .message = &link_message),
    MANY(5, "stringTable", "string_table", otlp_dictionary, strings, MESSAGE_STRING, ),
    MANY(6, "attributeTable", "attribute_table", otlp_dictionary, attributes, MESSAGE_MESSAGE,
         .message = &indexed_message),
    MANY(7, "stackTable", "stack_table", otlp_dictionary, stacks, MESSAGE_MESSAGE,
         .message = &stack_message),
};
static const struct message dictionary_message = MESSAGE(struct otlp_dictionary, dictionary_fields);

static const struct message_field otlp_request_fields[] = {
    MANY(1, "resourceProfiles", "resource_profiles", otlp_request, resources, MESSAGE_MESSAGE,
         .message = &resource_profiles_message),
    ONE(2, "dictionary", NULL, otlp_request, dictionary, MESSAGE_MESSAGE,
        .message = &dictionary_message),
};
const struct message otlp_request_message = MESSAGE(struct otlp_request, otlp_request_fields);
