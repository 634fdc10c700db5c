// Messages. A message from either encoding must be the same after writing and reading it again.
#include "codec/pprof_message.h"
#include "reader.h"

static struct str encode_message(struct arena *arena, const void *object, bool json)
{
    struct out out;
    out_init_arena(&out, arena);
    if (json)
        message_write_json(&pprof_message, object, &out);
    else
        message_write_proto(&pprof_message, object, &out);
    return out_result(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct arena *arena = arena_new((size_t)256 << 20);
    struct err e = {.message = ""};
    struct arena_trap trap;
    if (ARENA_TRY(arena, trap)) {
        arena_free(arena);
        return 0;
    }
    bool json = n && data[0] == '{';
    void *object = json ? message_read_json(&pprof_message, arena, data, n, &e)
                        : message_read_proto(&pprof_message, arena, data, n, &e);
    fuzz_require(object || e.message[0]);
    if (object) {
        struct str proto = encode_message(arena, object, false);
        for (int i = 0; i < 2; i++) {
            struct str text = encode_message(arena, object, i);
            void *again =
                i ? message_read_json(&pprof_message, arena, (const uint8_t *)text.p, text.n, &e)
                  : message_read_proto(&pprof_message, arena, (const uint8_t *)text.p, text.n, &e);
            fuzz_require(again != NULL);
            fuzz_require(str_eq(encode_message(arena, again, false), proto));
        }
    }
    arena_try_end(arena);
    arena_free(arena);
    return 0;
}
