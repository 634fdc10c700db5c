// A program that asks to be traced, to find out whether it is traced already: from then on each of
// its signals stops it for good, because its parent is no debugger. It gets none.
#include "hostile.h"

#include <pthread.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>

static void *work(void *context)
{
    burn(0.05);
    return context;
}

int main(int argc, char **argv)
{
    require(argc == 2, "an argument");
    hostile_begin();
    burn(0.02);
    fact("nobody traces it", (is(argv[1], "ptrace") ? ptrace(PTRACE_TRACEME, 0, NULL, NULL)
                                                    : syscall(SYS_ptrace, PTRACE_TRACEME)) == 0);
    // Long enough for the profiler to look for threads.
    for (int i = 0; i < 6; i++) {
        pthread_t thread;
        require(pthread_create(&thread, NULL, work, NULL) == 0, "pthread_create");
        pthread_join(thread, NULL);
        burn(0.05);
    }
    fact("now its parent does", ptrace(PTRACE_TRACEME, 0, NULL, NULL) == -1);
    return 0;
}
