// The parameters of /ingest: a name with labels, and times in several notations.
#pragma once

#include "base/arena.h"
#include "store/store.h"

struct ingest_name {
    struct str app; // the text before the labels
    struct store_label *labels;
    size_t n;
};

// `app.cpu{key=value,...}`. -1 with e filled.
int ingest_name_parse(struct str text, struct arena *arena, struct ingest_name *name,
                      struct err *e);

// 10 digits are seconds, 13 milliseconds, 16 microseconds, 19 nanoseconds, 8 a date; `now-1h30min`.
// What is none of them is now, as it is in Pyroscope, and what is before 1970 is its beginning.
// False: the number does not fit, as it is after 2262.
bool ingest_time(struct str text, int64_t now, int64_t *time);

// The type that the last part of an application's name tells (`.cpu`, `.alloc_space`, ...);
// without a dot it is cpu.
struct ingest_type {
    const char *metric, *type, *unit;
    bool is_time; // scaled by the sample rate
};
// *app is cut by the suffix. NULL if there is no such type.
const struct ingest_type *ingest_type(struct str *app);
