// Writes a pprof profile of any size that resembles a real one: stacks of about 38 frames with
// common prefixes, about three new call tree nodes per sample, thousands of functions. The same
// arguments produce the same bytes.
//
// With -threads, the samples of 4,096 threads alternate, as in a profile of a machine: consecutive
// stacks have little in common. Stacks have about 30 frames; there are 20,000 locations, so that
// many ids take three bytes; every fifth has an inlined call, and values are packed.
//
// usage: generate [-threads] [-labels] [-seed N] SAMPLES FILE
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    FUNCTIONS = 5000,
    LOCATIONS = 12000,
    CALLEES = 12, // distinct callees per location
    MIN_DEPTH = 12,
    MAX_DEPTH = 64,
    ENDPOINTS = 40,
    THREADS = 64,
    LATENCIES = 500,
};

// What differs between the two shapes.
struct shape {
    uint32_t locations, inlined_every;
    uint32_t stacks; // that grow independently
    uint32_t callees, min_depth;
    bool skewed; // a caller calls its first callee most of the time
    bool packed;
};

static const struct shape one_thread = {LOCATIONS, 10, 1, CALLEES, MIN_DEPTH, false, false};
static const struct shape many_threads = {20000, 5, 4096, 6, 22, true, true};
static const struct shape *shape = &one_thread;

// A message under construction. None is larger than a sample.
struct message {
    uint8_t bytes[2048];
    size_t n;
};

static uint64_t state;

static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static uint32_t random_below(uint32_t n)
{
    return (uint32_t)(mix(state += 0x9e3779b97f4a7c15u) >> 32) % n;
}

static void put_varint(struct message *m, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        m->bytes[m->n++] = (uint8_t)(value | 0x80);
    m->bytes[m->n++] = (uint8_t)value;
}

static void put_number(struct message *m, uint32_t field, uint64_t value)
{
    put_varint(m, (uint64_t)field << 3);
    put_varint(m, value);
}

static void put_bytes(struct message *m, uint32_t field, const void *data, size_t n)
{
    put_varint(m, (uint64_t)field << 3 | 2);
    put_varint(m, n);
    memcpy(m->bytes + m->n, data, n);
    m->n += n;
}

static void put_message(struct message *m, uint32_t field, const struct message *inner)
{
    put_bytes(m, field, inner->bytes, inner->n);
}

static void write_field(FILE *file, uint32_t field, const struct message *inner)
{
    struct message head = {.n = 0};
    put_varint(&head, (uint64_t)field << 3 | 2);
    put_varint(&head, inner->n);
    fwrite(head.bytes, 1, head.n, file);
    fwrite(inner->bytes, 1, inner->n, file);
}

// Indices of the string table, which is written last.
enum {
    S_EMPTY,
    S_SAMPLES,
    S_COUNT,
    S_CPU,
    S_NANOSECONDS,
    S_BINARY,
    S_ENDPOINT,
    S_THREAD,
    S_LATENCY,
    S_MILLISECONDS,
    S_FIXED,
    S_ENDPOINTS = S_FIXED,
    S_THREADS = S_ENDPOINTS + ENDPOINTS,
    S_FUNCTIONS = S_THREADS + THREADS,
    S_FILES = S_FUNCTIONS + FUNCTIONS,
    N_FILES = FUNCTIONS / 10,
};

static void write_string(FILE *file, const char *text)
{
    struct message m = {.n = strlen(text)};
    memcpy(m.bytes, text, m.n);
    write_field(file, 6, &m);
}

static void write_strings(FILE *file)
{
    static const char *const fixed[S_FIXED] = {
        "",         "samples", "count",   "cpu",          "nanoseconds", "/usr/bin/service",
        "endpoint", "thread",  "latency", "milliseconds",
    };
    char text[128];
    for (int i = 0; i < S_FIXED; i++)
        write_string(file, fixed[i]);
    for (int i = 0; i < ENDPOINTS; i++) {
        snprintf(text, sizeof text, "/api/v1/resource%d", i);
        write_string(file, text);
    }
    for (int i = 0; i < THREADS; i++) {
        snprintf(text, sizeof text, "worker-%d", i);
        write_string(file, text);
    }
    for (int i = 0; i < FUNCTIONS; i++) {
        snprintf(text, sizeof text, "service::module%d::Class%d::method%d", i % 61, i % 397, i);
        write_string(file, text);
    }
    for (int i = 0; i < N_FILES; i++) {
        snprintf(text, sizeof text, "/src/service/module%d/file%d.cc", i % 61, i);
        write_string(file, text);
    }
}

static void write_tables(FILE *file)
{
    struct message m = {.n = 0}, line;
    put_number(&m, 1, 1);
    put_number(&m, 2, 0x400000);
    put_number(&m, 3, 0x4000000);
    put_number(&m, 5, S_BINARY);
    for (uint32_t flag = 7; flag <= 10; flag++)
        put_number(&m, flag, 1);
    write_field(file, 3, &m);
    for (uint32_t id = 1; id <= shape->locations; id++) {
        m.n = 0;
        put_number(&m, 1, id);
        put_number(&m, 2, 1);
        put_number(&m, 3, 0x400000 + id * 64);
        for (uint32_t inlined = id % shape->inlined_every == 0 ? 2 : 1; inlined-- > 0;) {
            line.n = 0;
            put_number(&line, 1, 1 + (id + inlined * 977) % FUNCTIONS);
            put_number(&line, 2, 10 + id % 300);
            put_message(&m, 4, &line);
        }
        write_field(file, 4, &m);
    }
    for (uint32_t id = 1; id <= FUNCTIONS; id++) {
        m.n = 0;
        put_number(&m, 1, id);
        put_number(&m, 2, S_FUNCTIONS + id - 1);
        put_number(&m, 3, S_FUNCTIONS + id - 1);
        put_number(&m, 4, S_FILES + (id - 1) % N_FILES);
        put_number(&m, 5, 1 + id % 200);
        write_field(file, 5, &m);
    }
}

