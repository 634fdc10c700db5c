// The subcommands of `kiln`. argv[0] is the subcommand's name; the result is the exit
// status.
#pragma once

int command_pprof(int argc, char **argv);
