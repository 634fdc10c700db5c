#include "base/err.h"

#include <stdio.h>
#include <string.h>

int err_set(struct err *e, const char *format, ...)
{
    if (e) {
        va_list args;
        va_start(args, format);
        vsnprintf(e->message, sizeof e->message, format, args);
        va_end(args);
    }
    return -1;
}

int err_prefix(struct err *e, const char *format, ...)
{
    if (e) {
        char old[sizeof e->message];
        memcpy(old, e->message, sizeof old);
        va_list args;
        va_start(args, format);
        int n = vsnprintf(e->message, sizeof e->message, format, args);
        va_end(args);
        if (n >= 0 && (size_t)n < sizeof e->message)
            snprintf(e->message + n, sizeof e->message - (size_t)n, "%s", old);
    }
    return -1;
}
