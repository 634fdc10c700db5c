#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "codec/pprof.h"
#include "codec/pprof_stream.h"
#include "codec/proto.h"
#include "model/stream.h"
#include "stacks.h"
#include "arena_fixture.h"

static void encode(const struct model_profile *p, struct out *out)
{
    struct err e = {.message = ""};
    out_init_arena(out, p->arena);
    assert_int_equal(codec_write_pprof(p, out, &e), 0);
}

// Several threads read the same profile, or find the same error.
static void streams_agree(uint8_t *data, size_t n, const struct model_profile *p,
                          const struct err *e)
{
    for (unsigned threads = 1; threads <= 3; threads += 2) {
        for (int keeps_encoded = 0; keeps_encoded < 2; keeps_encoded++) {
            struct arena *own = arena_new(0);
            struct pprof_stream_options options = {.threads = threads,
                                                   .keeps_encoded = keeps_encoded};
            struct model_profile *read = NULL;
            struct err other = {.message = ""};
            parallel_allow(threads);
            pprof_read_stream(own, data, n, &options, &read, &other);
            assert_int_equal(read != NULL, p != NULL);
            if (!p)
                assert_string_equal(other.message, e->message);
            if (p) {
                struct out ours, theirs;
                assert_int_equal(read->n_samples, p->n_samples);
                encode(p, &theirs);
                encode(model_decode_samples(read, own), &ours);
                assert_int_equal(ours.n, theirs.n);
                assert_memory_equal(ours.p, theirs.p, ours.n);
            }
            parallel_allow(1);
            arena_free(own);
        }
    }
}

// Reads a copy of its exact size, so that a sanitizer sees every byte read past its end.
static struct model_profile *read_bytes(const void *data, size_t n, struct err *e)
{
    uint8_t *copy = malloc(n ? n : 1);
    memcpy(copy, data, n);
    struct model_profile *p = codec_read_pprof(arena, copy, n, e);
    streams_agree(copy, n, p, e);
    memset(copy, 0xa5, n);
    free(copy);
    return p;
}

// --- a profile with everything ---

static struct model_profile *full(void)
{
    struct model_builder *b = stacks_new(arena);
    model_build_type(b, STR("cpu"), STR("nanoseconds"));
    model_build_type(b, STR("space"), STR("bytes"));
    struct model_mapping m = {.start = 0x400000,
                              .limit = UINT64_MAX,
                              .offset = 0x1000,
                              .file = model_build_string(b, STR("/bin/app")),
                              .build_id = model_build_string(b, STR("abc123")),
                              .has_functions = true,
                              .has_filenames = true,
                              .has_line_numbers = true,
                              .has_inline_frames = true};
    uint32_t mapping = model_build_mapping(b, m);
    model_build_mapping(b, (struct model_mapping){.start = 1, .has_line_numbers = true});
    model_build_mapping(b, (struct model_mapping){.start = 2, .has_filenames = true});
    uint32_t frames[4] = {stacks_frame(b, STR("outer@o.c#3+inner@i.c#4"), mapping, 0x400100),
                          stacks_frame(b, STR("main@m.c#9"), mapping, UINT64_MAX),
                          stacks_frame(b, STR("start"), MODEL_NONE, 0), 0};
    b->p->lines[0].column = 12;
    b->p->lines[1].line = INT64_MIN;
    b->p->locations[1].is_folded = true;
    b->p->functions[0].start_line = -5;
    b->p->functions[1].system_name = model_build_string(b, STR("_Z5outerv"));
    struct model_line none;
    frames[3] = model_build_location(b, mapping, 7, &none, 0);
    model_build_sample(b, frames, 4, (int64_t[]){1, INT64_MAX, INT64_MIN});
    model_build_label(b, STR("k"), STR("v"));
    model_build_label(b, STR("k"), STR("w"));
    model_build_number_label(b, STR("n"), -1, STR("bytes"));
    model_build_number_label(b, STR("n"), INT64_MAX, STR(""));
    model_build_number_label(b, STR("unit only"), 0, STR("ms"));
    model_build_sample(b, frames + 1, 2, (int64_t[]){0, -1, 3});
    model_build_sample(b, frames, 0, (int64_t[]){5, 6, 7});
    model_build_sample(b, frames + 2, 1, (int64_t[]){0, 0, 0});
    struct model_profile *p = b->p;
    // Ids need not count from one, nor be small.
    p->locations[0].id = UINT64_MAX;
    p->locations[1].id = 1;
    p->locations[2].id = (uint64_t)1 << 40;
    p->locations[3].id = 300;
    p->functions[2].id = UINT64_MAX - 1;
    p->mappings[0].id = UINT64_MAX - 2;
    p->mappings[1].id = 1;
    p->mappings[2].id = 2;
    p->drop_frames = model_build_string(b, STR("drop"));
    p->keep_frames = model_build_string(b, STR("keep"));
    p->default_type = p->types[1].type;
    p->doc_url = model_build_string(b, STR("https://example.com/doc"));
    p->period_type = p->types[1];
    p->period = 10000000;
    p->time_nanos = INT64_MIN;
    p->duration_nanos = -1;
    model_build_comment(b, STR("one"));
    model_build_comment(b, STR("two"));
    model_build_comment(b, STR(""));
    return p;
}

