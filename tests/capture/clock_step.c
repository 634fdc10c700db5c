// The wall clock is set back while the profiler runs: its thread must go on waking up. Prints
// `N passed, N failed`.
#include <kiln/kiln.h>

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static _Atomic time_t ahead = 3600;

// In place of libc's, for everything that is linked into this program.
int clock_gettime(clockid_t clock, struct timespec *ts)
{
    int result = (int)syscall(SYS_clock_gettime, clock, ts);
    if (clock == CLOCK_REALTIME)
        ts->tv_sec += ahead;
    return result;
}

// How often threads of the profiler have gone to sleep.
static long count_sleeps(void)
{
    long sum = 0;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *e; tasks && (e = readdir(tasks));) {
        char path[300], line[200];
        bool own = false;
        snprintf(path, sizeof path, "/proc/self/task/%s/status", e->d_name);
        FILE *file = e->d_name[0] == '.' ? NULL : fopen(path, "r");
        while (file && fgets(line, sizeof line, file)) {
            own |= strcmp(line, "Name:\tkiln\n") == 0;
            if (own && strncmp(line, "voluntary_ctxt_switches:", 24) == 0)
                sum += strtol(line + 24, NULL, 10);
        }
        if (file)
            fclose(file);
    }
    closedir(tasks);
    return sum;
}

int main(void)
{
    struct kiln_error error;
    if (kiln_start(NULL, &error)) {
        printf("Bail out! %s\n", error.message);
        return 1;
    }
    sleep(3); // objects are not looked for as often any more
    ahead = 0;
    usleep(600000);
    long before = count_sleeps();
    sleep(2);
    long sleeps = count_sleeps() - before;
    kiln_stop();
    printf("%s - waits of the profiler after the wall clock was set back: %ld, wanted 3 or more\n",
           sleeps >= 3 ? "ok" : "not ok", sleeps);
    printf("%d passed, %d failed\n", sleeps >= 3, sleeps < 3);
    return sleeps < 3;
}
