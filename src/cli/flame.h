// Flame graphs for all commands that draw one.
#pragma once

#include "cli/commands.h"
#include "report/flame.h"

// Draws p in the format given by the name in -o (see kiln flame); adds the options of that format.
int flame_draw(const struct call *call, const struct model_profile *p,
               struct report_flame_options options, struct err *e);
// Checks that name has a supported format. Returns -1 and fills e otherwise.
int flame_check(const char *name, struct err *e);