static void what_is_written_is_read(void **state)
{
    struct model_profile *p = full();
    struct err e = {.message = ""};
    struct str first = stacks_bytes(p, arena);
    struct model_profile *q = read_bytes(first.p, first.n, &e);
    if (!q)
        fail_msg("%s", e.message);
    struct str second = stacks_bytes(q, arena);
    assert_int_equal(first.n, second.n);
    assert_memory_equal(first.p, second.p, first.n);
    // Bytes may lose what was not written: look at the profile as well.
    assert_string_equal(stacks_text(q, arena), stacks_text(p, arena));
    assert_int_equal(q->n_mappings, 3);
    assert_true(q->mappings[0].has_inline_frames && q->mappings[0].limit == UINT64_MAX);
    assert_true(q->mappings[1].has_line_numbers && !q->mappings[1].has_functions &&
                !q->mappings[1].has_filenames && !q->mappings[1].has_inline_frames);
    assert_true(q->mappings[2].has_filenames && !q->mappings[2].has_line_numbers);
    assert_true(q->locations[1].is_folded && q->locations[1].address == UINT64_MAX);
    assert_int_equal(q->locations[2].mapping, MODEL_NONE);
    assert_int_equal(q->lines[0].column, 12);
    assert_true(q->lines[1].line == INT64_MIN && q->functions[0].start_line == -5);
    assert_true(str_eq(model_str(q, q->functions[1].system_name), STR("_Z5outerv")));
    assert_true(str_eq(model_str(q, q->default_type), STR("cpu")));
    assert_true(str_eq(model_str(q, q->doc_url), STR("https://example.com/doc")));
    assert_true(str_eq(model_str(q, q->drop_frames), STR("drop")));
    assert_true(str_eq(model_str(q, q->keep_frames), STR("keep")));
    assert_true(str_eq(model_str(q, q->period_type.unit), STR("nanoseconds")));
    assert_true(q->period == 10000000 && q->time_nanos == INT64_MIN && q->duration_nanos == -1);
    assert_int_equal(q->n_comments, 3);
    assert_true(str_eq(model_str(q, q->comments[1]), STR("two")));
}

static void an_empty_profile_is_written_and_read(void **state)
{
    struct err e = {.message = ""};
    struct str bytes = stacks_bytes(model_profile_new(arena), arena);
    // A table of one empty string, and the default type, which is always written.
    assert_int_equal(bytes.n, 4);
    assert_memory_equal(bytes.p, "\x32\x00\x70\x00", 4);
    struct model_profile *p = read_bytes(bytes.p, bytes.n, &e);
    if (!p)
        fail_msg("%s", e.message);
    assert_int_equal(p->n_samples, 0);
    assert_int_equal(p->n_types, 0);
}

