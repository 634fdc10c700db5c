// Runs a fuzz target without libFuzzer: every seed, then mutations of them, the same for the same
// number and fewer on a slow machine. For compilers without a fuzzer, and for `make test`, which
// has the modules built with sanitizers already. fuzz/run slice calls it.
//
// usage: slice_TARGET RUNS NUMBER FILE SEED...     FILE keeps the current input, and is removed at
// the end
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerInitialize(int *argc, char ***argv) __attribute__((weak));

enum { MAX_INPUT = 65536, SECONDS_PER_INPUT = 60, SECONDS = 4 };

struct input {
    uint8_t *data;
    size_t n;
};

static uint64_t state;

static uint64_t next_random(uint64_t below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % below;
}

static void fail_slice(const char *what)
{
    perror(what);
    exit(2);
}

static struct input read_seed(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        fail_slice(path);
    struct input seed = {malloc(MAX_INPUT), 0};
    seed.n = fread(seed.data, 1, MAX_INPUT, file);
    fclose(file);
    return seed;
}

// Overwrites a part of the input with a copy of another one's, at any place in both.
static void splice_input(struct input *in, const struct input *from)
{
    if (!from->n)
        return;
    size_t at = next_random(in->n + 1), start = next_random(from->n);
    size_t n = 1 + next_random(from->n - start);
    if (n > MAX_INPUT - at)
        n = MAX_INPUT - at;
    memcpy(in->data + at, from->data + start, n);
    if (in->n < at + n)
        in->n = at + n;
}

static void mutate_input(struct input *in, const struct input *other)
{
    static const uint8_t edges[] = {0, 1, 0x7f, 0x80, 0xff, '\n', ' ', '"', '-', '9'};
    size_t at = in->n ? next_random(in->n) : 0, rest = in->n - at;
    switch (next_random(6)) {
    case 0: // flip a bit
        if (rest)
            in->data[at] ^= (uint8_t)(1 << next_random(8));
        break;
    case 1: // a byte that parsers treat specially
        if (rest)
            in->data[at] = edges[next_random(sizeof edges)];
        break;
    case 2: // remove a range
        if (rest) {
            size_t n = 1 + next_random(rest);
            memmove(in->data + at, in->data + at + n, rest - n);
            in->n -= n;
        }
        break;
    case 3: // repeat a range
        if (rest) {
            size_t n = 1 + next_random(rest < 64 ? rest : 64);
            if (n <= MAX_INPUT - in->n) {
                memmove(in->data + at + n, in->data + at, rest);
                in->n += n;
            }
        }
        break;
    case 4: // cut off the end
        in->n = at;
        break;
    case 5:
        splice_input(in, other);
    }
}

static void run_input(const struct input *in, int keep)
{
    if (ftruncate(keep, 0) < 0 || pwrite(keep, in->data, in->n, 0) != (ssize_t)in->n)
        fail_slice("cannot keep the input");
    // A copy of exact size: the sanitizer sees every access beyond it.
    uint8_t *copy = malloc(in->n ? in->n : 1);
    memcpy(copy, in->data, in->n);
    alarm(SECONDS_PER_INPUT);
    LLVMFuzzerTestOneInput(copy, in->n);
    alarm(0);
    free(copy);
}

int main(int argc, char **argv)
{
    if (argc < 5) {
        fprintf(stderr, "usage: %s RUNS NUMBER FILE SEED...\n", argv[0]);
        return 2;
    }
    size_t runs = strtoul(argv[1], NULL, 10), n_seeds = (size_t)argc - 4;
    state = 0x9e3779b97f4a7c15 ^ strtoul(argv[2], NULL, 10);
    int keep = open(argv[3], O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (keep < 0)
        fail_slice(argv[3]);
    if (LLVMFuzzerInitialize)
        LLVMFuzzerInitialize(&argc, &argv);
    struct input *seeds = malloc(n_seeds * sizeof *seeds), in = {malloc(MAX_INPUT), 0};
    for (size_t i = 0; i < n_seeds; i++) {
        seeds[i] = read_seed(argv[4 + i]);
        run_input(&seeds[i], keep);
    }
    size_t done = n_seeds;
    for (time_t end = time(NULL) + SECONDS; done < runs && time(NULL) < end; done++) {
        const struct input *seed = &seeds[next_random(n_seeds)];
        memcpy(in.data, seed->data, in.n = seed->n);
        for (uint64_t k = 1 + next_random(4); k; k--)
            mutate_input(&in, &seeds[next_random(n_seeds)]);
        run_input(&in, keep);
    }
    printf("%zu runs\n", done);
    unlink(argv[3]);
    for (size_t i = 0; i < n_seeds; i++)
        free(seeds[i].data);
    free(seeds);
    free(in.data);
    return 0;
}
