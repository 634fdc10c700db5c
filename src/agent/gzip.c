#include "agent/gzip.h"

#include <errno.h>
#include <stdint.h>
#include <zlib.h>

static void write_word(struct out *out, uint32_t word)
{
    unsigned char bytes[] = {word & 0xff, word >> 8 & 0xff, word >> 16 & 0xff, word >> 24};
    out_write(out, bytes, sizeof bytes);
}

// Writes the header and the checksum itself: zlib calls its own crc32 by name for them, and a
// program may export another function of that name.
int gzip_write(struct out *out, const void *data, size_t n, struct err *e)
{
    static const unsigned char header[] = {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3};
    z_stream z = {0};
    if (deflateInit2(&z, 3, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        return err_set(e, "no memory to compress a profile");
    unsigned char buffer[16384];
    const unsigned char *p = data;
    uint32_t crc = (uint32_t)crc32_z(0, data, n), size = (uint32_t)n;
    int state = Z_OK;
    out_write(out, header, sizeof header);
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
    write_word(out, crc);
    write_word(out, size);
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
