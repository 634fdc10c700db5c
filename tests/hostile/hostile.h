// Shared by the hostile programs. A program's output must be the same in every run and mode, so
// programs print facts that must hold, never counts, times or addresses.
#ifndef HOSTILE_H
#define HOSTILE_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifdef KILN_LINKED
#include <kiln/kiln.h>
#endif

// Straight to the descriptor: no stdio buffer that a child of fork could print a second time, and
// allowed wherever write is.
static inline void say(const char *text)
{
    if (write(STDOUT_FILENO, text, strlen(text)) < 0)
        _exit(98);
}

static inline void fact(const char *what, bool holds)
{
    char line[300];
    snprintf(line, sizeof line, "%s: %s\n", what, holds ? "yes" : "no");
    say(line);
}

// For what must work before the test can begin.
static inline void require(bool good, const char *what)
{
    if (good)
        return;
    say("setup failed: ");
    say(what);
    say("\n");
    _exit(99);
}

// Starts the profiler and opens a window where the program is linked with libkiln. Where libkiln is
// preloaded or absent, there is nothing to do.
static inline void hostile_begin(void)
{
#ifdef KILN_LINKED
    struct kiln_error error;
    struct kiln_options options = {.size = sizeof options, .frequency = 1000};
    if (kiln_start(&options, &error) || kiln_window_begin(&error) < 0)
        fprintf(stderr, "kiln: %s\n", error.message);
#endif
}

static inline double seconds_of(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

// Uses CPU time of the calling thread.
static inline void burn(double seconds)
{
    double end = seconds_of(CLOCK_THREAD_CPUTIME_ID) + seconds;
    do
        for (volatile int i = 0; i < 20000; i++)
            ;
    while (seconds_of(CLOCK_THREAD_CPUTIME_ID) < end);
}

// The same without a system call. A million rounds take about a millisecond.
static inline void spin(long rounds)
{
    for (volatile long i = 0; i < rounds; i++)
        ;
}

// The whole time, however many signals arrive.
static inline void pause_ms(long ms)
{
    struct timespec left = {ms / 1000, ms % 1000 * 1000000};
    while (nanosleep(&left, &left))
        ;
}

static inline bool is(const char *argument, const char *word)
{
    return strcmp(argument, word) == 0;
}

#endif
