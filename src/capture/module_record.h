// A module as stored in heap images and journals, in memory that may be shared with another
// process.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "unwind/unwind.h"

struct module_record {
    uint64_t start, end, file_offset;
    uint32_t n_path, n_build_id;
    char text[]; // the path, then the build id
};

static inline size_t module_record_path(const struct unwind_module *m)
{
    return strnlen(m->path, 4096);
}

static inline size_t module_record_size(const struct unwind_module *m)
{
    return sizeof(struct module_record) + module_record_path(m) + m->n_build_id;
}

static inline bool module_record_is(const struct module_record *r, const struct unwind_module *m)
{
    size_t n = module_record_path(m);
    return r->start == m->start && r->end == m->end && r->n_path == n &&
           r->n_build_id == m->n_build_id && memcmp(r->text, m->path, n) == 0 &&
           (m->n_build_id == 0 || memcmp(r->text + n, m->build_id, m->n_build_id) == 0);
}

// to must have module_record_size(m) bytes.
static inline void module_record_write(struct module_record *to, const struct unwind_module *m)
{
    size_t n = module_record_path(m);
    to->start = m->start;
    to->end = m->end;
    to->file_offset = m->file_offset;
    to->n_path = (uint32_t)n;
    to->n_build_id = m->n_build_id;
    memcpy(to->text, m->path, n);
    if (m->n_build_id)
        memcpy(to->text + n, m->build_id, m->n_build_id);
}
