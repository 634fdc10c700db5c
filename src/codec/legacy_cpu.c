#include "codec/legacy.h"

// The binary profile of the gperftools CPU profiler. It consists of words of 32 or 64 bits in
// either byte order: a header of five words, then samples (count, depth, addresses) up to a sample
// 0, 1, 0. The memory map follows as text.
struct words {
    const uint8_t *at, *end;
    bool is_cut; // next_word was called where no complete word was left
    uint8_t size;
    bool is_big_endian;
};

// Returns 0 at the end, and sets is_cut.
static uint64_t next_word(struct words *w)
{
    if ((size_t)(w->end - w->at) < w->size) {
        w->is_cut = true;
        w->at = w->end;
        return 0;
    }
    uint64_t value = 0;
    for (unsigned i = 0; i < w->size; i++)
        value |= (uint64_t)w->at[i] << 8 * (w->is_big_endian ? w->size - 1u - i : i);
    w->at += w->size;
    return value;
}

static enum legacy_result legacy_cpu_read_samples(struct legacy *l, struct words *w,
                                                  uint64_t adjust)
{
    const int64_t period = l->b.p->period;
    while (w->at < w->end) {
        uint64_t count = next_word(w);
        uint64_t depth = next_word(w);
        if (w->is_cut || depth > (uint64_t)(w->end - w->at) / 4)
            return LEGACY_NOT;
        // A word that is cut off at the end reads as 0.
        uint64_t leaf = depth ? next_word(w) : 0;
        if (count == 0 && depth == 1 && leaf == 0)
            break;
        if (depth)
            legacy_add_frame(l, leaf);
        for (uint64_t i = 1; i < depth; i++)
            legacy_add_frame(l, next_word(w) - adjust);
        legacy_add_sample(l, (int64_t[]){(int64_t)count, scan_mul((int64_t)count, period)});
    }
    return LEGACY_OK;
}

// If nearly all samples have the same second frame, the signal handler pushed it. Removes at most
// two such frames.
static void drop_handler_frames(struct legacy *l)
{
    struct model_profile *p = l->b.p;
    const size_t enough = p->n_samples - p->n_samples / 32;
    for (int round = 0; round < 2; round++) {
        size_t *count = arena_array(l->arena, p->n_locations, sizeof *count);
        uint32_t common = MODEL_NONE;
        for (size_t i = 0; i < p->n_samples; i++)
            if (p->stack_len[i] > 1 && ++count[model_stack(p, i)[1]] >= enough)
                common = model_stack(p, i)[1];
        if (common == MODEL_NONE)
            return;
        legacy_drop_second(l, common);
    }
}

static enum legacy_result legacy_cpu_read_profile(struct legacy *l, struct words *w,
                                                  uint64_t period, bool is_java)
{
    legacy_begin(l, STR("cpu"), STR("nanoseconds"), scan_mul((int64_t)period, 1000));
    model_build_type(&l->b, STR("samples"), STR("count"));
    model_build_type(&l->b, STR("cpu"), STR("nanoseconds"));
    // Frames after the leaf are return addresses, except in Java profiles.
    enum legacy_result result = legacy_cpu_read_samples(l, w, is_java ? 0 : 1);
    if (result != LEGACY_OK)
        return result;
    struct str rest = {(const char *)w->at, (size_t)(w->end - w->at)};
    if (is_java)
        return legacy_read_java_names(l, rest, 0);
    drop_handler_frames(l);
    // No header line precedes the memory map here.
    struct scan_lines lines = {.rest = rest, .line = STR("MAPPED_LIBRARIES:")};
    legacy_read_map(l, &lines);
    legacy_drop_repeated_leaf(l);
    return LEGACY_OK;
}

enum legacy_result legacy_read_cpu(struct legacy *l)
{
    static const struct {
        uint8_t size;
        bool is_big_endian;
    } words[] = {{4, false}, {4, true}, {8, false}, {8, true}};
    const uint8_t *data = (const uint8_t *)l->input.p;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        struct words w = {
            .at = data,
            .end = data + l->input.n,
            .size = words[i].size,
            .is_big_endian = words[i].is_big_endian,
        };
        uint64_t header[5];
        for (int k = 0; k < 5; k++)
            header[k] = next_word(&w);
        if (!w.is_cut && header[0] == 0 && header[1] == 3 && header[2] <= 1 && header[3] > 0 &&
            header[4] == 0)
            return legacy_cpu_read_profile(l, &w, header[3], header[2] == 1);
    }
    return LEGACY_NOT;
}
