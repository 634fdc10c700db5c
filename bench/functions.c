// A program with 60 functions whose shares of the CPU time are known, for bench/diff.
//
// usage: functions SECONDS [FUNCTION FACTOR]      FUNCTION does FACTOR times its work
//        functions SECONDS heap                   functions that allocate
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static volatile uint64_t sink;

#define EACH_DIGIT(F, tens) \
    F(tens##0)              \
    F(tens##1)              \
    F(tens##2) F(tens##3) F(tens##4) F(tens##5) F(tens##6) F(tens##7) F(tens##8) F(tens##9)
#define EACH(F)      \
    EACH_DIGIT(F, 1) \
    EACH_DIGIT(F, 2) EACH_DIGIT(F, 3) EACH_DIGIT(F, 4) EACH_DIGIT(F, 5) EACH_DIGIT(F, 6)

#define DEFINE(n)                                                   \
    __attribute__((noinline)) static void work_##n(uint64_t rounds) \
    {                                                               \
        for (uint64_t i = 0; i < rounds; i++)                       \
            sink = sink * 6364136223846793005u + n;                 \
    }
EACH(DEFINE)

static void *volatile block;

#define DEFINE_ALLOCATOR(n)                                             \
    __attribute__((noinline)) static void allocate_##n(uint64_t rounds) \
    {                                                                   \
        for (uint64_t i = 0; i < rounds; i++) {                         \
            block = malloc(16 + 37 * (n % 13));                         \
            free(block);                                                \
        }                                                               \
    }
EACH(DEFINE_ALLOCATOR)

#define NAME(n) work_##n,
#define NAME_ALLOCATOR(n) allocate_##n,
static void (*const functions[])(uint64_t) = {EACH(NAME)};
static void (*const allocators[])(uint64_t) = {EACH(NAME_ALLOCATOR)};
enum { N = sizeof functions / sizeof *functions };

static double cpu_seconds(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

// Shares decrease from 7.6 % to 0.08 %: each is 0.925 times the previous one.
static uint64_t rounds_of(size_t function, double all)
{
    double share = 0.0757;
    for (size_t i = 0; i < function; i++)
        share *= 0.925;
    return (uint64_t)(share * all);
}

int main(int argc, char **argv)
{
    double seconds = argc > 1 ? strtod(argv[1], NULL) : 1,
           factor = argc > 3 ? strtod(argv[3], NULL) : 1;
    size_t slow = argc > 3 ? strtoul(argv[2], NULL, 10) : N;
    bool heap = argc == 3 && strcmp(argv[2], "heap") == 0;
    double begin = cpu_seconds(), all = heap ? 1e3 : 1e5;
    // Every run does the same work: 1e5 rounds take about 100 microseconds.
    for (long turn = 0; turn < (long)(seconds * 8000); turn++)
        for (size_t i = 0; i < N; i++)
            (heap ? allocators
                  : functions)[i]((uint64_t)((double)rounds_of(i, all) * (i == slow ? factor : 1)));
    printf("%.3f\n", cpu_seconds() - begin);
    return 0;
}
