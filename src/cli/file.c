#include "cli/file.h"

#include <errno.h>
#include <fcntl.h>
#include <libdeflate.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include "cli/view.h"

static const struct {
    const char *suffix;
    enum codec_format format;
} suffixes[] = {
    {".speedscope.json", CODEC_SPEEDSCOPE},
    {".speedscope", CODEC_SPEEDSCOPE},
    {".json", CODEC_JSON},
    {".csv", CODEC_CSV},
    {".folded", CODEC_FOLDED},
    {".collapsed", CODEC_FOLDED},
    {".txt", CODEC_FOLDED},
    {".callgrind", CODEC_CALLGRIND},
    {".pb", CODEC_PPROF},
    {".pprof", CODEC_PPROF},
    {".prof", CODEC_PPROF},
};

static bool cut_suffix(struct str *s, struct str suffix)
{
    if (!str_ends(*s, suffix))
        return false;
    s->n -= suffix.n;
    return true;
}

int file_format_of(const char *name, const char *to, struct file_format *f, struct err *e)
{
    struct str s = str_from(name);
    bool gzip = cut_suffix(&s, STR(".gz")),
         zstd = !gzip && (cut_suffix(&s, STR(".zst")) || cut_suffix(&s, STR(".zstd")));
    *f = (struct file_format){CODEC_AUTO, gzip ? FILE_GZIP : zstd ? FILE_ZSTD : FILE_PLAIN};
    size_t base = 0;
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] == '/')
            base = i + 1;
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes && !f->format; i++)
        if (str_ends(s, str_from(suffixes[i].suffix)))
            f->format = suffixes[i].format;
    if (!f->format && str_starts(str_from_to(s, base, s.n), STR("callgrind.out")))
        f->format = CODEC_CALLGRIND;
    bool raw = str_ends(s, STR(".pb"));
    if (*to)
        f->format = codec_format_from_name(str_from(to));
    else if (strcmp(name, "-") == 0)
        f->format = CODEC_PPROF;
    if (!f->format && (str_ends(s, STR(".svg")) || str_ends(s, STR(".html"))))
        return err_set(e, "%s: this command does not draw; use `kiln flame -o %s FILE`", name,
                       name);
    if (!f->format)
        return err_set(e,
                       "%s: unknown format; use .pb.gz, .folded, .speedscope.json, .callgrind, "
                       ".json, .csv, or --to=FORMAT; `kiln flame` writes .svg and .html",
                       name);
    // pprof files are gzipped by default.
    if (f->format == CODEC_PPROF && f->packing == FILE_PLAIN && !raw)
        f->packing = FILE_GZIP;
    return 0;
}

static int write_callgrind(const struct model_profile *p, const struct config *config,
                           struct arena *arena, struct out *out, struct err *e)
{
    struct report r;
    // The filters were applied already.
    struct config c = config_default();
    c.sample_index = config->sample_index;
    if (view_prepare(&r, p, view_command_find("callgrind"), NULL, &c, arena, NULL, e))
        return -1;
    return report_write(&r, out, e);
}

static int encode_profile(const struct model_profile *p, const char *name, enum codec_format format,
                          const struct config *config, struct arena *arena, struct out *out,
                          struct err *e)
{
    int type = 0;
    switch (format) {
    case CODEC_PPROF:
        return codec_write_pprof(p, out, e);
    case CODEC_FOLDED:
        type = model_type_index(p, str_from(config->sample_index), e);
        if (type >= 0)
            codec_write_folded(p, (uint32_t)type, out);
        return type < 0 ? -1 : 0;
    case CODEC_SPEEDSCOPE:
        codec_write_speedscope(p, str_from(strcmp(name, "-") ? name : "kiln"), out);
        return 0;
    case CODEC_CALLGRIND:
        return write_callgrind(p, config, arena, out, e);
    case CODEC_JSON:
        codec_write_json(p, out);
        return 0;
    case CODEC_CSV:
        codec_write_csv(p, out);
        return 0;
    default:
        return err_set(e, "cannot write format %s; kiln only reads it", codec_format_name(format));
    }
}

static int pack_output(struct out *raw, enum file_packing packing, struct out *out, struct err *e)
{
    struct libdeflate_compressor *gzip = NULL;
    uint8_t *packed = NULL;
    size_t bound, n = 0;
    if (packing == FILE_GZIP) {
        gzip = libdeflate_alloc_compressor(6);
        bound = gzip ? libdeflate_gzip_compress_bound(gzip, raw->n) : 0;
        packed = gzip ? malloc(bound) : NULL;
        n = packed ? libdeflate_gzip_compress(gzip, raw->p, raw->n, packed, bound) : 0;
    } else {
        bound = ZSTD_compressBound(raw->n);
        packed = malloc(bound);
        n = packed ? ZSTD_compress(packed, bound, raw->p, raw->n, 3) : 0;
        n = ZSTD_isError(n) ? 0 : n;
    }
    if (n)
        out_write(out, packed, n);
    free(packed);
    libdeflate_free_compressor(gzip);
    return n ? 0 : err_set(e, "out of memory while compressing");
}

static int write_profile_to_fd(int fd, const struct model_profile *p, const char *name,
                               struct file_format f, const struct config *config,
                               struct arena *arena, struct err *e)
{
    struct out out, raw;
    out_init_fd(&out, fd);
    out_init_memory(&raw, SIZE_MAX);
    int result = 0;
    if (f.format == CODEC_PPROF && f.packing == FILE_GZIP) {
        result = codec_write_pprof_gzip(p, &out, e);
    } else if (f.packing == FILE_PLAIN) {
        result = encode_profile(p, name, f.format, config, arena, &out, e);
    } else {
        result = encode_profile(p, name, f.format, config, arena, &raw, e);
        if (result == 0 && (out_finish(&raw, e) || pack_output(&raw, f.packing, &out, e)))
            result = -1;
    }
    if (out_finish(&out, result ? NULL : e))
        result = -1;
    out_fini(&raw);
    out_fini(&out);
    return result;
}

int file_write(const struct model_profile *p, const char *name, struct file_format f,
               const struct config *config, struct arena *arena, struct err *e)
{
    bool to_stdout = strcmp(name, "-") == 0;
    bool binary = f.format == CODEC_PPROF || f.packing != FILE_PLAIN;
    if (to_stdout && binary && isatty(STDOUT_FILENO))
        return err_set(e, "cannot write a profile to a terminal; name a file");
    int fd = to_stdout ? STDOUT_FILENO : open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0)
        return err_set(e, "%s: %s", name, strerror(errno));
    int result = write_profile_to_fd(fd, p, name, f, config, arena, e);
    if (to_stdout)
        return result;
    struct stat st;
    bool regular = fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
    if (close(fd) && result == 0)
        result = err_set(e, "%s: %s", name, strerror(errno));
    if (result && regular)
        unlink(name);
    return result;
}
