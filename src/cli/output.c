#include "cli/output.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/source.h"

enum { LARGEST_GRAPH = 1 << 30 };

int output_begin(struct out *out, const char *name, struct err *e)
{
    int fd = STDOUT_FILENO;
    if (*name)
        fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0)
        return err_set(e, "%s: %s", name, strerror(errno));
    out_init_fd(out, fd);
    return 0;
}

int output_end(struct out *out, const char *name, struct err *e)
{
    int fd = out->fd, result = out_finish(out, e);
    out_fini(out);
    if (*name && close(fd) && result == 0)
        result = err_set(e, "%s: %s", name, strerror(errno));
    return result;
}

int output_check(const char *output, struct err *e)
{
    char directory[PATH_MAX] = ".";
    struct stat st;
    const char *slash = strrchr(output, '/');
    if (stat(output, &st) == 0) {
        if (S_ISDIR(st.st_mode))
            return err_set(e, "%s: Is a directory; expected the name of a file", output);
        return faccessat(AT_FDCWD, output, W_OK, AT_EACCESS)
                   ? err_set(e, "%s: %s", output, strerror(errno))
                   : 0;
    }
    if (slash)
        snprintf(directory, sizeof directory, "%.*s/.", (int)(slash - output), output);
    return faccessat(AT_FDCWD, directory, W_OK | X_OK, AT_EACCESS)
               ? err_set(e, "cannot create %s: %s", output, strerror(errno))
               : 0;
}

int output_new_file(struct arena *arena, const char *prefix, const char *suffix, char **name,
                    struct err *e)
{
    for (int i = 1; i < 10000; i++) {
        *name = arena_printf(arena, "%s%03d%s", prefix, i, suffix);
        int fd = open(*name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0)
            return fd;
        if (errno != EEXIST)
            return err_set(e, "%s: %s", *name, strerror(errno));
    }
    return err_set(e, "could not create file of the form %s001%s", prefix, suffix);
}

// Runs `dot -Tformat` with text as input; its output goes to fd.
static int run_dot(const char *format, const struct out *text, int fd, struct err *e)
{
    int in[2];
    if (pipe2(in, O_CLOEXEC))
        return err_set(e, "pipe: %s", strerror(errno));
    char option[16];
    snprintf(option, sizeof option, "-T%s", format);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        dup2(in[0], STDIN_FILENO);
        dup2(fd, STDOUT_FILENO);
        execlp("dot", "dot", option, (char *)NULL);
        _exit(127);
    }
    close(in[0]);
    // dot may exit before it has read its input.
    void (*old)(int) = signal(SIGPIPE, SIG_IGN);
    struct out to;
    out_init_fd(&to, in[1]);
    out_write(&to, text->p, text->n);
    out_finish(&to, NULL);
    out_fini(&to);
    close(in[1]);
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) < 0)
        status = -1;
    signal(SIGPIPE, old);
    if (status == 0)
        return 0;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
        return err_set(e, "failed to execute dot. Is Graphviz installed? Without it use -dot, or "
                          "`kiln flame`");
    return err_set(e, "dot failed to draw the graph (status %d)", status);
}

// Like run_dot for SVG, with panning and zooming added.
static int run_dot_svg(const struct out *text, int fd, struct err *e)
{
    int drawn = memfd_create("graph", MFD_CLOEXEC);
    if (drawn < 0)
        return err_set(e, "memfd_create: %s", strerror(errno));
    int result = run_dot("svg", text, drawn, e);
    off_t n = lseek(drawn, 0, SEEK_END);
    void *svg =
        result == 0 && n > 0 ? mmap(NULL, (size_t)n, PROT_READ, MAP_PRIVATE, drawn, 0) : NULL;
    if (svg && svg != MAP_FAILED) {
        struct out out;
        out_init_fd(&out, fd);
        report_dot_svg((struct str){svg, (size_t)n}, &out);
        result = out_finish(&out, e);
        out_fini(&out);
        munmap(svg, (size_t)n);
    } else if (result == 0) {
        result = err_set(e, "dot drew nothing");
    }
    close(drawn);
    return result;
}

