// OTLP profiles: JSON if the first byte is {, else protocol buffers.
#include "codec/otlp.h"
#include "reader.h"

static bool is_json;

static struct model_profile *read_first(struct arena *arena, const uint8_t *data, size_t n,
                                        struct err *e)
{
    struct otlp_profile *profiles;
    size_t n_profiles;
    if (otlp_read(arena, data, n, is_json, &profiles, &n_profiles, e))
        return NULL;
    for (size_t i = 1; i < n_profiles; i++)
        fuzz_check(profiles[i].profile);
    if (!n_profiles)
        err_set(e, "no profiles");
    return n_profiles ? profiles[0].profile : NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    is_json = n && data[0] == '{';
    // Strings may point into the request's bytes, which must outlive the profile.
    struct arena *arena = arena_new((size_t)256 << 20);
    struct err e = {.message = ""};
    struct model_profile *p = read_first(arena, data, n, &e);
    fuzz_require(p || e.message[0]);
    if (p)
        fuzz_check(p);
    arena_free(arena);
    return 0;
}
