// What the programs that call the C interface share.
#pragma once

#include <fcntl.h>
#include <kiln/heap.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int wrong;
#define CHECK(good)                                                          \
    do {                                                                     \
        if (!(good)) {                                                       \
            fprintf(stderr, "line %d: %s does not hold\n", __LINE__, #good); \
            wrong = 1;                                                       \
        }                                                                    \
    } while (0)

static struct kiln_error error;

// What is written, as text. window: -1: everything.
static char *text_of(int window, uint32_t format)
{
    static char text[1 << 20];
    char path[] = "/tmp/kiln-heap-XXXXXX";
    int fd = mkstemp(path);
    struct kiln_output output = {sizeof output, format, KILN_ADDRESSES, 0, NULL};
    unlink(path);
    int result = window < 0 ? kiln_heap_write(fd, &output, &error)
                            : kiln_heap_window_write(window, fd, &output, &error);
    if (result) {
        fprintf(stderr, "%s\n", error.message);
        wrong = 1;
    }
    ssize_t n = pread(fd, text, sizeof text - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    close(fd);
    return text;
}

// The four sums.
static void sums(int window, long long values[4])
{
    memset(values, 0, 4 * sizeof *values);
    for (const char *at = text_of(window, KILN_JSON); (at = strstr(at, "\"values\":["));) {
        at += strlen("\"values\":[");
        for (int i = 0; i < 4; i++)
            values[i] += strtoll(at, (char **)&at, 10), at++;
    }
}
