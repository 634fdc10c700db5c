#include "cli/commands.h"
int command_merge(struct call *call, struct err *e) { return err_set(e, "not yet"); }
int command_convert(struct call *call, struct err *e) { return err_set(e, "not yet"); }
