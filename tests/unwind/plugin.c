// Loaded by dlopen; its calls are bound at first use.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void plugin_work(void);

static volatile unsigned long sink;

__attribute__((noinline)) static int inner(const char *text)
{
    char *end, copy[64];
    snprintf(copy, sizeof copy, "%s!", text);
    sink += (unsigned long)strtol(copy, &end, 10) + strlen(end);
    return (int)strtoul(text, NULL, 10) + (int)strspn(text, "0123456789");
}

__attribute__((visibility("default"))) void plugin_work(void)
{
    sink += (unsigned long)inner("12345");
    char *p = strdup("abc");
    sink += (unsigned long)strcmp(p, "abd");
    free(p);
}