static void gzip_is_written_and_read(void **state)
{
    struct out out;
    struct err e = {.message = ""};
    struct model_profile *p = full();
    out_init_memory(&out, 1 << 20);
    assert_int_equal(codec_write_pprof_gzip(p, &out, &e), 0);
    enum codec_format format = CODEC_AUTO;
    struct model_profile *q = codec_read(arena, (uint8_t *)out.p, out.n, NULL, &format, &e);
    if (!q)
        fail_msg("%s", e.message);
    assert_int_equal(format, CODEC_PPROF);
    struct str a = stacks_bytes(p, arena), b = stacks_bytes(q, arena);
    assert_int_equal(a.n, b.n);
    assert_memory_equal(a.p, b.p, a.n);
    out_fini(&out);
}

// Cut anywhere it is an error or a shorter profile, never a crash.
static void cut_anywhere(void **state)
{
    struct str bytes = stacks_bytes(full(), arena);
    for (size_t n = 0; n < bytes.n; n++) {
        struct arena *own = arena_new(0);
        struct err e = {.message = ""};
        uint8_t *copy = malloc(n ? n : 1);
        memcpy(copy, bytes.p, n);
        if (!codec_read_pprof(own, copy, n, &e))
            assert_true(e.message[0]);
        free(copy);
        arena_free(own);
    }
}

// Any one byte changed.
static void changed_anywhere(void **state)
{
    struct str bytes = stacks_bytes(full(), arena);
    static const uint8_t values[] = {0, 0xff, 0x80, 0x7f};
    uint8_t *copy = malloc(bytes.n);
    for (size_t i = 0; i < bytes.n; i++) {
        for (size_t k = 0; k < sizeof values; k++) {
            struct arena *own = arena_new(64 << 20);
            struct err e = {.message = ""};
            memcpy(copy, bytes.p, bytes.n);
            copy[i] = values[k];
            struct model_profile *p = codec_read_pprof(own, copy, bytes.n, &e);
            if (p)
                assert_int_equal(model_check(p, &e), 0);
            else
                assert_true(e.message[0]);
            arena_free(own);
        }
    }
    free(copy);
}

// --- by hand ---

struct bytes {
    uint8_t p[4096];
    size_t n;
};

static void put(struct bytes *b, const void *data, size_t n)
{
    assert_true(b->n + n <= sizeof b->p);
    memcpy(b->p + b->n, data, n);
    b->n += n;
}

static void varint(struct bytes *b, uint64_t v)
{
    for (; v >= 0x80; v >>= 7)
        put(b, (uint8_t[]){(uint8_t)(v | 0x80)}, 1);
    put(b, (uint8_t[]){(uint8_t)v}, 1);
}

static void number(struct bytes *b, uint32_t field, uint64_t v)
{
    varint(b, field << 3);
    varint(b, v);
}

static void message(struct bytes *b, uint32_t field, const struct bytes *inner)
{
    varint(b, field << 3 | 2);
    varint(b, inner->n);
    put(b, inner->p, inner->n);
}

static void text(struct bytes *b, uint32_t field, const char *s)
{
    varint(b, field << 3 | 2);
    varint(b, strlen(s));
    put(b, s, strlen(s));
}

// A message of (field, value) pairs, ended by a zero.
static struct bytes numbers(const uint64_t *pairs)
{
    struct bytes b = {.n = 0};
    for (; pairs[0]; pairs += 2)
        number(&b, (uint32_t)pairs[0], pairs[1]);
    return b;
}

#define NUMBERS(...) numbers((const uint64_t[]){__VA_ARGS__, 0})

static void strings(struct bytes *b)
{
    static const char *const table[] = {"", "samples", "count", "f", "k", "v"};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        text(b, 6, table[i]);
}

// A type, a function, a location of id 1, and the strings.
static struct bytes tables(void)
{
    struct bytes b = {.n = 0}, inner = NUMBERS(1, 1, 2, 2);
    message(&b, 1, &inner);
    inner = NUMBERS(1, 9, 2, 3);
    message(&b, 5, &inner);
    struct bytes line = NUMBERS(1, 9), location = NUMBERS(1, 1);
    message(&location, 4, &line);
    message(&b, 4, &location);
    strings(&b);
    return b;
}

