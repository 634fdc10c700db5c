// Flame graphs for the commands that draw one.
#pragma once

#include "cli/commands.h"
#include "report/flame.h"

// Draws p as -o tells by its name (see kiln flame): what belongs to the format is added to options.
int flame_draw(const struct call *call, const struct model_profile *p,
               struct report_flame_options options, struct err *e);
// Whether it could be drawn as a file of that name. -1 with e filled.
int flame_check(const char *name, struct err *e);
