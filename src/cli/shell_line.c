#include "cli/shell_line.h"

#include <errno.h>
#include <fcntl.h>
#include <histedit.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/shell_complete.h"

enum { HISTORY = 1000, MOST_SHOWN = 120 };

struct shell_line {
    const struct model_profile *p;
    struct arena *arena;
    char *text; // buffer of getline
    size_t size;
    // Only with a terminal.
    EditLine *el;
    History *history;
    char *history_file; // NULL: no place for one
    FILE *to;
    bool interrupted;
};

// --- history ---

static bool make_dirs(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        bool made = mkdir(path, 0700) == 0 || errno == EEXIST;
        *slash = '/';
        if (!made)
            return false;
    }
    return true;
}

static char *history_name(struct arena *arena)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    char *name = NULL;
    if (state && *state == '/')
        name = arena_printf(arena, "%s/kiln/history", state);
    else if (home && *home == '/')
        name = arena_printf(arena, "%s/.local/state/kiln/history", home);
    return name && make_dirs(name) ? name : NULL;
}

static void open_history(struct shell_line *line)
{
    HistEvent event;
    line->history = history_init();
    if (!line->history)
        return;
    history(line->history, &event, H_SETSIZE, HISTORY);
    history(line->history, &event, H_SETUNIQUE, 1);
    line->history_file = history_name(line->arena);
    if (line->history_file && access(line->history_file, R_OK) == 0)
        history(line->history, &event, H_LOAD, line->history_file);
    el_set(line->el, EL_HIST, history, line->history);
}

static void save_history(struct shell_line *line)
{
    HistEvent event;
    // The history is private: it contains searched function names.
    int fd =
        line->history_file ? open(line->history_file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (fd < 0)
        return;
    fchmod(fd, 0600);
    close(fd);
    history(line->history, &event, H_SAVE, line->history_file);
}

// --- keys ---

static struct shell_line *editor_line(EditLine *el)
{
    struct shell_line *line = NULL;
    el_get(el, EL_CLIENTDATA, &line);
    return line;
}

static char *shell_prompt(EditLine *el)
{
    static char text[] = "(pprof) ";
    return text;
}

// Ctrl-C discards the line, nothing else.
static unsigned char on_interrupt(EditLine *el, int key)
{
    editor_line(el)->interrupted = true;
    return CC_NEWLINE;
}

// In columns, like ls.
static void show_candidates(struct shell_line *line, const struct shell_completion *c)
{
    struct winsize size = {.ws_col = 80};
    ioctl(fileno(line->to), TIOCGWINSZ, &size);
    size_t n = c->n < MOST_SHOWN ? c->n : MOST_SHOWN, widest = 1;
    for (size_t i = 0; i < n; i++) {
        size_t width = strlen(c->list[i]);
        widest = width > widest ? width : widest;
    }
    size_t columns = size.ws_col / (widest + 2);
    columns = columns ? columns : 1;
    size_t rows = (n + columns - 1) / columns;
    for (size_t r = 0; r < rows; r++) {
        fputc('\n', line->to);
        for (size_t i = r; i < n; i += rows) {
            bool last = i + rows >= n;
            fprintf(line->to, "%-*s", last ? 0 : (int)widest + 2, c->list[i]);
        }
    }
    if (c->n > n)
        fprintf(line->to, "\n... and %zu more", c->n - n);
    fputc('\n', line->to);
}

static unsigned char on_tab(EditLine *el, int key)
{
    struct shell_line *line = editor_line(el);
    const LineInfo *info = el_line(el);
    struct str before = {info->buffer, (size_t)(info->cursor - info->buffer)};
    struct arena *arena = arena_new(0);
    if (!arena)
        return CC_ERROR;
    struct shell_completion c = shell_complete(line->p, before, arena);
    size_t common = shell_completion_common(&c);
    unsigned char result = CC_ERROR;
    if (c.n && (common > c.replace || c.n == 1)) {
        bool space = c.n == 1 && c.is_command && c.list[0][common - 1] != '=';
        char *text = arena_printf(arena, "%.*s%s", (int)common, c.list[0], space ? " " : "");
        el_deletestr(el, (int)c.replace);
        el_insertstr(el, text);
        result = CC_REFRESH;
    } else if (c.n > 1) {
        show_candidates(line, &c);
        result = CC_REDISPLAY;
    }
    arena_free(arena);
    return result;
}

// --- lines ---

static void ignore_signal(int signal)
{
}

static void open_editor(struct shell_line *line)
{
    line->to = isatty(STDOUT_FILENO) ? stdout : stderr;
    line->el = el_init("kiln", stdin, line->to, stderr);
    if (!line->el)
        return;
    el_set(line->el, EL_CLIENTDATA, line);
    el_set(line->el, EL_EDITOR, "emacs");
    el_set(line->el, EL_PROMPT, shell_prompt);
    el_set(line->el, EL_ADDFN, "kiln-complete", "Completes a word", on_tab);
    el_set(line->el, EL_ADDFN, "kiln-interrupt", "Gives up the line", on_interrupt);
    el_set(line->el, EL_BIND, "^I", "kiln-complete", NULL);
    el_set(line->el, EL_BIND, "^R", "em-inc-search-prev", NULL);
    el_set(line->el, EL_BIND, "^C", "kiln-interrupt", NULL);
    // Ctrl-C is a key while a line is edited, and ignored while a report is made. A handler instead
    // of SIG_IGN, so that started programs get the default action.
    el_set(line->el, EL_SETTY, "-d", "-isig", NULL);
    struct sigaction action = {.sa_handler = ignore_signal, .sa_flags = SA_RESTART};
    sigaction(SIGINT, &action, NULL);
    open_history(line);
    el_source(line->el, NULL);
}

struct shell_line *shell_line_new(const struct model_profile *p, struct arena *arena)
{
    struct shell_line *line = arena_alloc(arena, sizeof *line);
    line->p = p;
    line->arena = arena;
    if (isatty(STDIN_FILENO))
        open_editor(line);
    return line;
}

static const char *read_edited(struct shell_line *line)
{
    for (;;) {
        int n = 0;
        line->interrupted = false;
        const char *text = el_gets(line->el, &n);
        if (!text || n <= 0)
            return NULL;
        if (line->interrupted)
            continue;
        HistEvent event;
        if (line->history && strspn(text, " \t\n") < (size_t)n)
            history(line->history, &event, H_ENTER, text);
        return text;
    }
}

const char *shell_line_read(struct shell_line *line)
{
    if (line->el)
        return read_edited(line);
    ssize_t n = getline(&line->text, &line->size, stdin);
    return n < 0 ? NULL : line->text;
}

void shell_line_free(struct shell_line *line)
{
    if (!line)
        return;
    if (line->history) {
        save_history(line);
        history_end(line->history);
    }
    if (line->el)
        el_end(line->el);
    free(line->text);
}
