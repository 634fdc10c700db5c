// What a just-in-time compiler of this process wrote down for perf: /tmp/perf-PID.map, and
// jit-PID.dump wherever the process has it mapped.
#pragma once

#include "symbol/jit_profile.h"

struct jit_files names_jit_open(void);
void names_jit_close(const struct jit_files *files);
