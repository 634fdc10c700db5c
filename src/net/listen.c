#include "net/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/str.h"

// If the backlog is full, a client's kernel retries only after a second.
enum { BACKLOG = 4096, SOCKET_FLAGS = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK };

// --- unix sockets ---

// Whether the socket file was left behind by a dead process. If a process answers, it is in use.
static bool is_stale(const struct sockaddr_un *where)
{
    struct stat st;
    if (lstat(where->sun_path, &st) || !S_ISSOCK(st.st_mode))
        return false;
    int fd = socket(AF_UNIX, SOCKET_FLAGS, 0);
    bool refused = fd >= 0 && connect(fd, (const struct sockaddr *)where, sizeof *where) &&
                   errno == ECONNREFUSED;
    if (fd >= 0)
        close(fd);
    return refused;
}

static int open_unix(struct listener *l, const char *path, struct err *e)
{
    struct sockaddr_un where = {.sun_family = AF_UNIX};
    size_t n = strlen(path);
    if (n == 0 || n >= sizeof where.sun_path)
        return err_set(e, "unix:%s: the path must have 1 to %zu bytes", path,
                       sizeof where.sun_path - 1);
    memcpy(where.sun_path, path, n + 1);
    memcpy(l->path, path, n + 1);
    snprintf(l->address, sizeof l->address, "unix:%s", path);
    l->fd = socket(AF_UNIX, SOCKET_FLAGS, 0);
    if (l->fd < 0)
        return err_set(e, "%s: cannot create a socket: %s", l->address, strerror(errno));
    // Linux creates the file with the mode of the socket.
    fchmod(l->fd, 0600);
    int failed = bind(l->fd, (struct sockaddr *)&where, sizeof where);
    if (failed && errno == EADDRINUSE && is_stale(&where)) {
        unlink(path);
        failed = bind(l->fd, (struct sockaddr *)&where, sizeof where);
    }
    struct stat st;
    if (failed || listen(l->fd, BACKLOG) || lstat(path, &st)) {
        err_set(e, "cannot listen on %s: %s", l->address, strerror(errno));
        close(l->fd);
        return l->fd = -1;
    }
    l->device = st.st_dev;
    l->inode = st.st_ino;
    return 0;
}

// --- TCP ---

static bool is_loopback(const struct sockaddr_storage *a)
{
    if (a->ss_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)a)->sin_addr.s_addr) >> 24 == 127;
    return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)a)->sin6_addr);
}

// Splits [host]:port, host:port or port. The host defaults to 127.0.0.1.
static int split_listen_address(const char *address, char *host, size_t size, uint16_t *port,
                                struct err *e)
{
    const char *colon = strrchr(address, ':');
    const char *digits = colon ? colon + 1 : address;
    size_t n = colon ? (size_t)(colon - address) : 0;
    uint64_t number;
    if (!str_to_u64(str_from(digits), 10, &number) || number > UINT16_MAX)
        return err_set(e,
                       "invalid address \"%s\"; expected HOST:PORT (port 0 to 65535) or unix:/PATH",
                       address);
    *port = (uint16_t)number;
    if (n >= 2 && address[0] == '[' && address[n - 1] == ']') {
        address++;
        n -= 2;
    } else if (n && memchr(address, ':', n)) {
        return err_set(e, "invalid address \"%s\"; write IPv6 addresses in brackets: [::1]:%d",
                       address, *port);
    }
    if (n >= size)
        return err_set(e, "%s: the host's name is too long", address);
    memcpy(host, address, n);
    host[n] = '\0';
    if (n == 0)
        snprintf(host, size, "127.0.0.1");
    return 0;
}

// Parses numeric addresses without the resolver, which would load more libraries.
static int resolve_listen_address(const char *host, uint16_t port, struct sockaddr_storage *a,
                                  socklen_t *n, struct err *e)
{
    struct sockaddr_in *four = (struct sockaddr_in *)a;
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)a;
    const char *number = strcmp(host, "localhost") == 0 ? "127.0.0.1"
                         : strcmp(host, "*") == 0       ? "0.0.0.0"
                                                        : host;
    memset(a, 0, sizeof *a);
    if (inet_pton(AF_INET, number, &four->sin_addr) == 1) {
        four->sin_family = AF_INET;
        *n = sizeof *four;
    } else if (inet_pton(AF_INET6, number, &six->sin6_addr) == 1) {
        six->sin6_family = AF_INET6;
        *n = sizeof *six;
    } else {
        struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
        int failed = getaddrinfo(host, NULL, &hints, &found);
        if (failed)
            return err_set(e, "%s: %s", host, gai_strerror(failed));
        memcpy(a, found->ai_addr, found->ai_addrlen);
        *n = found->ai_addrlen;
        freeaddrinfo(found);
    }
    if (a->ss_family == AF_INET)
        four->sin_port = htons(port);
    else
        six->sin6_port = htons(port);
    return 0;
}

static int open_tcp(struct listener *l, const char *address, struct err *e)
{
    struct sockaddr_storage a;
    socklen_t n;
    uint16_t port = 0;
    if (split_listen_address(address, l->host, sizeof l->host, &port, e) ||
        resolve_listen_address(l->host, port, &a, &n, e))
        return -1;
    int yes = 1;
    l->fd = socket(a.ss_family, SOCKET_FLAGS, 0);
    if (l->fd < 0)
        return err_set(e, "%s: cannot create a socket: %s", address, strerror(errno));
    setsockopt(l->fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(l->fd, (struct sockaddr *)&a, n) || listen(l->fd, BACKLOG) ||
        getsockname(l->fd, (struct sockaddr *)&a, &n)) {
        err_set(e, "cannot listen on %s: %s", address, strerror(errno));
        close(l->fd);
        return l->fd = -1;
    }
    l->loopback = is_loopback(&a);
    bool six = strchr(l->host, ':') != NULL;
    port = ntohs(a.ss_family == AF_INET ? ((struct sockaddr_in *)&a)->sin_port
                                        : ((struct sockaddr_in6 *)&a)->sin6_port);
    snprintf(l->address, sizeof l->address, "http://%s%s%s:%d", six ? "[" : "", l->host,
             six ? "]" : "", port);
    return 0;
}

int listener_open(struct listener *l, const char *address, struct err *e)
{
    *l = (struct listener){.fd = -1};
    return strncmp(address, "unix:", 5) == 0 ? open_unix(l, address + 5, e)
                                             : open_tcp(l, address, e);
}

void listener_unlink(const struct listener *l)
{
    struct stat st;
    if (*l->path && lstat(l->path, &st) == 0 && st.st_dev == l->device && st.st_ino == l->inode)
        unlink(l->path);
}

void listener_close(struct listener *l)
{
    if (l->fd < 0)
        return;
    close(l->fd);
    l->fd = -1;
    listener_unlink(l);
}
