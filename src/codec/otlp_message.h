// C structs and field tables of the messages that otlp.h reads.
#pragma once

#include "codec/message.h"

struct otlp_value {
    struct str string, bytes;
    bool boolean;
    int64_t integer, strindex;
    double real;
    struct otlp_array *array;
};

struct otlp_array {
    struct message_list values;
};

struct otlp_key_value {
    struct str key;
    struct otlp_value *value;
    int64_t key_strindex;
};

struct otlp_resource { // also for InstrumentationScope
    struct message_list attributes;
};

struct otlp_mapping {
    int64_t start, limit, offset, filename;
    struct message_list attributes;
};

struct otlp_line {
    int64_t function, line, column;
};

struct otlp_location {
    int64_t mapping, address;
    struct message_list lines;
};

struct otlp_function {
    int64_t name, system_name, filename, start_line;
};

struct otlp_link {
    struct str trace_id, span_id;
};

struct otlp_indexed {
    int64_t key;
    struct otlp_value *value;
};

struct otlp_stack {
    struct message_list locations;
};

struct otlp_type {
    int64_t type, unit;
};

// The version decides what fields 2 to 4 mean. JSON fields have names.
struct otlp_sample {
    int64_t stack, link;
    struct message_list two, three, four, timestamps, values, attributes;
};

struct otlp_raw_profile {
    struct otlp_type *sample_type, *period_type;
    struct message_list samples;
    int64_t time, duration, period;
};

struct otlp_scope_profiles {
    struct otlp_resource *scope;
    struct message_list profiles;
};

struct otlp_resource_profiles {
    struct otlp_resource *resource;
    struct message_list scopes;
};

struct otlp_dictionary {
    struct message_list mappings, locations, functions, links, strings, attributes, stacks;
};

struct otlp_request {
    struct message_list resources;
    struct otlp_dictionary *dictionary;
};

extern const struct message otlp_request_message;
