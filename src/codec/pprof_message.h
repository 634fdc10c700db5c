// google.v1.Profile as a message, for code that needs its raw fields: JSON responses, and profiles
// that need repair before they can be read.
#pragma once

#include "codec/message.h"

struct pprof_value_type {
    int64_t type, unit;
};

struct pprof_label {
    int64_t key, str, num, num_unit;
};

struct pprof_sample {
    struct message_list location_id, value, label;
};

struct pprof_mapping {
    int64_t id, memory_start, memory_limit, file_offset, filename, build_id;
    bool has_functions, has_filenames, has_line_numbers, has_inline_frames;
};

struct pprof_line {
    int64_t function_id, line, column;
};

struct pprof_location {
    int64_t id, mapping_id, address;
    struct message_list line;
    bool is_folded;
};

struct pprof_function {
    int64_t id, name, system_name, filename, start_line;
};

struct pprof_profile {
    struct message_list sample_type, sample, mapping, location, function, string_table, comment;
    int64_t drop_frames, keep_frames, time_nanos, duration_nanos, period, default_sample_type,
        doc_url;
    struct pprof_value_type *period_type;
};

extern const struct message pprof_message;
