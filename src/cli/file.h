// Writes a profile to a file in the format that its name implies.
#pragma once

#include "cli/config.h"
#include "codec/codec.h"

enum file_packing { FILE_PLAIN, FILE_GZIP, FILE_ZSTD };

struct file_format {
    enum codec_format format;
    enum file_packing packing;
};

// Determines the format from the end of the name, or from `to` ("folded", ...) if it is not empty.
// "-" without `to` is pprof. Returns -1 and fills e if the format is unknown.
int file_format_of(const char *name, const char *to, struct file_format *f, struct err *e);

// Writes p to the file name ("-": standard output, which must not be a terminal unless the format
// is text). config selects the sample type for formats that have only one. An incomplete file is
// removed.
int file_write(const struct model_profile *p, const char *name, struct file_format f,
               const struct config *config, struct arena *arena, struct err *e);
