#include "net/debuginfod.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "net/fetch.h"

// Timeout per file in seconds. The debug information of a browser is a gigabyte.
enum { DEBUGINFOD_TIMEOUT = 900 };

const char *net_debuginfod_cache(struct arena *arena)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (cache && *cache == '/')
        return arena_printf(arena, "%s/kiln/debug", cache);
    return home && *home ? arena_printf(arena, "%s/.cache/kiln/debug", home) : NULL;
}

static bool is_build_id(struct str id)
{
    for (size_t i = 0; i < id.n; i++)
        if (!isxdigit((unsigned char)id.p[i]))
            return false;
    return id.n >= 4 && id.n <= 128;
}

static int debuginfod_make_directories(char *path, struct err *e)
{
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        int failed = mkdir(path, 0777) && errno != EEXIST;
        if (failed)
            err_set(e, "%s: %s", path, strerror(errno));
        *slash = '/';
        if (failed)
            return -1;
    }
    return 0;
}

// Requests a file from one server and writes it to fd.
static int debuginfod_ask(struct str server, const char *what, struct str id, int fd, struct err *e)
{
    char url[2048];
    while (server.n && server.p[server.n - 1] == '/')
        server.n--;
    if (snprintf(url, sizeof url, "%.*s/buildid/%.*s/%s", (int)server.n, server.p, (int)id.n, id.p,
                 what) >= (int)sizeof url)
        return err_set(e, "DEBUGINFOD_URLS: an address is longer than %zu bytes", sizeof url);
    struct net_fetch fetch = {.url = url, .timeout = DEBUGINFOD_TIMEOUT, .to_file = true, .fd = fd};
    if (ftruncate(fd, 0) || lseek(fd, 0, SEEK_SET) < 0)
        return err_set(e, "%s", strerror(errno));
    net_fetch_all(&fetch, 1, NULL, (size_t)NET_DEBUGINFOD_LIMIT_MIB << 20, NULL, NULL);
    free(fetch.data);
    return *fetch.error.message ? err_set(e, "%s: %s", url, fetch.error.message) : 0;
}

static int debuginfod_ask_all(const char *what, struct str id, int fd, struct err *e)
{
    const char *urls = getenv("DEBUGINFOD_URLS"), *space = " \t\n";
    if (!urls || !urls[strspn(urls, space)])
        return err_set(e, "debuginfod: DEBUGINFOD_URLS names no server; set it to one, such as "
                          "https://debuginfod.debian.net");
    for (urls += strspn(urls, space); *urls; urls += strspn(urls, space)) {
        struct str server = {urls, strcspn(urls, space)};
        if (debuginfod_ask(server, what, id, fd, e) == 0)
            return 0;
        urls += server.n;
    }
    return -1;
}

int net_debuginfod_fetch(const char *cache, const char *what, struct str id, struct err *e)
{
    char path[PATH_MAX], part[PATH_MAX];
    if (!is_build_id(id))
        return err_set(e, "debuginfod: invalid build id \"%.*s\"", (int)id.n, id.p);
    bool debug = strcmp(what, "debuginfo") == 0;
    int n = snprintf(path, sizeof path, "%s/.build-id/%.2s/%.*s%s", cache, id.p, (int)id.n - 2,
                     id.p + 2, debug ? ".debug" : "");
    if (n >= (int)sizeof path || snprintf(part, sizeof part, "%s.XXXXXX", path) >= (int)sizeof part)
        return err_set(e, "%s: the path is too long", cache);
    if (access(path, R_OK) == 0)
        return 0;
    if (debuginfod_make_directories(path, e))
        return -1;
    int fd = mkostemp(part, O_CLOEXEC);
    if (fd < 0)
        return err_set(e, "%s: %s", part, strerror(errno));
    int result = debuginfod_ask_all(what, id, fd, e);
    if (close(fd) && result == 0)
        result = err_set(e, "%s: %s", part, strerror(errno));
    // Rename only complete files.
    if (result == 0 && rename(part, path))
        result = err_set(e, "%s: %s", path, strerror(errno));
    if (result)
        unlink(part);
    return result;
}
