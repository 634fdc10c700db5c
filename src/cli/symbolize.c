// kiln symbolize and kiln addr2line.
#include "symbol/symbol_profile.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/file.h"
#include "symbol/addr2line.h"

int command_symbolize(struct call *call, struct err *e)
{
    if (call->n_arguments == 0)
        return err_set(e, "no profile; try `kiln symbolize FILE -o OUT`");
    const char *output = *call->config.output ? call->config.output : "-";
    struct file_format format;
    if (file_format_of(output, call->to, &format, e))
        return -1;
    call->source.symbolize = "local";
    struct model_profile *p = call_load(call, 0, e);
    if (!p)
        return -1;
    return file_write(p, output, format, &call->config, call->arena, e);
}

static int addr2line_usage(FILE *to)
{
    fputs("Usage: kiln addr2line [-a] [-f] [-i] [-s] [-p] [-C] -e BINARY [ADDRESS...]\n\n"
          "Answers as addr2line does, for the addresses given or, without any, for those on\n"
          "standard input.\n\n"
          "  -e BINARY  the file to look in\n"
          "  -a         print the address first\n"
          "  -f         print the function's name\n"
          "  -i         print the functions that an inlined one was inlined into\n"
          "  -s         only base names of files\n"
          "  -p         one line for each place\n"
          "  -C         demangle names\n\n"
          "  kiln addr2line -a -f -i -e ./app < addresses\n",
          to);
    return to == stdout ? 0 : 2;
}

static int addr2line_fail(const struct err *e)
{
    fprintf(stderr, "kiln: %s\n", e->message);
    return 2;
}

int command_addr2line(int argc, char **argv)
{
    struct addr2line_options o = {0};
    const char *binary = NULL;
    int i = 1;
    for (; i < argc && argv[i][0] == '-'; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return addr2line_usage(stdout);
        for (const char *c = argv[i] + 1; *c; c++) {
            bool *flag = *c == 'a'   ? &o.addresses
                         : *c == 'f' ? &o.functions
                         : *c == 'i' ? &o.inlines
                         : *c == 's' ? &o.basenames
                         : *c == 'p' ? &o.pretty
                         : *c == 'C' ? &o.demangle
                                     : NULL;
            if (flag) {
                *flag = true;
            } else if (*c == 'e' && (c[1] || i + 1 < argc)) {
                binary = c[1] ? c + 1 : argv[++i];
                break;
            } else {
                return addr2line_usage(stderr);
            }
        }
    }
    if (!binary)
        return addr2line_usage(stderr);
    struct err e;
    struct symbol_options options = {
        .own_process = true, .demangle = DEMANGLE_FULL, .cxx = demangle_cxx_iberty};
    struct symbol_file *file = symbol_open(binary, &options, &e);
    if (!file)
        return addr2line_fail(&e);
    struct out out;
    out_init_fd(&out, STDOUT_FILENO);
    int result = 0;
    if (i < argc)
        for (; i < argc; i++)
            addr2line_answer(file, &o, str_from(argv[i]), &out);
    else
        result = addr2line_run(file, &o, stdin, &out, &e);
    if (out_finish(&out, &e))
        result = -1;
    out_fini(&out);
    symbol_free(file);
    return result ? addr2line_fail(&e) : 0;
}
