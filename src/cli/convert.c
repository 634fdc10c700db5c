// kiln convert and kiln merge: write a profile in another format.
#include "cli/commands.h"

#include "cli/file.h"
#include "cli/view.h"

static int write_filtered(struct call *call, const struct model_profile *p, const char *name,
                          struct file_format f, struct err *e)
{
    p = view_filter(p, &call->config, call->arena, call_note, e);
    if (!p)
        return -1;
    return file_write(p, name, f, &call->config, call->arena, e);
}

int command_convert(struct call *call, struct err *e)
{
    struct file_format f;
    if (call->n_arguments != 2)
        return err_set(e, "convert takes an input and an output: kiln convert IN OUT; `kiln merge` "
                          "takes several inputs");
    const char *to = call->arguments[1];
    if (file_format_of(to, call->to, &f, e))
        return -1;
    call->n_arguments = 1;
    // Write what was read: do not add mappings or drop frames.
    call->source.as_is = f.format != CODEC_CALLGRIND;
    struct model_profile *p = call_load(call, 0, e);
    return p ? write_filtered(call, p, to, f, e) : -1;
}

int command_merge(struct call *call, struct err *e)
{
    struct file_format f;
    const char *to = *call->config.output ? call->config.output : "-";
    if (file_format_of(to, call->to, &f, e))
        return -1;
    call->source.as_is = f.format != CODEC_CALLGRIND;
    struct model_profile *p = call_load(call, 0, e);
    return p ? write_filtered(call, p, to, f, e) : -1;
}
