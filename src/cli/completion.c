#include "cli/commands.h"
int command_completion(int argc, char **argv) { return 2; }
