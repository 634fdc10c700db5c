#include "report/graph.h"

#include <stdio.h>

struct str path_base(struct str path)
{
    if (path.n == 0)
        return STR(".");
    while (path.n > 1 && path.p[path.n - 1] == '/')
        path.n--;
    if (path.n == 1 && path.p[0] == '/')
        return STR("/");
    for (size_t i = path.n; i-- > 0;)
        if (path.p[i] == '/')
            return str_from_to(path, i + 1, path.n);
    return path;
}

struct str path_clean(struct arena *arena, struct str path)
{
    if (path.n == 0)
        return STR(".");
    bool rooted = path.p[0] == '/';
    char *to = arena_alloc(arena, path.n + 1);
    size_t n = 0, at = 0, dotdot = 0; // ".." does not remove output before dotdot
    if (rooted) {
        to[n++] = '/';
        at = dotdot = 1;
    }
    while (at < path.n) {
        bool last1 = at + 1 == path.n, last2 = at + 2 == path.n;
        if (path.p[at] == '/') {
            at++;
        } else if (path.p[at] == '.' && (last1 || path.p[at + 1] == '/')) {
            at++;
        } else if (path.p[at] == '.' && path.p[at + 1] == '.' && (last2 || path.p[at + 2] == '/')) {
            at += 2;
            if (n > dotdot) {
                n--;
                while (n > dotdot && to[n] != '/')
                    n--;
            } else if (!rooted) {
                if (n > 0)
                    to[n++] = '/';
                to[n++] = '.';
                to[n++] = '.';
                dotdot = n;
            }
        } else {
            if ((rooted && n != 1) || (!rooted && n != 0))
                to[n++] = '/';
            for (; at < path.n && path.p[at] != '/'; at++)
                to[n++] = path.p[at];
        }
    }
    return n ? (struct str){to, n} : STR(".");
}

bool path_next(struct str *list, struct str *item)
{
    if (!list->p)
        return false;
    size_t colon = str_find(*list, STR(":"), 0);
    *item = str_from_to(*list, 0, colon == SIZE_MAX ? list->n : colon);
    if (colon == SIZE_MAX)
        list->p = NULL;
    else
        *list = str_from_to(*list, colon + 1, list->n);
    return true;
}

static bool trim_prefix(struct str *path, struct str prefix)
{
    size_t n = prefix.n;
    bool slash = n && prefix.p[n - 1] == '/';
    if (!str_starts(*path, prefix) || (!slash && (path->n <= n || path->p[n] != '/')))
        return false;
    *path = str_from_to(*path, slash ? n : n + 1, path->n);
    return true;
}

struct str path_trim(struct str path, struct str trim_path, struct str source_path)
{
    struct str item;
    if (trim_path.n == 0 && source_path.n) {
        while (path_next(&source_path, &item)) {
            struct str base = path_base(item);
            for (size_t at = 0; (at = str_find(path, base, at)) != SIZE_MAX; at++)
                if (at > 0 && path.p[at - 1] == '/' && at + base.n < path.n &&
                    path.p[at + base.n] == '/')
                    return str_from_to(path, at + base.n + 1, path.n);
        }
    }
    if (trim_path.n)
        while (path_next(&trim_path, &item))
            if (trim_prefix(&path, item))
                return path;
    if (!trim_prefix(&path, STR("/proc/self/cwd/./")))
        trim_prefix(&path, STR("/proc/self/cwd/"));
    return path;
}

static bool is_word_char(char c)
{
    return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') || c == '_';
}

static bool is_lower(char c)
{
    return c >= 'a' && c <= 'z';
}

static bool is_upper_char(char c)
{
    return c >= 'A' && c <= 'Z';
}

// Removes the first "/vN" (N from 2 up) that is followed by a dot or a slash; not if there is a
// newline anywhere.
static struct str strip_go_version(struct arena *arena, struct str f)
{
    if (memchr(f.p, '\n', f.n))
        return f;
    for (size_t i = 0; i + 3 < f.n; i++) {
        if (f.p[i] != '/' || f.p[i + 1] != 'v')
            continue;
        size_t end = i + 2;
        while (end < f.n && f.p[end] >= '0' && f.p[end] <= '9')
            end++;
        size_t digits = end - i - 2;
        char first = digits ? f.p[i + 2] : '0';
        if (first == '0' || (first == '1' && digits == 1) || end == f.n ||
            (f.p[end] != '.' && f.p[end] != '/'))
            continue;
        char *to = arena_alloc(arena, f.n);
        memcpy(to, f.p, i);
        memcpy(to + i, f.p + end, f.n - end);
        return (struct str){to, i + f.n - end};
    }
    return f;
}

// Go: after the directories (`[\w\-.]+/` once or more), a package without dots, a dot and at least
// one more character that is not a newline.
static bool shorten_go(struct str f, struct str *to)
{
    size_t starts[64], n = 0;
    for (size_t i = 0, from = 0; i < f.n; i++) {
        if (f.p[i] == '/') {
            if (i == from || n == 64)
                break;
            starts[n++] = from = i + 1;
        } else if (!is_word_char(f.p[i]) && f.p[i] != '-' && f.p[i] != '.') {
            break;
        }
    }
    // As the regexp is greedy, the longest directory part that lets the rest match wins.
    while (n-- > 0) {
        size_t dot = starts[n];
        while (dot < f.n && f.p[dot] != '.')
            dot++;
        if (dot == starts[n] || dot + 1 >= f.n || f.p[dot + 1] == '\n')
            continue;
        size_t end = dot + 1;
        while (end < f.n && f.p[end] != '\n')
            end++;
        *to = str_from_to(f, starts[n], end);
        return true;
    }
    return false;
}

