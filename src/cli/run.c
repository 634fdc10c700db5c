// kiln run: profiles a program that nobody changed, by preloading libkiln into it.
#include "cli/commands.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/file.h"
#include "cli/flags.h"

struct run {
    int frequency, depth;
    bool follow;
    const char *output;
    char **program;
    char directory[64];
};

static int usage(FILE *to)
{
    fputs("Usage: kiln run [-F HZ] [-o FILE] [--follow] -- PROGRAM [ARGUMENT...]\n\n"
          "Runs a program, dynamically linked and otherwise as it is, and profiles its CPU time\n"
          "from start to end. The exit status is the program's.\n\n"
          "  -F HZ       samples per CPU-second, 1 to 10000 (default 100)\n"
          "  -o FILE     the profile: .pb.gz, .svg, .html, .folded, ... (default PROGRAM.pb.gz)\n"
          "  --depth N   frames of a stack, up to 1024 (default 128)\n"
          "  --follow    children too, added up\n\n"
          "  kiln run -- ./app --port 8080\n"
          "  kiln run -F 1000 -o app.html -- ./app\n"
          "  kiln run --follow -o build.svg -- make -j2\n",
          to);
    return to == stdout ? 0 : 2;
}

static int fail(const struct err *e)
{
    fprintf(stderr, "kiln: %s\n", e->message);
    return 2;
}

// Beside the command: in the build tree, or where it was installed.
static int find_library(char *path, size_t size, struct err *e)
{
    static const char *const places[] = {"libkiln.so", "src/agent/libkiln.so", "../lib/libkiln.so",
                                         "../lib/x86_64-linux-gnu/libkiln.so",
                                         "../lib/aarch64-linux-gnu/libkiln.so"};
    const char *given = getenv("KILN_LIBRARY");
    if (given && *given) {
        snprintf(path, size, "%s", given);
        return access(path, R_OK) ? err_set(e, "KILN_LIBRARY: %s: %s", path, strerror(errno)) : 0;
    }
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = '\0';
    char *slash = strrchr(self, '/');
    for (size_t i = 0; slash && i < sizeof places / sizeof *places; i++) {
        snprintf(path, size, "%.*s/%s", (int)(slash - self), self, places[i]);
        if (access(path, R_OK) == 0)
            return 0;
    }
    return err_set(e, "libkiln.so is not beside the kiln command; set KILN_LIBRARY to its path");
}

static void set_number(const char *name, int value)
{
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    if (value > 0)
        setenv(name, text, 1);
}

static void become_program(const struct run *run, const char *library)
{
    char text[2 * PATH_MAX];
    const char *others = getenv("LD_PRELOAD");
    snprintf(text, sizeof text, "%s%s%s", library, others ? ":" : "", others ? others : "");
    setenv("LD_PRELOAD", text, 1);
    snprintf(text, sizeof text, "%s/%%p.pb.gz", run->directory);
    setenv("KILN_OUTPUT", text, 1);
    set_number("KILN_FREQUENCY", run->frequency);
    set_number("KILN_DEPTH", run->depth);
    if (run->follow)
        setenv("KILN_FOLLOW", "1", 1);
    execvp(run->program[0], run->program);
    fprintf(stderr, "kiln: %s: %s\n", run->program[0], strerror(errno));
    _exit(errno == ENOENT ? 127 : 126);
}

static pid_t child;

static void pass_on(int signal)
{
    kill(child, signal);
}

// The program's exit status as a shell would tell it.
static int wait_for_program(void)
{
    // The terminal's interrupts reach the program by themselves; the profile is still wanted.
    signal(SIGINT, SIG_IGN);
    signal(SIGQUIT, SIG_IGN);
    signal(SIGTERM, pass_on);
    signal(SIGHUP, pass_on);
    int status;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static bool is_picture(const char *name)
{
    struct str s = str_from(name);
    return str_ends(s, STR(".svg")) || str_ends(s, STR(".html"));
}

// Adds up what the processes left, with names, in the format that the output's name tells.
static int write_output(const struct run *run, char **files, size_t n)
{
    char **argv = calloc(n + 4, sizeof *argv);
    if (!argv)
        return 2;
    const char *command = is_picture(run->output) ? "flame" : "symbolize";
    argv[0] = (char *)command;
    argv[1] = "-o";
    argv[2] = (char *)run->output;
    memcpy(argv + 3, files, n * sizeof *argv);
    int status = command_main(command_find(command), (int)n + 3, argv);
    free(argv);
    return status;
}

static int collect(const struct run *run)
{
    char pattern[128];
    glob_t found;
    snprintf(pattern, sizeof pattern, "%s/*", run->directory);
    int status = 2;
    if (glob(pattern, 0, NULL, &found) == 0) {
        status = write_output(run, found.gl_pathv, found.gl_pathc);
        for (size_t i = 0; i < found.gl_pathc; i++)
            unlink(found.gl_pathv[i]);
        globfree(&found);
        if (status == 0)
            fprintf(stderr, "kiln: %s written\n", run->output);
    } else {
        fputs("kiln: the program left no profile: it is statically linked, or it was killed\n",
              stderr);
    }
    rmdir(run->directory);
    return status;
}

int command_run(int argc, char **argv)
{
    struct run run = {.directory = "/tmp/kiln-run-XXXXXX", .output = ""};
    const struct flag flags[] = {
        {"F", FLAG_INT, &run.frequency, ""},
        {"o", FLAG_STRING, &run.output, ""},
        {"depth", FLAG_INT, &run.depth, ""},
        {"follow", FLAG_BOOL, &run.follow, ""},
    };
    struct err e;
    int n;
    int parsed = flags_parse(flags, sizeof flags / sizeof *flags, argc, argv, &n, &e);
    if (parsed > 0)
        return usage(stdout);
    if (parsed < 0)
        return fail(&e);
    if (n == 0)
        return usage(stderr);
    argv[n + 1] = NULL;
    run.program = argv + 1;
    char library[PATH_MAX], name[NAME_MAX];
    if (!*run.output) {
        const char *slash = strrchr(run.program[0], '/');
        snprintf(name, sizeof name, "%.200s.pb.gz", slash ? slash + 1 : run.program[0]);
        run.output = name;
    }
    struct file_format format;
    if (find_library(library, sizeof library, &e) ||
        (!is_picture(run.output) && file_format_of(run.output, "", &format, &e)))
        return fail(&e);
    if (!mkdtemp(run.directory)) {
        err_set(&e, "%s: %s", run.directory, strerror(errno));
        return fail(&e);
    }
    child = fork();
    if (child == 0)
        become_program(&run, library);
    int status = child < 0 ? 2 : wait_for_program();
    int written = collect(&run);
    return status ? status : written;
}
