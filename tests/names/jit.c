// Makes code at run time, as a just-in-time compiler does, writes down its name for perf and burns
// CPU time in it. usage: jit map|dump|moved SECONDS [DIRECTORY]
#define _GNU_SOURCE
#include <elf.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#if defined(__x86_64__)
// push rbp; mov rbp, rsp; mov rax, rdi; loop: dec rax; jnz loop; pop rbp; ret
static const uint8_t code[] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0x89, 0xf8,
                               0x48, 0xff, 0xc8, 0x75, 0xfb, 0x5d, 0xc3};
enum { MACHINE = EM_X86_64 };
#else
// stp x29, x30, [sp, #-16]!; mov x29, sp; loop: subs x0, x0, #1; b.ne loop; ldp x29, x30, [sp],
// #16; ret
static const uint32_t code[] = {0xa9bf7bfd, 0x910003fd, 0xf1000400,
                                0x54ffffe1, 0xa8c17bfd, 0xd65f03c0};
enum { MACHINE = EM_AARCH64 };
#endif

struct record {
    uint32_t id, size;
    uint64_t time;
};

static void write_map(uintptr_t at)
{
    char path[64];
    snprintf(path, sizeof path, "/tmp/perf-%d.map", (int)getpid());
    FILE *file = fopen(path, "w");
    fprintf(file, "%lx %zx made_and_mapped\n", (unsigned long)at, sizeof code);
    fclose(file);
}

static void write_load(FILE *file, uintptr_t at, uint64_t index, const char *name)
{
    size_t n = strlen(name) + 1;
    struct {
        struct record head;
        uint32_t pid, tid;
        uint64_t vma, address, size, index;
    } load = {{0, (uint32_t)(sizeof load + n + sizeof code), 1},
              (uint32_t)getpid(),
              (uint32_t)getpid(),
              at,
              at,
              sizeof code,
              index};
    fwrite(&load, sizeof load, 1, file);
    fwrite(name, n, 1, file);
    fwrite(code, sizeof code, 1, file);
}

static void write_lines(FILE *file, uintptr_t at)
{
    static const char name[] = "made.lang";
    struct {
        struct record head;
        uint64_t address, n;
    } debug = {{2, (uint32_t)(sizeof debug + 16 + sizeof name), 1}, at, 1};
    uint64_t address = at;
    uint32_t line[2] = {42, 0};
    fwrite(&debug, sizeof debug, 1, file);
    fwrite(&address, 8, 1, file);
    fwrite(line, 8, 1, file);
    fwrite(name, sizeof name, 1, file);
}

static void write_dump(const char *directory, uintptr_t at, int moved)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/jit-%d.dump", directory, (int)getpid());
    FILE *file = fopen(path, "w+");
    struct {
        uint32_t magic, version, size, machine, padding, pid;
        uint64_t time, flags;
    } head = {0x4A695444, 1, sizeof head, MACHINE, 0, (uint32_t)getpid(), 1, 0};
    fwrite(&head, sizeof head, 1, file);
    if (moved) {
        write_load(file, 0x1000, 7, "made_and_moved");
        struct {
            struct record head;
            uint32_t pid, tid;
            uint64_t vma, from, to, size, index;
        } move = {{1, sizeof move, 2},
                  (uint32_t)getpid(),
                  (uint32_t)getpid(),
                  at,
                  0x1000,
                  at,
                  sizeof code,
                  7};
        fwrite(&move, sizeof move, 1, file);
    } else {
        write_lines(file, at);
        write_load(file, at, 7, "made_and_dumped");
    }
    fflush(file);
    // The mark that profilers look for.
    if (mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fileno(file), 0) == MAP_FAILED)
        perror("mmap");
}

int main(int argc, char **argv)
{
    void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(p, code, sizeof code);
    mprotect(p, 4096, PROT_READ | PROT_EXEC);
    __builtin___clear_cache(p, (char *)p + sizeof code);
    if (strcmp(argv[1], "map") == 0)
        write_map((uintptr_t)p);
    else
        write_dump(argc > 3 ? argv[3] : ".", (uintptr_t)p, strcmp(argv[1], "moved") == 0);
    printf("pid %d\n", (int)getpid());
    fflush(stdout);
    double seconds = strtod(argv[2], NULL);
    struct timespec ts;
    do {
        ((void (*)(uint64_t))p)(20000000);
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    } while ((double)ts.tv_sec + (double)ts.tv_nsec * 1e-9 < seconds);
    return 0;
}