static int write_report_to_fd(struct report *r, const struct view_command *command,
                              const struct out *ready, int fd, struct err *e)
{
    struct out out;
    if (ready->p && command->post)
        return strcmp(command->post, "svg") == 0 ? run_dot_svg(ready, fd, e)
                                                 : run_dot(command->post, ready, fd, e);
    out_init_fd(&out, fd);
    int result = 0;
    if (ready->p)
        out_write(&out, ready->p, ready->n);
    else
        result = report_write(r, &out, e);
    if (out_finish(&out, result ? NULL : e))
        result = -1;
    out_fini(&out);
    return result;
}

// Shows a file in the first viewer that starts.
static int show_in_viewer(const struct view_command *command, const char *file, bool in_shell,
                          struct err *e)
{
    const char *first = getenv("BROWSER");
    bool is_web = strncmp(command->name, "web", 3) == 0; // also weblist
    for (int i = is_web && first ? -1 : 0; i < 0 || command->viewers[i]; i++) {
        const char *viewer = i < 0 ? first : command->viewers[i];
        int report[2];
        if (pipe2(report, O_CLOEXEC))
            return err_set(e, "pipe: %s", strerror(errno));
        pid_t child = fork();
        if (child == 0) {
            execlp(viewer, viewer, file, (char *)NULL);
            int failure = errno;
            _exit(write(report[1], &failure, sizeof failure) < 0 ? 126 : 127);
        }
        close(report[1]);
        int failure;
        bool started = child > 0 && read(report[0], &failure, sizeof failure) == 0;
        close(report[0]);
        if (!started && child > 0)
            waitpid(child, NULL, 0);
        if (!started)
            continue;
        if (!in_shell)
            waitpid(child, NULL, 0);
        sleep(1); // a wrapper may return before the file is read
        return 0;
    }
    return err_set(e, "cannot start a program to show the report; tried %s first",
                   command->viewers[0]);
}

// Writes reports that may fail late to memory: input of dot, and reports on functions that may not
// exist. So no file is created or overwritten if there is no report. Other reports are written
// incrementally, and the memory of ready stays NULL.
static int make_ready(struct report *r, const struct view_command *command, struct out *ready,
                      struct err *e)
{
    *ready = (struct out){0};
    if (!command->post && !command->takes_regexp)
        return 0;
    out_init_memory(ready, LARGEST_GRAPH);
    return report_write(r, ready, e) || out_finish(ready, e) ? -1 : 0;
}

static int write_report(struct report *r, const struct view_command *command,
                        const struct out *ready, const char *output, bool in_shell, struct err *e)
{
    char *name = NULL;
    int fd = STDOUT_FILENO;
    if (*output) {
        source_complain(arena_printf(r->arena, "Generating report in %s", output));
        fd = open(output, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
        if (fd < 0)
            return err_set(e, "%s: %s", output, strerror(errno));
    } else if (command->viewers) {
        const char *dir = getenv("TMPDIR");
        const char *kind = command->post ? command->post : command->extension;
        fd = output_new_file(r->arena, arena_printf(r->arena, "%s/pprof", dir ? dir : "/tmp"),
                             arena_printf(r->arena, ".%s", kind), &name, e);
    } else if (command->extension && (in_shell || isatty(STDOUT_FILENO))) {
        fd = output_new_file(r->arena, "profile", arena_printf(r->arena, ".%s", command->extension),
                             &name, e);
        if (fd >= 0)
            source_complain(arena_printf(r->arena, "Generating report in %s", name));
    }
    if (fd < 0)
        return -1;
    int result = write_report_to_fd(r, command, ready, fd, e);
    if (fd != STDOUT_FILENO && close(fd) && result == 0)
        result = err_set(e, "%s: %s", *output ? output : name, strerror(errno));
    if (result == 0 && command->viewers && !*output)
        result = show_in_viewer(command, name, in_shell, e);
    if (name && command->viewers && !in_shell)
        unlink(name);
    return result;
}

int output_report(struct report *r, const struct view_command *command, const char *output,
                  bool in_shell, struct err *e)
{
    struct out ready;
    int result = make_ready(r, command, &ready, e);
    if (result == 0)
        result = write_report(r, command, &ready, output, in_shell, e);
    out_fini(&ready);
    return result;
}
