// Decompresses sections. zlib is linked. zstd and xz are loaded on demand if the caller allows it,
// so that a service loads neither.
#include <dlfcn.h>
#include <elf.h>
#include <stdlib.h>
#include <zlib.h>

#include "symbol/elf_internal.h"

#ifndef ELFCOMPRESS_ZSTD
#define ELFCOMPRESS_ZSTD 2
#endif

enum {
    STEP_BYTES = 1 << 30, // zlib counts in 32 bits
    PIECE_BYTES = 64 << 10,
};

// Takes the next bytes off b. Bytes of a view are copied to piece. Returns no bytes at the end, or
// if the file cannot be read.
static struct bytes next_input_piece(struct bytes *b, uint8_t *piece)
{
    size_t step = b->view ? PIECE_BYTES : STEP_BYTES;
    struct bytes next = {b->view ? piece : b->p, b->n < step ? b->n : step, NULL};
    if (b->view && !file_view_copy(b->view, (size_t)(b->p - b->view->p), piece, next.n))
        next.n = 0;
    b->p += next.n;
    b->n -= next.n;
    return next;
}

static bool inflate_zlib(struct bytes in, uint8_t *out, size_t n)
{
    z_stream z = {.next_out = out};
    uint8_t *piece = in.view ? malloc(PIECE_BYTES) : NULL;
    size_t left_out = n;
    const size_t step = STEP_BYTES;
    if ((in.view && !piece) || inflateInit(&z) != Z_OK) {
        free(piece);
        return false;
    }
    int result = Z_OK;
    while (result == Z_OK) {
        if (z.avail_in == 0 && in.n) {
            struct bytes next = next_input_piece(&in, piece);
            z.next_in = (Bytef *)next.p;
            z.avail_in = (uInt)next.n;
        }
        if (z.avail_out == 0 && left_out) {
            z.avail_out = (uInt)(left_out < step ? left_out : step);
            left_out -= z.avail_out;
        }
        result = inflate(&z, Z_NO_FLUSH);
    }
    bool whole = result == Z_STREAM_END && left_out == 0 && z.avail_out == 0;
    inflateEnd(&z);
    free(piece);
    return whole;
}

// The command and the server link libdeflate, which is two to three times as fast as zlib.
static bool inflate_libdeflate(struct bytes in, uint8_t *out, size_t n)
{
    void *(*create)(void);
    int (*decompress)(void *, const void *, size_t, void *, size_t, size_t *);
    void (*destroy)(void *);
    *(void **)&create = dlsym(RTLD_DEFAULT, "libdeflate_alloc_decompressor");
    *(void **)&decompress = dlsym(RTLD_DEFAULT, "libdeflate_zlib_decompress");
    *(void **)&destroy = dlsym(RTLD_DEFAULT, "libdeflate_free_decompressor");
    void *decompressor = create && decompress && destroy ? create() : NULL;
    bool done = decompressor && decompress(decompressor, in.p, in.n, out, n, NULL) == 0;
    if (decompressor)
        destroy(decompressor);
    return done;
}

static bool inflate_section_zstd(struct bytes in, uint8_t *out, size_t n)
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
    if (kind == ELFCOMPRESS_ZLIB && (flags & ELF_OWN_PROCESS) && !in.view &&
        inflate_libdeflate(in, out, n))
        return true;
    if (kind == ELFCOMPRESS_ZLIB)
        return inflate_zlib(in, out, n);
    if (kind == ELFCOMPRESS_ZSTD && (flags & ELF_OWN_PROCESS))
        return inflate_section_zstd(in, out, n);
    return false;
}

bool inflate_xz(struct bytes in, size_t limit, struct bytes *out, unsigned flags)
{
    // lzma_stream_buffer_decode of liblzma 5: (memlimit, flags, allocator, in, in_pos, in_size,
    // out, out_pos, out_size). LZMA_OK is 0, LZMA_BUF_ERROR is 10.
    static int (*decode)(uint64_t *, uint32_t, const void *, const uint8_t *, size_t *, size_t,
                         uint8_t *, size_t *, size_t);
    if (!(flags & ELF_OWN_PROCESS))
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
            *out = (struct bytes){p, out_at, NULL};
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
    uLong crc = 0; // crc32_z: a program may export another function called crc32
    uint8_t *piece = b.view ? malloc(PIECE_BYTES) : NULL;
    struct bytes next;
    while ((!b.view || piece) && b.n && (next = next_input_piece(&b, piece)).n)
        crc = crc32_z(crc, next.p, next.n);
    free(piece);
    return (uint32_t)crc;
}
