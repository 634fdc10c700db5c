#include "cli/commands.h"
int command_diff(struct call *call, struct err *e) { return err_set(e, "not yet"); }
