// The profiler's own interface from many threads at once.
#include "soak.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

// Windows opened, written, cancelled; wrong numbers; descriptors that cannot be written to.
static void windows(struct load *self)
{
    struct kiln_error error;
    int open_now[4];
    for (unsigned i = 0; i < 4; i++) {
        open_now[i] = kiln_window_begin(&error);
        usleep(soak_random() % 3000);
    }
    int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    CHECK(fd >= 0);
    for (unsigned i = 0; i < 4; i++) {
        // While the profiler is stopped there are no windows.
        if (open_now[i] < 0)
            CHECK(strlen(error.message) > 0);
        else if (i == 3)
            kiln_window_cancel(open_now[i]);
        else
            kiln_window_write(open_now[i], i == 2 ? 12345 : fd, &error);
    }
    CHECK(kiln_window_write(-1, fd, &error) == -1 && kiln_window_write(4000, fd, NULL) == -1);
    CHECK(close(fd) == 0);
    usleep(20000);
    atomic_fetch_add(&self->events, 4);
}

static void labels(struct load *self)
{
    char value[32];
    for (unsigned i = 0; i < 20; i++) {
        snprintf(value, sizeof value, "%u", soak_random() % 50);
        kiln_labels outer = kiln_labels_with(0, "round", value);
        kiln_labels had = kiln_labels_enter(outer);
        kiln_labels inner = kiln_labels_with(outer, "depth", "two");
        CHECK(outer && inner && inner != outer && kiln_labels_current() == outer);
        kiln_labels_enter(inner);
        soak_work();
        CHECK(kiln_labels_without(inner, "depth") == outer);
        CHECK(kiln_labels_enter(had) == inner);
    }
    struct kiln_statistics s = {.size = sizeof s};
    kiln_get_statistics(&s);
    CHECK(s.ticks >= s.ring_full);
    atomic_fetch_add(&self->events, 60);
    usleep(5000);
}

struct load kiln_loads[] = {
    {.name = "windows", .round = windows, .event = "windows", .needs_kiln = true},
    {.name = "labels", .round = labels, .event = "changes", .needs_kiln = true},
    {0},
};
