// kiln symbolize and kiln addr2line.
#include "symbol/symbol_profile.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/file.h"
#include "cli/help.h"
#include "cli/own_flags.h"
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

static int addr2line_fail(const struct err *e)
{
    fprintf(stderr, "kiln: %s\n", e->message);
    return 2;
}

int command_addr2line(int argc, char **argv)
{
    struct addr2line_options o = {0};
    const char *binary = NULL;
    struct err e = {""};
    int i = 1;
    for (; i < argc && argv[i][0] == '-'; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            help_command(command_find("addr2line"), stdout);
            return 0;
        }
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
                own_flag_unknown("addr2line", argv[i], &e);
                return addr2line_fail(&e);
            }
        }
    }
    if (!binary) {
        err_set(&e, "no binary; name it with -e; see `kiln addr2line --help`");
        return addr2line_fail(&e);
    }
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
