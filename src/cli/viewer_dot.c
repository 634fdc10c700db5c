// Layout by Graphviz: `dot -Tplain`, with a timeout of a few seconds.
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/viewer.h"

enum { PATIENCE_MS = 8000, MOST_LINES = 4000, POINTS = 72 };

extern char **environ;

static void write_input(int fd, const struct viewer_box *boxes, size_t n_boxes,
                        const struct viewer_line *lines, size_t n_lines)
{
    struct out out;
    out_init_fd(&out, fd);
    out_text(
        &out,
        "digraph "
        "g{node[shape=box,fixedsize=true,label=\"\"];edge[arrowhead=none];nodesep=.3;ranksep=.6\n");
    for (size_t i = 0; i < n_boxes; i++)
        out_printf(&out, "n%zu[width=%.3f,height=%.3f]\n", i, boxes[i].width / POINTS,
                   boxes[i].height / POINTS);
    for (size_t i = 0; i < n_lines; i++)
        out_printf(&out, "n%u->n%u[weight=%d]\n", lines[i].from, lines[i].to,
                   1 + (int)(lines[i].weight * 100));
    out_text(&out, "}\n");
    out_finish(&out, NULL);
    out_fini(&out);
    lseek(fd, 0, SEEK_SET);
}

static bool run_plain_dot(int in, int out)
{
    char *argv[] = {"dot", "-Tplain", NULL};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    pid_t child;
    int failed = posix_spawnp(&child, argv[0], &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (failed)
        return false;
    int status = -1, handle = (int)syscall(SYS_pidfd_open, child, 0);
    struct pollfd ended = {.fd = handle, .events = POLLIN};
    if (handle < 0 || poll(&ended, 1, PATIENCE_MS) <= 0)
        kill(child, SIGKILL);
    if (handle >= 0)
        close(handle);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    return status == 0;
}

// Removes the next word of a line and returns it as a number.
static double read_dot_number(struct str *line)
{
    while (line->n && line->p[0] == ' ')
        *line = str_from_to(*line, 1, line->n);
    size_t end = str_find(*line, STR(" "), 0);
    struct str word = str_from_to(*line, 0, end == SIZE_MAX ? line->n : end);
    *line = str_from_to(*line, word.n, line->n);
    double value = 0;
    if (word.n && word.p[0] == 'n')
        word = str_from_to(word, 1, word.n);
    str_to_double(word, &value);
    return value;
}

static bool read_edge(struct str line, double height, struct viewer_line *lines, size_t n_lines,
                      size_t *next, struct arena *arena)
{
    uint32_t from = (uint32_t)read_dot_number(&line), to = (uint32_t)read_dot_number(&line);
    size_t n = (size_t)read_dot_number(&line), at = *next;
    // dot sorts edges by their first node; search ours from the last one found.
    for (size_t tries = 0; tries < n_lines; tries++, at = (at + 1) % n_lines) {
        if (lines[at].from != from || lines[at].to != to || lines[at].points)
            continue;
        if (n > 10000)
            return false;
        lines[at].points = arena_array(arena, 2 * n, sizeof(double));
        lines[at].n_points = 2 * n;
        for (size_t i = 0; i < n; i++) {
            lines[at].points[2 * i] = read_dot_number(&line) * POINTS;
            lines[at].points[2 * i + 1] = (height - read_dot_number(&line)) * POINTS;
        }
        *next = at;
        return true;
    }
    return false;
}

static bool read_dot_output(struct str text, struct viewer_box *boxes, size_t n_boxes,
                            struct viewer_line *lines, size_t n_lines, struct arena *arena)
{
    struct str line;
    double height = 0;
    size_t placed = 0, next = 0;
    while (str_next_line(&text, &line)) {
        if (str_starts(line, STR("graph "))) {
            line = str_from_to(line, 6, line.n);
            read_dot_number(&line);
            read_dot_number(&line);
            height = read_dot_number(&line);
        } else if (str_starts(line, STR("node n"))) {
            line = str_from_to(line, 5, line.n);
            size_t i = (size_t)read_dot_number(&line);
            if (i >= n_boxes)
                return false;
            boxes[i].x = read_dot_number(&line) * POINTS - boxes[i].width / 2;
            boxes[i].y = (height - read_dot_number(&line)) * POINTS - boxes[i].height / 2;
            placed++;
        } else if (str_starts(line, STR("edge n"))) {
            if (!read_edge(str_from_to(line, 5, line.n), height, lines, n_lines, &next, arena))
                return false;
        }
    }
    return placed == n_boxes;
}

bool viewer_dot(struct viewer_box *boxes, size_t n_boxes, struct viewer_line *lines, size_t n_lines,
                struct arena *arena)
{
    if (n_lines > MOST_LINES)
        return false;
    int in = memfd_create("dot", MFD_CLOEXEC), out = memfd_create("plain", MFD_CLOEXEC);
    bool good = false;
    if (in >= 0 && out >= 0) {
        write_input(in, boxes, n_boxes, lines, n_lines);
        if (run_plain_dot(in, out)) {
            off_t n = lseek(out, 0, SEEK_END);
            char *text = arena_alloc(arena, (size_t)n + 1);
            good = pread(out, text, (size_t)n, 0) == n &&
                   read_dot_output((struct str){text, (size_t)n}, boxes, n_boxes, lines, n_lines,
                                   arena);
        }
    }
    if (in >= 0)
        close(in);
    if (out >= 0)
        close(out);
    return good;
}
