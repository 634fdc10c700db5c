// Reads addresses (hexadecimal, one a line) and prints the frames of each as llvm-symbolizer
// --output-style=GNU does with -f -i -a: the driver of tests/symbol/run and bench/symbol.
//
// usage: lookup [-d dirs] [-m MiB] [-n] [-q] [-1] BINARY     (addresses on stdin)
//   -n  demangled names   -q  print nothing   -1  one look-up after the other, unsorted
//   -x FILE  write a prepared index   -X FILE  answer from one
//   -S  start lines too   -M  print anonymous memory and CPU seconds on stderr
//   -H  as inside a host process: files are read piece by piece, not mapped
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "symbol/symbol_index.h"

struct answer {
    char *text;
    size_t n;
};

static bool demangled, quiet, start_lines;
static unsigned long checksum;

static void print(FILE *out, uint64_t addr, const struct symbol_frame *f, int n)
{
    fprintf(out, "0x%llx\n", (unsigned long long)addr);
    for (int i = 0; i < n; i++) {
        const char *name = demangled ? f[i].shown : f[i].name;
        fprintf(out, "%s\n%s:%u:%u\n", name && *name ? name : "??", f[i].file ? f[i].file : "??",
                f[i].line, f[i].column);
        if (start_lines)
            fprintf(out, "  start %u\n", f[i].start_line);
    }
    if (n == 0)
        fprintf(out, "??\n??:0:0\n");
}

struct context {
    const uint64_t *addrs;
    struct answer *answers;
};

static bool each(void *ctx, size_t i, const struct symbol_frame *frames, int n)
{
    struct context *c = ctx;
    for (int k = 0; k < n; k++)
        checksum += frames[k].line + (frames[k].name ? (unsigned char)frames[k].name[0] : 0);
    if (quiet)
        return true;
    FILE *out = open_memstream(&c->answers[i].text, &c->answers[i].n);
    print(out, c->addrs[i], frames, n);
    fclose(out);
    return true;
}

static void report(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    char line[256];
    long anon = 0, peak = 0;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status)) {
        if (!strncmp(line, "RssAnon:", 8))
            anon = strtol(line + 8, NULL, 10);
        if (!strncmp(line, "VmHWM:", 6))
            peak = strtol(line + 6, NULL, 10);
    }
    if (status)
        fclose(status);
    fprintf(stderr, "cpu %.4f anon_kib %ld peak_kib %ld\n",
            (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
                (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6,
            anon, peak);
}

int main(int argc, char **argv)
{
    struct symbol_options options = {.own_process = true, .demangle = DEMANGLE_NONE};
    bool single = false, memory = false;
    const char *write_to = NULL, *read_from = NULL;
    for (int c; (c = getopt(argc, argv, "d:m:nq1SMHx:X:")) != -1;) {
        if (c == 'd')
            options.debug_dirs = optarg;
        else if (c == 'm')
            options.memory_limit = strtoul(optarg, NULL, 10) << 20;
        else if (c == 'n')
            demangled = true, options.demangle = DEMANGLE_FULL;
        else if (c == 'q')
            quiet = true;
        else if (c == '1')
            single = true;
        else if (c == 'x')
            write_to = optarg;
        else if (c == 'X')
            read_from = optarg;
        else if (c == 'S')
            start_lines = true;
        else if (c == 'M')
            memory = true;
        else if (c == 'H')
            options.own_process = false;
        else
            return 2;
    }
    struct err e;
    struct symbol_index *index = read_from ? symbol_index_open(read_from, &e) : NULL;
    struct symbol_file *file =
        optind < argc && !index ? symbol_open(argv[optind], &options, &e) : NULL;
    if (write_to && file) {
        FILE *to = fopen(write_to, "w");
        struct out out;
        out_init_fd(&out, to ? fileno(to) : -1);
        int result = to ? symbol_index_write(file, &out, &e) : -1;
        if (result == 0)
            result = out_finish(&out, &e);
        out_fini(&out);
        symbol_free(file);
        if (memory)
            report();
        return to && fclose(to) == 0 && result == 0 ? 0 : 1;
    }
    if (!file && !index) {
        fprintf(stderr, "%s\n", optind < argc ? e.message : "usage: lookup BINARY");
        return 1;
    }
    uint64_t *addrs = NULL;
    size_t n = 0, cap = 0;
    char line[64];
    while (fgets(line, sizeof line, stdin)) {
        if (n == cap)
            addrs = realloc(addrs, (cap = cap * 2 + 64) * sizeof *addrs);
        addrs[n++] = strtoull(line, NULL, 16);
    }
    struct context c = {addrs, calloc(n + 1, sizeof(struct answer))};
    if (index) {
        struct symbol_frame frames[SYMBOL_FRAMES_MAX];
        for (size_t i = 0; i < n; i++)
            each(&c, i, frames, symbol_index_lookup(index, addrs[i], frames, SYMBOL_FRAMES_MAX));
    } else if (single) {
        struct symbol_frame frames[SYMBOL_FRAMES_MAX];
        for (size_t i = 0; i < n; i++)
            each(&c, i, frames, symbol_lookup(file, addrs[i], frames, SYMBOL_FRAMES_MAX));
    } else if (symbol_lookup_many(file, addrs, n, each, &c, &e) != 0) {
        fprintf(stderr, "%s\n", e.message);
        return 1;
    }
    for (size_t i = 0; i < n; i++) {
        if (!quiet)
            fwrite(c.answers[i].text, 1, c.answers[i].n, stdout);
        free(c.answers[i].text);
    }
    if (memory)
        report();
    if (quiet)
        printf("%lu\n", checksum);
    symbol_index_free(index);
    symbol_free(file);
    free(c.answers);
    free(addrs);
    return 0;
}