static void put_label(struct message *sample, uint64_t key, uint64_t text, uint64_t number,
                      uint64_t unit)
{
    struct message m = {.n = 0};
    put_number(&m, 1, key);
    if (text) {
        put_number(&m, 2, text);
    } else {
        put_number(&m, 3, number);
        put_number(&m, 4, unit);
    }
    put_message(sample, 3, &m);
}

static uint32_t random_callee(void)
{
    uint32_t callee = random_below(shape->callees);
    return shape->skewed && random_below(4) ? 0 : callee;
}

// Returns to a caller and descends along another path, like consecutive samples of a program.
static void next_stack(uint32_t *stack, size_t *depth)
{
    size_t back = 1 + random_below(6), deeper = 1 + random_below(6);
    size_t least = shape->min_depth;
    back += shape->skewed && *depth > 50 ? 4 : 0; // about 30 frames
    *depth = *depth > back + least ? *depth - back : least;
    while (deeper-- > 0 && *depth < MAX_DEPTH) {
        uint64_t callee = mix((uint64_t)stack[*depth - 1] * shape->callees + random_callee());
        stack[(*depth)++] = 1 + (uint32_t)(callee % shape->locations);
    }
}

static void write_sample(FILE *file, const uint32_t *stack, size_t depth, bool labels)
{
    struct message sample = {.n = 0}, part = {.n = 0};
    while (depth-- > 0)
        put_varint(&part, stack[depth]);
    put_message(&sample, 1, &part);
    uint64_t count = 1 + random_below(4) * random_below(4);
    if (shape->packed) {
        part.n = 0;
        put_varint(&part, count);
        put_varint(&part, count * 10000000);
        put_message(&sample, 2, &part);
    } else {
        put_number(&sample, 2, count);
        put_number(&sample, 2, count * 10000000);
    }
    if (labels) {
        put_label(&sample, S_ENDPOINT, S_ENDPOINTS + random_below(ENDPOINTS), 0, 0);
        put_label(&sample, S_THREAD, S_THREADS + random_below(THREADS), 0, 0);
        put_label(&sample, S_LATENCY, 0, 1 + random_below(LATENCIES), S_MILLISECONDS);
    }
    write_field(file, 2, &sample);
}

static void write_profile(FILE *file, uint64_t samples, bool labels)
{
    struct message m = {.n = 0};
    put_number(&m, 1, S_SAMPLES);
    put_number(&m, 2, S_COUNT);
    write_field(file, 1, &m);
    m.n = 0;
    put_number(&m, 1, S_CPU);
    put_number(&m, 2, S_NANOSECONDS);
    write_field(file, 1, &m);
    static uint32_t stacks[4096][MAX_DEPTH];
    static size_t depths[4096];
    for (uint32_t k = 0; k < shape->stacks; k++) {
        depths[k] = shape->min_depth;
        for (size_t i = 0; i < depths[k]; i++)
            stacks[k][i] = 1 + (uint32_t)(mix(i + (i ? k : k % 8) * MAX_DEPTH) % shape->locations);
    }
    for (uint64_t i = 0; i < samples; i++) {
        uint32_t k = shape->stacks > 1 ? random_below(shape->stacks) : 0;
        next_stack(stacks[k], &depths[k]);
        write_sample(file, stacks[k], depths[k], labels);
    }
    write_tables(file);
    write_strings(file);
    struct message period = {.n = 0}, end = {.n = 0};
    put_number(&end, 9, 1700000000000000000);
    put_number(&end, 10, 60000000000);
    put_number(&period, 1, S_CPU);
    put_number(&period, 2, S_NANOSECONDS);
    put_message(&end, 11, &period);
    put_number(&end, 12, 10000000);
    fwrite(end.bytes, 1, end.n, file);
}

int main(int argc, char **argv)
{
    bool labels = false;
    uint64_t seed = 1;
    int at = 1;
    for (; at < argc && argv[at][0] == '-'; at++) {
        if (strcmp(argv[at], "-labels") == 0)
            labels = true;
        else if (strcmp(argv[at], "-threads") == 0)
            shape = &many_threads;
        else if (strcmp(argv[at], "-seed") == 0 && at + 1 < argc)
            seed = strtoull(argv[++at], NULL, 10);
    }
    if (argc - at != 2) {
        fprintf(stderr, "usage: generate [-threads] [-labels] [-seed N] SAMPLES FILE\n");
        return 2;
    }
    state = mix(seed);
    FILE *file = fopen(argv[at + 1], "wb");
    if (!file) {
        fprintf(stderr, "generate: %s: %s\n", argv[at + 1], strerror(errno));
        return 2;
    }
    write_profile(file, strtoull(argv[at], NULL, 10), labels);
    if (fclose(file) != 0) {
        fprintf(stderr, "generate: %s: %s\n", argv[at + 1], strerror(errno));
        return 2;
    }
    return 0;
}
