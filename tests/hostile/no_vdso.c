// A program that unmaps the kernel's vDSO and its data, as sandboxes do to get a coarse clock only,
// before or after the profiler starts.
#include "hostile.h"

#include <pthread.h>
#include <sys/mman.h>

enum { MOST = 8 };

static void unmap_vdso(void)
{
    char line[400];
    unsigned long from[MOST], to[MOST];
    char *end;
    int n = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    require(maps != NULL, "maps");
    while (n < MOST && fgets(line, sizeof line, maps))
        if (strstr(line, "[v") && !strstr(line, "[vsyscall]")) {
            from[n] = strtoul(line, &end, 16);
            to[n++] = strtoul(end + 1, NULL, 16);
        }
    fclose(maps);
    while (n--)
        munmap((void *)from[n], to[n] - from[n]);
}

static void *work(void *context)
{
    spin(20000000);
    return context;
}

int main(int argc, char **argv)
{
    require(argc == 2, "an argument");
    if (is(argv[1], "before"))
        unmap_vdso();
    hostile_begin();
    spin(20000000);
    if (is(argv[1], "after"))
        unmap_vdso();
    for (int i = 0; i < 3; i++) {
        pthread_t thread;
        require(pthread_create(&thread, NULL, work, NULL) == 0, "pthread_create");
        spin(20000000);
        pthread_join(thread, NULL);
    }
    say("done\n");
    return 0;
}