static void add_sample(struct bytes *b, const struct bytes *labels)
{
    struct bytes sample = NUMBERS(1, 1, 2, 5);
    if (labels)
        message(&sample, 3, labels);
    message(b, 2, &sample);
}

static void reads_as(const struct bytes *b, const char *want)
{
    struct err e = {.message = ""};
    struct model_profile *p = read_bytes(b->p, b->n, &e);
    if (!p)
        fail_msg("%s", e.message);
    assert_string_equal(stacks_text(p, arena), want);
}

static void refused(const struct bytes *b, const char *why)
{
    struct err e = {.message = ""};
    assert_null(read_bytes(b->p, b->n, &e));
    if (!strstr(e.message, why))
        fail_msg("expected `%s` in `%s`", why, e.message);
}

static void order_does_not_matter(void **state)
{
    struct bytes b = {.n = 0}, after = tables();
    add_sample(&b, NULL);
    put(&b, after.p, after.n);
    reads_as(&b, "f 5\n");
}

static void unknown_fields_are_skipped(void **state)
{
    struct bytes b = tables(), sample = NUMBERS(1, 1, 2, 5, 17, 4),
                 inner = NUMBERS(1, 1, 2, 2, 3, 3);
    number(&b, 16, 1);
    number(&b, 536870911, 1);
    text(&b, 100, "whatever");
    varint(&b, 50 << 3 | 1);
    put(&b, "12345678", 8);
    varint(&b, 50 << 3 | 5);
    put(&b, "1234", 4);
    varint(&sample, 20 << 3 | 1);
    put(&sample, "12345678", 8);
    text(&sample, 21, "x");
    message(&b, 2, &sample);
    message(&b, 11, &inner);
    number(&b, 0, 7); // field 0
    reads_as(&b, "f 5\n");
}

static void wrong_wire_types_are_refused(void **state)
{
    // Every field of the profile, as a fixed 32-bit value.
    for (uint32_t field = 1; field <= 15; field++) {
        struct bytes b = tables();
        varint(&b, field << 3 | 5);
        put(&b, "1234", 4);
        add_sample(&b, NULL);
        refused(&b, field == 13 ? "malformed submessage" : "unexpected wire type");
    }
    struct bytes b = tables(), sample = NUMBERS(2, 5);
    text(&b, 9, "time");
    refused(&b, "unexpected wire type");
    b = tables();
    number(&b, 6, 1);
    refused(&b, "unexpected wire type");
    // Groups, and what is not defined.
    for (int wire = 3; wire <= 7; wire += wire == 4 ? 2 : 1) {
        b = tables();
        varint(&b, (uint64_t)(100 << 3 | wire));
        put(&b, "1234", 4);
        refused(&b, "no protobuf field");
    }
    // In a sample.
    b = tables();
    varint(&sample, 1 << 3 | 5);
    put(&sample, "1234", 4);
    message(&b, 2, &sample);
    refused(&b, "sample 0");
    b = tables();
    sample = NUMBERS(1, 1, 3, 5);
    message(&b, 2, &sample);
    refused(&b, "sample 0");
    b = tables();
    struct bytes location = NUMBERS(1, 2, 4, 7);
    message(&b, 4, &location);
    refused(&b, "malformed submessage");
}

static void repeated_numbers_are_packed_or_not(void **state)
{
    struct bytes b = tables(), ids = {.n = 0}, values = {.n = 0}, sample = {.n = 0};
    varint(&ids, 1);
    varint(&ids, 1);
    varint(&values, 8);
    message(&sample, 1, &ids);
    number(&sample, 1, 1);
    message(&sample, 2, &values);
    message(&b, 2, &sample);
    // Packed and empty.
    sample.n = ids.n = 0;
    message(&sample, 1, &ids);
    message(&sample, 2, &values);
    message(&b, 2, &sample);
    // Comments too.
    struct bytes comments = {.n = 0};
    varint(&comments, 3);
    varint(&comments, 4);
    message(&b, 13, &comments);
    number(&b, 13, 5);
    reads_as(&b, "f;f;f 8\n 8\n");
    struct err e;
    struct model_profile *p = read_bytes(b.p, b.n, &e);
    assert_int_equal(p->n_comments, 3);
    assert_true(str_eq(model_str(p, p->comments[2]), STR("v")));
}

