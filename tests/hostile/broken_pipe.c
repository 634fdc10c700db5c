// Profiles are written to a pipe that nobody reads, and to a file that is as large as it may be:
// both are errors of a call, not the end of the process.
#include "hostile.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>

static int write_profiles(int fd)
{
#ifdef KILN_LINKED
    struct kiln_error error;
    struct kiln_output html = {.size = sizeof html, .format = KILN_HTML};
    int window = kiln_window_begin(&error);
    burn(0.05);
    int last = kiln_last_write(10, fd, &html, &error);
    return last == -1 && kiln_window_write(window, fd, &error) == -1;
#else
    return fd >= 0;
#endif
}

static bool is_pending(int signal)
{
    sigset_t pending;
    sigpending(&pending);
    return sigismember(&pending, signal);
}

int main(void)
{
    int ends[2];
    hostile_begin();
    require(pipe(ends) == 0, "pipe");
    close(ends[0]);
    fact("a broken pipe is an error", write_profiles(ends[1]));
    fact("no signal is left", !is_pending(SIGPIPE));

    // The program's own signal stays pending.
    sigset_t pipes;
    sigemptyset(&pipes);
    sigaddset(&pipes, SIGPIPE);
    sigprocmask(SIG_BLOCK, &pipes, NULL);
    raise(SIGPIPE);
    fact("the same while it is blocked", write_profiles(ends[1]));
    fact("it is still pending", is_pending(SIGPIPE));

    int file = open("limited", O_WRONLY | O_CREAT | O_TRUNC, 0600);
    struct rlimit none;
    require(file >= 0 && getrlimit(RLIMIT_FSIZE, &none) == 0, "a file");
    none.rlim_cur = 0;
    require(setrlimit(RLIMIT_FSIZE, &none) == 0, "setrlimit");
    bool good = write_profiles(file);
    none.rlim_cur = none.rlim_max;
    setrlimit(RLIMIT_FSIZE, &none);
    fact("a full file is an error", good);
    return 0;
}
