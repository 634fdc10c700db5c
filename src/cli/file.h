// Writing a profile to a file in a format that its name tells.
#pragma once

#include "cli/config.h"
#include "codec/codec.h"

enum file_packing { FILE_PLAIN, FILE_GZIP, FILE_ZSTD };

struct file_format {
    enum codec_format format;
    enum file_packing packing;
};

// From the end of the name, or from to ("folded", ...) if that is not empty. "-" without
// to is pprof. -1 with e filled if neither tells.
int file_format_of(const char *name, const char *to, struct file_format *f, struct err *e);

// Writes p to the file name ("-": standard output, which must not be a terminal unless the
// format is text). config names the sample type for formats that have one. A file that
// could not be written whole is removed.
int file_write(const struct model_profile *p, const char *name, struct file_format f,
               const struct config *config, struct arena *arena, struct err *e);
