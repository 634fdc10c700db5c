// Reads one source and decodes it.
#include "cli/source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "symbol/mapped_file.h"

struct contents {
    uint8_t *p;
    size_t n;
    bool mapped;
};

size_t source_byte_limit(void)
{
    const char *mib = getenv("KILN_MAX_MIB");
    int64_t n;
    if (mib && str_to_i64(str_from(mib), &n) && n > 0 && n < INT64_MAX >> 20)
        return (size_t)n << 20;
    return (size_t)1 << 30;
}

struct arena *source_arena_new(void)
{
    size_t limit = source_byte_limit();
    return arena_new(limit < SIZE_MAX / 8 ? limit * 8 : 0);
}

static int read_stream(int fd, struct contents *bytes, struct err *e)
{
    size_t cap = 0, limit = source_byte_limit();
    for (;;) {
        if (bytes->n == cap) {
            cap = cap ? cap * 2 : 65536;
            uint8_t *p = realloc(bytes->p, cap);
            if (!p)
                return err_set(e, "out of memory");
            bytes->p = p;
        }
        ssize_t n = read(fd, bytes->p + bytes->n, cap - bytes->n);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_set(e, "%s", strerror(errno));
        if (n == 0)
            return 0;
        bytes->n += (size_t)n;
        if (bytes->n > limit)
            return err_set(e, "more than %zu MiB; set KILN_MAX_MIB to allow more", limit >> 20);
    }
}

static int read_contents(const char *name, struct contents *bytes, struct err *e)
{
    *bytes = (struct contents){0};
    bool is_stdin = strcmp(name, "-") == 0;
    int fd = is_stdin ? STDIN_FILENO : open(name, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_set(e, "%s", strerror(errno));
    struct stat st;
    int result = 0;
    if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode)) {
        result = err_set(e, "is a directory; expected a file");
    } else if (!is_stdin && S_ISREG(st.st_mode) && st.st_size > 0) {
        // Guarded: if the file is truncated meanwhile, its end reads as zeros.
        void *p = mapped_file_open(fd, (size_t)st.st_size);
        if (!p)
            result = err_set(e, "%s", strerror(errno));
        else
            *bytes = (struct contents){p, (size_t)st.st_size, true};
    } else {
        result = read_stream(fd, bytes, e);
    }
    if (!is_stdin)
        close(fd);
    return result;
}

static void contents_fini(struct contents *bytes)
{
    if (bytes->mapped)
        mapped_file_close(bytes->p, bytes->n);
    else
        free(bytes->p);
    *bytes = (struct contents){0};
}

struct model_profile *source_decode(const uint8_t *data, size_t n, struct arena *arena,
                                    const struct codec_parallel *parallel,
                                    enum codec_format *format, struct err *e)
{
    static const char perf_magic[] = "PERFILE2";
    if (n >= 8 && memcmp(data, perf_magic, 8) == 0) {
        err_set(e, "this is perf.data; convert it with `perf script` first");
        return NULL;
    }
    struct codec_limits limits = {.inflated = source_byte_limit()};
    return codec_read_parallel(arena, data, n, &limits, parallel, format, e);
}

struct model_profile *source_read_file(const char *name, struct arena *arena,
                                       const struct codec_parallel *parallel,
                                       enum codec_format *format, struct err *e)
{
    struct contents bytes;
    struct model_profile *p = NULL;
    if (read_contents(name, &bytes, e) == 0) {
        struct codec_parallel here = *parallel;
        here.is_mapped_file = bytes.mapped;
        // Other bytes do not outlive this function.
        here.keeps_encoded &= bytes.mapped;
        p = source_decode(bytes.p, bytes.n, arena, &here, format, e);
    }
    // The mapping of a profile that stays encoded lives as long as the process.
    if (!p || !p->stream)
        contents_fini(&bytes);
    return p;
}
