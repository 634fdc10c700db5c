// Opens what a JIT compiler of this process wrote for perf: /tmp/perf-PID.map, and jit-PID.dump
// wherever the process has mapped it.
#pragma once

#include "symbol/jit_profile.h"

struct jit_files names_jit_open(void);
void names_jit_close(const struct jit_files *files);
