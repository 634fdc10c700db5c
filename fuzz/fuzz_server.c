// The server over a socket: libmicrohttpd, routes, bodies, decoders, store and answers. An input is
// `METHOD PATH`, header lines, an empty line and a body; it is sent as a well-formed request. After
// a leading NUL, the bytes are sent unchanged. Well-formed requests must be answered, and never
// with 500.
#include <errno.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "changes/changes.h"
#include "net/listen.h"
#include "reader.h"
#include "server/alerts.h"
#include "server/debuginfo.h"
#include "server/routes.h"
#include "server/rules.h"
#include "server/scrape.h"
#include "server/tenants.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerInitialize(int *argc, char ***argv);

// The leak checker does not see the mappings through which a running server holds its memory.
// Visible, because gcc's run-time is a shared library.
__attribute__((visibility("default"))) const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "detect_leaks=0";
}

static struct server server;
static struct listener listener;
static char folder[64];

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st, (void)kind, (void)at;
    return remove(path);
}

static void remove_folder(void)
{
    nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    struct err e = {""};
    char address[100];
    // In memory, because every push is synced.
    snprintf(folder, sizeof folder, "%s/kiln-fuzz-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    fuzz_require(mkdtemp(folder) != NULL);
    atexit(remove_folder);
    signal(SIGPIPE, SIG_IGN);
    fuzz_require((server.config = server_config_read(NULL, &e)) != NULL);
    server.config->data = folder;
    server.config->limits.body = 1 << 20;
    server.config->limits.profile = 1 << 20;
    server.config->n_debuginfo_directories = 0;
    struct store_options store = server.config->store;
    store.commit_nanos = -1;
    store.keep_bytes = 32 << 20;
    fuzz_require((server.store = store_open(folder, &store, &e)) != NULL);
    const struct debuginfo_options debuginfo = {
        .data = folder, .store = server.store, .file_limit = 1 << 20, .total_limit = 16 << 20};
    fuzz_require((server.debuginfo = debuginfo_open(&debuginfo, &e)) != NULL);
    snprintf(address, sizeof address, "unix:%s/socket", folder);
    fuzz_require(listener_open(&listener, address, &e) == 0);
    server.any_host = true;
    tenants_init(&server.memory, 512 << 20, 512 << 20);
    fuzz_require((server.alerts = alerts_new(&server)) && (server.rules = rules_new(&server)));
    const struct changes_options changes = {
        .data = folder, .store = server.store, .memory = &server.memory, .paused = true};
    fuzz_require((server.changes = changes_open(&changes, &e)) != NULL);
    const struct web_options web = {.context = &server,
                                    .admit = routes_admit,
                                    .handle = routes_handle,
                                    .late = routes_late,
                                    .hold = tenants_hold,
                                    .release = tenants_release,
                                    .account = &server.memory,
                                    .body_limit = 1 << 20,
                                    .arena_limit = 256 << 20};
    struct web_server *started = web_start(&listener, &web, &e);
    fuzz_require(started != NULL);
    server.web = started;
    fuzz_require((server.scraper = scraper_start(&server, server.config)) != NULL);
    return 0;
}

static int connect_to_server(void)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    memcpy(to.sun_path, listener.path, sizeof to.sun_path);
    fuzz_require(fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to) == 0);
    return fd;
}

// The server may close the connection before the end.
static void send_bytes(int fd, const void *data, size_t n)
{
    for (const char *p = data; n;) {
        ssize_t sent = send(fd, p, n, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) // a timer signal of the fuzzer
            continue;
        if (sent <= 0)
            return;
        p += sent;
        n -= (size_t)sent;
    }
}

// Reads until the server closes or is silent for ms. Keeps the start of the answer.
static size_t read_reply(int fd, char *first, size_t room, int ms)
{
    size_t kept = 0;
    char buffer[16384];
    for (;;) {
        struct pollfd p = {fd, POLLIN, 0};
        int ready = poll(&p, 1, ms);
        ssize_t n = ready > 0 ? recv(fd, buffer, sizeof buffer, 0) : ready;
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return kept;
        size_t some = (size_t)n < room - kept ? (size_t)n : room - kept;
        memcpy(first + kept, buffer, some);
        kept += some;
    }
}

static bool is_printable(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if ((unsigned char)s.p[i] < 33 || (unsigned char)s.p[i] > 126)
            return false;
    return s.n > 0;
}

// Whether the header does not affect where the request ends.
static bool is_header(struct str line)
{
    static const char *const not_ours[] = {
        "content-length", "transfer-encoding", "connection", "expect", "host", "upgrade"};
    size_t colon = str_find(line, STR(":"), 0);
    if (colon == SIZE_MAX || !is_printable(str_from_to(line, 0, colon)))
        return false;
    for (size_t i = 0; i < line.n; i++)
        if ((unsigned char)line.p[i] < 32)
            return false;
    for (size_t i = 0; i < sizeof not_ours / sizeof *not_ours; i++)
        if (colon == strlen(not_ours[i]) && strncasecmp(line.p, not_ours[i], colon) == 0)
            return false;
    return true;
}

static void send_request(struct str rest)
{
    struct str line = {"", 0};
    struct out out;
    str_next_line(&rest, &line);
    size_t space = str_find(line, STR(" "), 0);
    if (space == SIZE_MAX || line.n > 4000 || !is_printable(str_from_to(line, space + 1, line.n)))
        return;
    struct str method = str_from_to(line, 0, space);
    static const char *const methods[] = {"GET", "POST", "HEAD", "DELETE", "PUT", "OPTIONS"};
    bool known = false;
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        known |= str_eq(method, str_from(methods[i]));
    if (!known || line.p[space + 1] != '/')
        return;
    out_init_memory(&out, 1 << 20);
    out_printf(&out, "%.*s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n", (int)line.n, line.p);
    for (int i = 0; i < 16 && str_next_line(&rest, &line) && line.n; i++)
        if (line.n < 1000 && is_header(line))
            out_printf(&out, "%.*s\r\n", (int)line.n, line.p);
    out_printf(&out, "Content-Length: %zu\r\n\r\n", rest.n);
    out_str(&out, rest);
    int fd = connect_to_server();
    send_bytes(fd, out.p, out.n);
    out_fini(&out);
    char answer[16] = "";
    size_t n = read_reply(fd, answer, sizeof answer - 1, -1);
    close(fd);
    uint64_t status = 0;
    struct str head = {answer, n};
    if (n < 12 || !str_starts(head, STR("HTTP/1.1 ")) ||
        !str_to_u64(str_from_to(head, 9, 12), 10, &status) || status < 200 || status == 500 ||
        status > 503) {
        fprintf(stderr, "answer: %zu bytes, %.*s\n", n, (int)n, answer);
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (!n)
        return 0;
    if (data[0]) {
        send_request((struct str){(const char *)data, n});
        return 0;
    }
    // The bytes may not form a request, so do not wait long for an answer.
    char answer[16];
    int fd = connect_to_server();
    send_bytes(fd, data + 1, n - 1);
    if (n > 1 && data[1] & 1)
        shutdown(fd, SHUT_WR);
    read_reply(fd, answer, sizeof answer, 2);
    close(fd);
    return 0;
}
