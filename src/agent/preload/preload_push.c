#include "agent/preload/preload_push.h"

#include <kiln/kiln.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "process/process.h"

enum { TAGS = 32 };

// Splits k=v,k=v into names and values, terminated by NULL. Returns false if it is invalid.
static bool split_tags(char *text, const char *tags[2 * TAGS + 1])
{
    size_t n = 0;
    for (char *next = text; next && *next && n < TAGS;) {
        char *tag = next, *comma = strchr(tag, ',');
        next = comma ? comma + 1 : NULL;
        if (comma)
            *comma = '\0';
        char *equals = strchr(tag, '=');
        if (!equals)
            return false;
        *equals = '\0';
        tags[2 * n] = tag;
        tags[2 * n + 1] = equals + 1;
        n++;
    }
    tags[2 * n] = NULL;
    return true;
}

bool preload_push_start(void (*print_error)(const char *what, const char *why))
{
    const char *url = process_getenv("KILN_PUSH"), *given = process_getenv("KILN_TAGS"),
               *interval = process_getenv("KILN_PUSH_INTERVAL");
    const char *tags[2 * TAGS + 1] = {NULL};
    struct kiln_push_options o = {
        .size = sizeof o,
        .url = url,
        .application = process_getenv("KILN_APP"),
        .tags = tags,
        .token = process_getenv("KILN_PUSH_TOKEN"),
        .tenant = process_getenv("KILN_TENANT"),
    };
    struct kiln_error error;
    if (!url || !*url)
        return false;
    char *end = NULL, *text = strdup(given ? given : "");
    if (interval && *interval)
        o.interval = (uint32_t)strtoul(interval, &end, 10);
    bool pushes = text && split_tags(text, tags);
    if (!pushes)
        print_error("push is off", "invalid KILN_TAGS; expected NAME=VALUE,NAME=VALUE");
    else if (end && (*end || o.interval == 0)) {
        print_error("push is off", "invalid KILN_PUSH_INTERVAL; expected a number of seconds");
        pushes = false;
    } else if (kiln_push_start(&o, &error)) {
        print_error("push is off", error.message);
        pushes = false;
    }
    free(text);
    return pushes;
}

void preload_push_stop(void (*print_error)(const char *what, const char *why))
{
    struct kiln_push_statistics s = {.size = sizeof s};
    char text[400];
    kiln_push_stop();
    kiln_push_get_statistics(&s);
    if (s.dropped == 0)
        return;
    snprintf(text, sizeof text, "%llu of %llu profiles were not sent: %s",
             (unsigned long long)s.dropped, (unsigned long long)s.windows, s.error);
    print_error("push", text);
}