// Numbers may be longer than they need be, up to ten bytes.
static void long_varints(void **state)
{
    static const uint8_t one[] = {0x81, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00};
    for (size_t n = 2; n <= 10; n++) {
        uint8_t id[10];
        memcpy(id, one, n);
        id[n - 1] = 0;
        for (int packed = 0; packed < 2; packed++) {
            struct bytes b = tables(), sample = {.n = 0};
            varint(&sample, packed ? 1 << 3 | 2 : 1 << 3);
            if (packed)
                varint(&sample, n * 3);
            for (int i = 0; i < (packed ? 3 : 1); i++)
                put(&sample, id, n);
            varint(&sample, 2 << 3);
            put(&sample, id, n);
            message(&b, 2, &sample);
            reads_as(&b, packed ? "f;f;f 1\n" : "f 1\n");
        }
    }
    // The tenth byte gives one bit only; an eleventh is too many.
    struct bytes b = tables(), sample = NUMBERS(1, 1);
    varint(&sample, 2 << 3);
    put(&sample, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 10);
    message(&b, 2, &sample);
    reads_as(&b, "f -1\n");
    b = tables();
    sample = NUMBERS(1, 1);
    varint(&sample, 2 << 3);
    put(&sample, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11);
    message(&b, 2, &sample);
    refused(&b, "sample 0");
}

static void two_profiles_in_one_are_found_out(void **state)
{
    struct bytes b = tables();
    add_sample(&b, NULL);
    number(&b, 9, 1000);
    reads_as(&b, "f 5\n");
    number(&b, 9, 1000);
    refused(&b, "concatenated profiles detected");
    // A time of zero says nothing.
    b = tables();
    number(&b, 9, 0);
    number(&b, 9, 7);
    add_sample(&b, NULL);
    reads_as(&b, "f 5\n");
}

static void string_tables(void **state)
{
    struct bytes b = NUMBERS(12, 5); // without a table there are no strings, not even ""
    refused(&b, "string index");
    b.n = 0;
    text(&b, 6, "not empty");
    refused(&b, "string_table[0] must be ''");
    b = tables();
    number(&b, 14, 6); // there are six: 0 to 5
    refused(&b, "outside the string table of 6");
    b = tables();
    number(&b, 14, 5);
    add_sample(&b, NULL);
    reads_as(&b, "f 5\n");
    static const uint64_t far[] = {6, 0xffffffff, 0x100000001, UINT64_MAX};
    for (size_t i = 0; i < 4; i++) {
        for (uint32_t field = 7; field <= 15; field++) {
            if (field >= 9 && field <= 12)
                continue;
            b = tables();
            number(&b, field, far[i]);
            refused(&b, "outside the string table");
        }
        b = tables();
        struct bytes inner = NUMBERS(1, 7, 4, far[i]);
        message(&b, 5, &inner);
        refused(&b, "outside the string table");
        b = tables();
        inner = NUMBERS(1, far[i], 2, 1);
        add_sample(&b, &inner);
        refused(&b, "sample 0");
    }
}

// A table may name one string twice; its ids become one.
static void equal_strings_are_one(void **state)
{
    struct bytes b = tables();
    text(&b, 6, "f");
    struct bytes f = NUMBERS(1, 10, 2, 6), line = NUMBERS(1, 10), location = NUMBERS(1, 2);
    message(&b, 5, &f);
    message(&location, 4, &line);
    message(&b, 4, &location);
    struct err e;
    struct model_profile *p = read_bytes(b.p, b.n, &e);
    assert_non_null(p);
    assert_int_equal(p->functions[0].name, p->functions[1].name);
}

