// Unpacking of sections. zlib is linked; zstd and xz are loaded when a section needs them
// and the caller allows it, so that a service carries neither.
#include <dlfcn.h>
#include <elf.h>
#include <stdlib.h>
#include <zlib.h>

#include "symbol/elf_internal.h"

#ifndef ELFCOMPRESS_ZSTD
#define ELFCOMPRESS_ZSTD 2
#endif

static bool inflate_zlib(struct bytes in, uint8_t *out, size_t n)
{
    z_stream z = {.next_in = (Bytef *)in.p, .next_out = out};
    size_t left_in = in.n, left_out = n;
    const size_t step = 1u << 30; // avail_ are 32 bits wide
    if (inflateInit(&z) != Z_OK)
        return false;
    int result = Z_OK;
    while (result == Z_OK) {
        if (z.avail_in == 0 && left_in) {
            z.avail_in = (uInt)(left_in < step ? left_in : step);
            left_in -= z.avail_in;
        }
        if (z.avail_out == 0 && left_out) {
            z.avail_out = (uInt)(left_out < step ? left_out : step);
            left_out -= z.avail_out;
        }
        result = inflate(&z, Z_NO_FLUSH);
    }
    bool whole = result == Z_STREAM_END && left_out == 0 && z.avail_out == 0;
    inflateEnd(&z);
    return whole;
}

static bool inflate_zstd(struct bytes in, uint8_t *out, size_t n)
{
    static size_t (*decompress)(void *, size_t, const void *, size_t);
    if (!decompress) {
        void *library = dlopen("libzstd.so.1", RTLD_NOW | RTLD_LOCAL);
        if (library)
            *(void **)&decompress = dlsym(library, "ZSTD_decompress");
    }
    return decompress && decompress(out, n, in.p, in.n) == n;
}

bool inflate_section(unsigned kind, struct bytes in, uint8_t *out, size_t n, unsigned flags)
{
    if (kind == ELFCOMPRESS_ZLIB)
        return inflate_zlib(in, out, n);
    if (kind == ELFCOMPRESS_ZSTD && (flags & ELF_LOAD_LIBRARIES))
        return inflate_zstd(in, out, n);
    return false;
}

bool inflate_xz(struct bytes in, size_t limit, struct bytes *out, unsigned flags)
{
    // lzma_stream_buffer_decode of liblzma 5: (memlimit, flags, allocator, in, in_pos,
    // in_size, out, out_pos, out_size); LZMA_OK is 0, LZMA_BUF_ERROR 10.
    static int (*decode)(uint64_t *, uint32_t, const void *, const uint8_t *, size_t *, size_t,
                         uint8_t *, size_t *, size_t);
    if (!(flags & ELF_LOAD_LIBRARIES))
        return false;
    if (!decode) {
        void *library = dlopen("liblzma.so.5", RTLD_NOW | RTLD_LOCAL);
        if (library)
            *(void **)&decode = dlsym(library, "lzma_stream_buffer_decode");
    }
    if (!decode)
        return false;
    for (size_t size = in.n * 8 + 4096; size <= limit; size *= 4) {
        uint8_t *p = malloc(size);
        if (!p)
            return false;
        uint64_t memory = (uint64_t)256 << 20;
        size_t in_at = 0, out_at = 0;
        int result = decode(&memory, 0, NULL, in.p, &in_at, in.n, p, &out_at, size);
        if (result == 0) {
            *out = (struct bytes){p, out_at};
            return true;
        }
        free(p);
        if (result != 10)
            return false;
    }
    return false;
}

uint32_t inflate_crc32(struct bytes b)
{
    uLong crc = crc32(0, NULL, 0);
    while (b.n) {
        uInt part = b.n < (1u << 30) ? (uInt)b.n : 1u << 30;
        crc = crc32(crc, b.p, part);
        b.p += part;
        b.n -= part;
    }
    return (uint32_t)crc;
}
