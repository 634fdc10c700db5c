#include <stdlib.h>

#include "symbol/addr2line.h"

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static void print_frame(const struct addr2line_options *o, const struct symbol_frame *f, bool known,
                        struct out *out)
{
    if (o->functions) {
        const char *name = f->name ? (o->demangle ? f->shown : f->name) : NULL;
        out_text(out, name && *name ? name : "??");
        out_text(out, o->pretty ? " at " : "\n");
    }
    const char *path = f->file ? f->file : "??";
    out_text(out, o->basenames ? base_name(path) : path);
    out_char(out, ':');
    if (f->line)
        out_u64(out, f->line);
    else
        out_char(out, known ? '?' : '0');
    out_char(out, '\n');
}

void addr2line_answer(struct symbol_file *file, const struct addr2line_options *o,
                      struct str address, struct out *out)
{
    struct symbol_frame frames[SYMBOL_FRAMES_MAX];
    struct str digits = str_trim(address);
    if (str_starts(digits, STR("0x")) || str_starts(digits, STR("0X")))
        digits = str_from_to(digits, 2, digits.n);
    uint64_t vaddr = 0;
    if (!str_to_u64(digits, 16, &vaddr))
        vaddr = 0;
    int n = symbol_lookup(file, vaddr, frames, SYMBOL_FRAMES_MAX);
    if (o->addresses)
        out_printf(out, "0x%016llx%s", (unsigned long long)vaddr, o->pretty ? ": " : "\n");
    if (n == 0) {
        struct symbol_frame none = {0};
        print_frame(o, &none, false, out);
        return;
    }
    for (int i = 0; i < (o->inlines ? n : 1); i++) {
        if (i && o->pretty)
            out_text(out, " (inlined by) ");
        print_frame(o, &frames[i], true, out);
    }
}

int addr2line_run(struct symbol_file *file, const struct addr2line_options *o, FILE *in,
                  struct out *out, struct err *e)
{
    char *line = NULL;
    size_t cap = 0;
    int result = 0;
    for (ssize_t n; result == 0 && (n = getline(&line, &cap, in)) >= 0;) {
        addr2line_answer(file, o, (struct str){line, (size_t)n}, out);
        result = out_finish(out, e);
    }
    free(line);
    return result;
}