static void references_must_lead_somewhere(void **state)
{
    static const uint64_t ids[] = {0, 2, 127, 128, 20000, (uint64_t)1 << 40, UINT64_MAX};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        struct bytes b = tables(), sample = NUMBERS(1, ids[i], 2, 5);
        message(&b, 2, &sample);
        refused(&b, "refers to a location that is not in the profile");
        b = tables();
        struct bytes line = NUMBERS(1, ids[i]), location = NUMBERS(1, 2);
        message(&location, 4, &line);
        message(&b, 4, &location);
        refused(&b, "which is not in the profile");
        // A mapping that is not there is no mapping.
        b = tables();
        location = NUMBERS(1, 2, 2, ids[i]);
        message(&b, 4, &location);
        add_sample(&b, NULL);
        reads_as(&b, "f 5\n");
    }
}

static void ids_are_zero_or_twice(void **state)
{
    struct bytes b = tables(), again = NUMBERS(1, 1);
    message(&b, 4, &again);
    refused(&b, "multiple locations with same id: 1");
    b = tables();
    again = NUMBERS(1, 9);
    message(&b, 5, &again);
    refused(&b, "multiple functions with same id: 9");
    b = tables();
    again = NUMBERS(2, 9);
    message(&b, 3, &again);
    refused(&b, "found mapping with reserved ID=0");
}

// Ids anywhere in 64 bits, many of them, found by every path of the decoder.
static void sparse_ids(void **state)
{
    enum { N = 3000 };
    struct model_builder *b = stacks_new(arena);
    uint64_t seed = 1;
    uint32_t frames[N];
    for (uint32_t i = 0; i < N; i++) {
        frames[i] = model_build_location(b, MODEL_NONE, i, NULL, 0);
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        b->p->locations[i].id = i % 3 ? seed >> (seed % 50) | 1 : i + 1;
    }
    // Shifted down, some may be equal.
    for (uint32_t i = 0; i < N; i++)
        for (uint32_t k = 0; k < i; k++)
            if (b->p->locations[i].id == b->p->locations[k].id) {
                b->p->locations[i].id = (uint64_t)i << 44 | 7;
                k = 0;
            }
    for (uint32_t i = 0; i < N; i += 7)
        model_build_sample(b, frames + i, i % 50 < N - i ? i % 50 : 1, (int64_t[]){i});
    struct str bytes = stacks_bytes(b->p, arena);
    struct err e = {.message = ""};
    struct model_profile *p = read_bytes(bytes.p, bytes.n, &e);
    if (!p)
        fail_msg("%s", e.message);
    assert_string_equal(stacks_text(p, arena), stacks_text(b->p, arena));
}

static void labels_that_say_nothing_are_dropped(void **state)
{
    struct bytes b = tables(), label = NUMBERS(1, 4);
    add_sample(&b, &label); // neither text nor number nor unit
    label = NUMBERS(1, 4, 2, 5);
    add_sample(&b, &label);
    label = NUMBERS(1, 4, 3, 8);
    add_sample(&b, &label);
    label = NUMBERS(1, 4, 4, 2); // a unit only: a number that is zero
    add_sample(&b, &label);
    label = NUMBERS(1, 4, 2, 5, 3, 8, 4, 2); // text wins over a number
    add_sample(&b, &label);
    label = NUMBERS(2, 5); // a key that is empty
    add_sample(&b, &label);
    label = NUMBERS(1, 4, 3, (uint64_t)-8, 4, 2);
    add_sample(&b, &label);
    reads_as(&b, "f 5\nf 5 {k=v}\nf 5 {k=8}\nf 5 {k=0count}\nf 5 {k=v}\nf 5 {=v}\n"
                 "f 5 {k=-8count}\n");
}

// Into the order that label sets have.
static void labels_are_sorted(void **state)
{
    struct bytes b = tables(), sample = NUMBERS(1, 1, 2, 5), label = NUMBERS(1, 4, 3, 8);
    message(&sample, 3, &label);
    label = NUMBERS(1, 4, 2, 5);
    message(&sample, 3, &label);
    label = NUMBERS(1, 3, 2, 5);
    message(&sample, 3, &label);
    label = NUMBERS(1, 4, 2, 1);
    message(&sample, 3, &label);
    message(&b, 2, &sample);
    reads_as(&b, "f 5 {f=v, k=v, k=samples, k=8}\n");
}

