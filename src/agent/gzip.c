#include "agent/gzip.h"

#include <errno.h>
#include <zlib.h>

int gzip_write(struct out *out, const void *data, size_t n, struct err *e)
{
    z_stream z = {0};
    if (deflateInit2(&z, 3, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        return err_set(e, "no memory to compress a profile");
    unsigned char buffer[16384];
    const unsigned char *p = data;
    int state = Z_OK;
    while (state != Z_STREAM_END) {
        if (z.avail_in == 0) {
            size_t part = n < 1u << 30 ? n : 1u << 30;
            z.next_in = (unsigned char *)p;
            z.avail_in = (unsigned)part;
            p += part;
            n -= part;
        }
        z.next_out = buffer;
        z.avail_out = sizeof buffer;
        state = deflate(&z, n ? Z_NO_FLUSH : Z_FINISH);
        out_write(out, buffer, sizeof buffer - z.avail_out);
    }
    deflateEnd(&z);
    return 0;
}

bool gzip_is(const void *data, size_t n)
{
    const unsigned char *p = data;
    return n >= 2 && p[0] == 0x1f && p[1] == 0x8b;
}

int gzip_read(struct out *out, const void *data, size_t n, size_t limit, struct err *e)
{
    z_stream z = {.next_in = (unsigned char *)data};
    if (inflateInit2(&z, 15 + 16) != Z_OK)
        return err_set(e, "no memory to read a profile");
    unsigned char buffer[16384];
    int state = Z_OK;
    while (state == Z_OK && out->n <= limit && !out->error) {
        if (z.avail_in == 0) {
            size_t part = n < 1u << 30 ? n : 1u << 30;
            z.avail_in = (unsigned)part;
            n -= part;
        }
        z.next_out = buffer;
        z.avail_out = sizeof buffer;
        state = inflate(&z, Z_NO_FLUSH);
        out_write(out, buffer, sizeof buffer - z.avail_out);
    }
    inflateEnd(&z);
    if (out->error == ENOMEM)
        return err_set(e, "no memory to read a profile");
    if (out->n > limit || out->error)
        return err_set(e, "the profile is larger than %zu MiB", limit >> 20);
    return state == Z_STREAM_END ? 0 : err_set(e, "the profile's gzip is broken or cut off");
}
