#include "cli/shell.h"

int shell_run(const struct model_profile *p, const struct config *config, struct arena *arena)
{
    return 0;
}

void shell_usage(FILE *to, const char *prefix)
{
}