static void values_must_fit_the_types(void **state)
{
    struct bytes b = tables(), sample = NUMBERS(1, 1);
    message(&b, 2, &sample);
    refused(&b, "mismatch: sample 0 has 0 values vs. 1 types");
    b = tables();
    sample = NUMBERS(1, 1, 2, 5, 2, 6);
    message(&b, 2, &sample);
    refused(&b, "mismatch: sample 0 has 2 values vs. 1 types");
    b.n = 0;
    strings(&b);
    sample = NUMBERS(2, 5);
    message(&b, 2, &sample);
    refused(&b, "missing sample type information");
    sample.n = 0;
    b.n = 0;
    strings(&b);
    message(&b, 2, &sample);
    refused(&b, "missing sample type information");
}

// Equal label sets that stand far apart, and many that differ.
static void many_label_sets(void **state)
{
    struct model_builder *b = stacks_new(arena);
    for (int64_t i = 0; i < 10000; i++) {
        model_build_number_label(b, STR("id"), i % 9000 + 1, STR(""));
        model_build_label(b, STR("z"), i % 2 ? STR("odd") : STR("even"));
        stacks_add1(b, "main", i);
    }
    struct str bytes = stacks_bytes(b->p, arena);
    struct err e = {.message = ""};
    struct model_profile *p = read_bytes(bytes.p, bytes.n, &e);
    assert_non_null(p);
    assert_string_equal(stacks_text(p, arena), stacks_text(b->p, arena));
}

// Pages of a disposable input are given back as they are read, and not before.
static void a_disposable_input(void **state)
{
    struct model_builder *b = stacks_new(arena);
    uint32_t frames[200];
    for (uint32_t i = 0; i < 200; i++)
        frames[i] = stacks_frame(b, str_from(arena_printf(arena, "f%u", i)), MODEL_NONE, i);
    for (uint32_t i = 0; i < 120000; i++)
        model_build_sample(b, frames + i % 50, 150, (int64_t[]){i});
    struct out out;
    struct err e = {.message = ""};
    out_init_memory(&out, 64 << 20);
    assert_int_equal(codec_write_pprof_gzip(b->p, &out, &e), 0);
    struct model_profile *p = codec_read(arena, (uint8_t *)out.p, out.n, NULL, NULL, &e);
    out_fini(&out);
    if (!p)
        fail_msg("%s", e.message);
    assert_int_equal(p->n_samples, 120000);
    for (uint32_t i = 0; i < 120000; i += 97) {
        assert_int_equal(model_values(p, i)[0], i);
        assert_int_equal(p->locations[model_stack(p, i)[149]].address, i % 50 + 149);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(an_empty_profile_is_written_and_read),
        cmocka_unit_test(gzip_is_written_and_read),
        cmocka_unit_test(cut_anywhere),
        cmocka_unit_test(changed_anywhere),
        cmocka_unit_test(order_does_not_matter),
        cmocka_unit_test(unknown_fields_are_skipped),
        cmocka_unit_test(wrong_wire_types_are_refused),
        cmocka_unit_test(repeated_numbers_are_packed_or_not),
        cmocka_unit_test(long_varints),
        cmocka_unit_test(two_profiles_in_one_are_found_out),
        cmocka_unit_test(string_tables),
        cmocka_unit_test(equal_strings_are_one),
        cmocka_unit_test(references_must_lead_somewhere),
        cmocka_unit_test(ids_are_zero_or_twice),
        cmocka_unit_test(sparse_ids),
        cmocka_unit_test(labels_that_say_nothing_are_dropped),
        cmocka_unit_test(labels_are_sorted),
        cmocka_unit_test(values_must_fit_the_types),
        cmocka_unit_test(many_label_sets),
        cmocka_unit_test(a_disposable_input),
    };
    return cmocka_run_group_tests(tests, make_arena, free_arena);
}
