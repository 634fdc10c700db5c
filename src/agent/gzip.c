#include "agent/gzip.h"

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
