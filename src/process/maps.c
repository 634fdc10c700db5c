#include "process/maps.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

// Parses digits up to the first other byte, and skips that byte.
static const char *parse_map_number(const char *p, const char *end, unsigned base, uint64_t *value)
{
    for (*value = 0; p < end; p++) {
        unsigned digit = *p >= '0' && *p <= '9'   ? (unsigned)(*p - '0')
                         : *p >= 'a' && *p <= 'f' ? (unsigned)(*p - 'a' + 10)
                                                  : 99;
        if (digit >= base)
            return p + 1;
        *value = *value * base + digit;
    }
    return end;
}

// "start-end perms offset device inode   path"
static bool parse_map_line(const char *p, const char *end, struct process_mapping *m)
{
    uint64_t start, stop;
    p = parse_map_number(p, end, 16, &start);
    p = parse_map_number(p, end, 16, &stop);
    if (end - p < 5)
        return false;
    *m = (struct process_mapping){.start = (uintptr_t)start,
                                  .end = (uintptr_t)stop,
                                  .readable = p[0] == 'r',
                                  .writable = p[1] == 'w',
                                  .executable = p[2] == 'x',
                                  .shared = p[3] == 's'};
    p = parse_map_number(p + 5, end, 16, &m->offset);
    while (p < end && *p != ' ') // device
        p++;
    p = parse_map_number(p < end ? p + 1 : p, end, 10, &m->inode);
    while (p < end && *p == ' ')
        p++;
    m->path = p < end ? p : end;
    m->n_path = (size_t)(end - m->path);
    return stop > start;
}

// Returns false if visit returned false. *n becomes the number of bytes of an incomplete last line.
static bool visit_map_lines(char *buffer, size_t *n, bool *skipping,
                            bool (*visit)(void *, const struct process_mapping *), void *context)
{
    char *line = buffer, *newline;
    while ((newline = memchr(line, '\n', *n - (size_t)(line - buffer)))) {
        struct process_mapping m;
        if (!*skipping && parse_map_line(line, newline, &m) && !visit(context, &m))
            return false;
        *skipping = false;
        line = newline + 1;
    }
    *n -= (size_t)(line - buffer);
    memmove(buffer, line, *n);
    return true;
}

static bool read_map_file(const char *path, char *buffer, size_t n_buffer,
                          bool (*visit)(void *, const struct process_mapping *), void *context)
{
    long fd = syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
    bool any = false, skipping = false;
    size_t n = 0;
    if (fd < 0)
        return false;
    for (;;) {
        long got = syscall(SYS_read, fd, buffer + n, n_buffer - n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        any = true;
        n += (size_t)got;
        if (!visit_map_lines(buffer, &n, &skipping, visit, context))
            break;
        if (n == n_buffer) {
            skipping = true;
            n = 0;
        }
    }
    syscall(SYS_close, fd);
    return any;
}

bool process_each_mapping(char *buffer, size_t n_buffer,
                          bool (*visit)(void *context, const struct process_mapping *mapping),
                          void *context)
{
    // /proc/self/maps is empty once the main thread has ended, so fall back to thread-self. Try
    // self first because qemu-user translates only that one.
    return read_map_file("/proc/self/maps", buffer, n_buffer, visit, context) ||
           read_map_file("/proc/thread-self/maps", buffer, n_buffer, visit, context);
}