static bool is_java_char(char c)
{
    return is_word_char(c) || c == '$';
}

// Java: lower-case packages, then Class.method, then "(" or the end.
static bool shorten_java(struct str f, struct str *to)
{
    size_t at = 0;
    for (;;) {
        size_t i = at;
        if (i < f.n && is_upper_char(f.p[i])) {
            while (i < f.n && is_java_char(f.p[i]))
                i++;
            if (i >= f.n || f.p[i] != '.')
                return false;
            size_t method = ++i;
            if (str_starts(str_from_to(f, i, f.n), STR("<init>"))) {
                i += 6;
            } else if (i < f.n && is_lower(f.p[i])) {
                while (i < f.n && is_java_char(f.p[i]))
                    i++;
            }
            if (i == method || (i < f.n && f.p[i] != '('))
                return false;
            *to = str_from_to(f, at, i);
            return true;
        }
        if (i >= f.n || !is_lower(f.p[i]))
            return false;
        while (i < f.n && is_word_char(f.p[i]))
            i++;
        if (i >= f.n || f.p[i] != '.')
            return false;
        at = i + 1;
    }
}

// C++: namespaces, then Class::method with its template arguments.
static bool shorten_cpp(struct str f, struct str *to)
{
    // Start of each `name::` part.
    size_t starts[64], n = 0, at = 0;
    while (n < 64) {
        size_t i = at;
        if (i >= f.n || !(is_word_char(f.p[i]) && !(f.p[i] >= '0' && f.p[i] <= '9')))
            break;
        while (i < f.n && is_word_char(f.p[i]))
            i++;
        if (i + 1 >= f.n || f.p[i] != ':' || f.p[i + 1] != ':')
            break;
        starts[n++] = at;
        at = i + 2;
    }
    // Removes at least one namespace; greedy, so as many as leave a class and a method.
    for (size_t k = n; k-- > 1;) {
        size_t i = starts[k];
        while (i < f.n && f.p[i] == '_')
            i++;
        if (i >= f.n || !is_upper_char(f.p[i]))
            continue;
        while (i < f.n && is_word_char(f.p[i]))
            i++;
        i += 2; // the "::" of this part
        if (i < f.n && f.p[i] == '~')
            i++;
        if (i >= f.n || !is_word_char(f.p[i]) || (f.p[i] >= '0' && f.p[i] <= '9'))
            continue;
        while (i < f.n && is_word_char(f.p[i]))
            i++;
        if (i < f.n && f.p[i] == '<') {
            size_t close = SIZE_MAX;
            for (size_t j = i + 1; j < f.n && f.p[j] != '\n'; j++)
                if (f.p[j] == '>')
                    close = j;
            if (close != SIZE_MAX)
                i = close + 1;
        }
        *to = str_from_to(f, starts[k], i);
        return true;
    }
    return false;
}

struct str name_shorten(struct arena *arena, struct str name)
{
    struct str prefix = STR("(anonymous namespace)::"), shorter;
    if (str_starts(name, prefix))
        name = str_from_to(name, prefix.n, name.n);
    if (name.n == 0)
        return name;
    name = strip_go_version(arena, name);
    if (shorten_go(name, &shorter) || shorten_java(name, &shorter) || shorten_cpp(name, &shorter))
        return shorter;
    return name;
}

struct str node_printable_name(struct graph *g, const struct node_info *info)
{
    struct str name = model_str(g->p, info->name), file = model_str(g->p, info->file);
    if (info->address == 0 && info->line == 0 && file.n == 0 && name.n)
        return name;
    char address[24] = "", line[64] = "";
    size_t n_address = 0, n_line = 0;
    if (info->address)
        n_address = (size_t)snprintf(address, sizeof address, "%016llx%s",
                                     (unsigned long long)info->address, name.n ? " " : "");
    struct str object = STR("");
    if (info->line) {
        n_line = (size_t)snprintf(line, sizeof line, ":%lld", (long long)info->line);
        if (info->column)
            n_line += (size_t)snprintf(line + n_line, sizeof line - n_line, ":%lld",
                                       (long long)info->column);
    } else if (file.n == 0 && name.n == 0) {
        object = info->object ? path_base(model_str(g->p, info->object)) : STR("<unknown>");
    }
    bool has_place = n_line || file.n || object.n;
    bool brackets = object.n && info->object;
    char *text = arena_alloc(g->arena, n_address + name.n + file.n + n_line + object.n + 8);
    size_t n = n_address;
    memcpy(text, address, n_address);
    memcpy(text + n, name.p, name.n);
    n += name.n;
    if (has_place && n)
        text[n++] = ' ';
    if (brackets)
        text[n++] = '[';
    memcpy(text + n, file.n ? file.p : object.p, file.n ? file.n : object.n);
    n += file.n ? file.n : object.n;
    if (brackets)
        text[n++] = ']';
    memcpy(text + n, line, n_line);
    return (struct str){text, n + n_line};
}
