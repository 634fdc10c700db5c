#include "cli/progress.h"

#include <termios.h>
#include <time.h>
#include <unistd.h>

static double progress_now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

void progress_begin(struct progress *p, bool quiet)
{
    *p = (struct progress){.wanted = !quiet && isatty(STDERR_FILENO), .begun = progress_now()};
    p->last = p->begun;
}

int progress_pause(const struct progress *p, bool program_ended)
{
    // Processes that are not our children end without a notification.
    return program_ended ? 100 : 1000;
}

// Whether we may write: not in the background, and not while a program that reads single keys has
// the screen.
static bool terminal_is_free(void)
{
    struct termios t;
    return tcgetpgrp(STDERR_FILENO) == getpgrp() && tcgetattr(STDERR_FILENO, &t) == 0 &&
           t.c_lflag & ICANON;
}

void progress_show(struct progress *p, const struct harvest_totals *t)
{
    double at = progress_now(), elapsed = at - p->begun;
    if (!p->wanted || at - p->last < 0.9 || !terminal_is_free())
        return;
    p->last = at;
    fprintf(stderr, "\r\033[Kkiln: %.0f s, %.1f s of CPU time, %llu sample%s, %llu thread%s",
            elapsed, t->cpu, (unsigned long long)t->samples, str_plural(t->samples),
            (unsigned long long)t->threads, str_plural(t->threads));
    if (t->processes > 1)
        fprintf(stderr, ", %llu of %llu processes", (unsigned long long)t->alive,
                (unsigned long long)t->processes);
    if (t->dropped > 0)
        fprintf(stderr, ", %.2f s dropped", t->dropped);
    fflush(stderr);
    p->shown = true;
}

void progress_clear(struct progress *p)
{
    if (p->shown && terminal_is_free())
        fputs("\r\033[K", stderr);
    p->shown = false;
}
