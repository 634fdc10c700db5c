#include "cli/viewer.h"

#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli/source.h"
#include "net/listen.h"
#include "net/pages.h"

enum { META_MAX = 16 << 20 };

extern char **environ;

// --- pages ---

struct page {
    const char *path;
    int (*answer)(struct viewer_query *q, struct err *e); // for data
    const char *type, *file;                              // of data; file name for saving
    const char *moved;                                    // redirect target
    bool post;                                            // modifies state
};

static const struct page pages[] = {
    {.path = "/", .moved = "/ui/"},
    {.path = "/ui", .moved = "/ui/"},
    {.path = "/ui/", .moved = "flamegraph"},
    {.path = "/ui/flamegraph2", .moved = "flamegraph"},
    {.path = "/ui/flamegraphold", .moved = "flamegraph"},
    {.path = "/ui/flamegraph"},
    {.path = "/ui/both"},
    {.path = "/ui/top"},
    {.path = "/ui/graph"},
    {.path = "/ui/peek"},
    {.path = "/ui/source"},
    {.path = "/ui/disasm"},
    {.path = "/ui/api/flame", .answer = viewer_flame, .type = "application/json"},
    {.path = "/ui/api/top", .answer = viewer_top, .type = "application/json"},
    {.path = "/ui/api/graph", .answer = viewer_graph, .type = "application/json"},
    {.path = "/ui/api/peek", .answer = viewer_peek, .type = "application/json"},
    {.path = "/ui/api/source", .answer = viewer_source, .type = "text/html; charset=utf-8"},
    {.path = "/ui/api/disasm", .answer = viewer_disasm, .type = "text/plain; charset=utf-8"},
    {.path = "/ui/api/export", .answer = viewer_export, .type = "application/octet-stream"},
    {.path = "/ui/saveconfig", .answer = viewer_save_config, .type = "text/plain", .post = true},
    {.path = "/ui/deleteconfig",
     .answer = viewer_delete_config,
     .type = "text/plain",
     .post = true},
    {.path = "/ui/download",
     .answer = viewer_download,
     .type = "application/vnd.google.protobuf+gzip",
     .file = "profile.pb.gz"},
    {.path = NULL},
};

static const struct page *find_page(struct str path)
{
    for (const struct page *page = pages; page->path; page++)
        if (str_eq(path, str_from(page->path)))
            return page;
    return NULL;
}

// --- answers ---

// All views share this document; their data comes from api/.
static bool answer_document(const struct viewer *viewer, const struct page *page,
                            const struct http_request *q, struct http_answer *a)
{
    struct out meta;
    char title[512];
    out_init_memory(&meta, META_MAX);
    viewer_write_meta(viewer, &meta);
    snprintf(title, sizeof title, "%s - kiln", viewer->title);
    bool flame = strcmp(page->path, "/ui/flamegraph") == 0 && !q->query.n;
    pages_document(q, a, title, "", out_result(&meta), flame ? "api/flame" : NULL);
    out_fini(&meta);
    return true;
}

static bool answer_moved(const struct page *page, const struct http_request *q,
                         struct http_answer *a)
{
    char place[HTTP_LINE_MAX + 64];
    snprintf(place, sizeof place, "%s%s%.*s", page->moved, q->query.n ? "?" : "", (int)q->query.n,
             q->query.p);
    // Like pprof: the first redirect is temporary, so that browsers do not cache it for this port.
    http_answer_text(a, page->path[1] ? 301 : 307, "see %s", page->moved);
    http_answer_header(a, "Location", place);
    http_answer_header(a, "Cache-Control", "no-store");
    return true;
}

static bool viewer_refuse_request(const struct viewer *viewer, const struct page *page,
                                  const struct http_request *q, struct http_answer *a)
{
    struct err e = {""};
    if (!http_trusts_origin(q, viewer->check_host, viewer->host, &e)) {
        http_answer_text(a, 403, "%s", e.message);
    } else if (!page) {
        http_answer_text(a, 404, "unknown path %.*s; the pages begin at /ui/",
                         (int)(q->path.n < 200 ? q->path.n : 200), q->path.p);
    } else if (!str_eq(q->method, page->post ? STR("POST") : STR("GET")) &&
               !(str_eq(q->method, STR("HEAD")) && !page->post)) {
        http_answer_text(a, 405, "%s only supports %s", page->path,
                         page->post ? "POST" : "GET and HEAD");
        http_answer_header(a, "Allow", page->post ? "POST" : "GET, HEAD");
    } else {
        return false;
    }
    return true;
}

static bool viewer_begin_request(void *context, const struct http_server *server,
                                 const struct http_request *q, struct http_answer *a,
                                 struct http_later *later)
{
    const struct viewer *viewer = context;
    const struct page *page = find_page(q->path);
    pages_guard(a);
    bool get = str_eq(q->method, STR("GET")) || str_eq(q->method, STR("HEAD"));
    struct err e = {""};
    if (get && http_trusts_origin(q, viewer->check_host, viewer->host, &e) &&
        str_starts(q->path, STR("/ui/")) && pages_file(str_from_to(q->path, 4, q->path.n), q, a))
        return true;
    if (viewer_refuse_request(viewer, page, q, a))
        return true;
    if (page->moved)
        return answer_moved(page, q, a);
    if (!page->answer)
        return answer_document(viewer, page, q, a);
    later->state = (void *)page;
    return false;
}

// Runs in the worker thread.
static uint64_t viewer_finish_request(void *context, const struct http_request *request,
                                      void *state, struct http_answer *a)
{
    const struct page *page = state;
    struct err e = {""};
    struct viewer_query q = {.viewer = context, .request = request, .arena = source_arena_new()};
    int result = q.arena ? 0 : err_set(&e, "out of memory");
    http_answer_header(a, "Cache-Control", "no-store");
    struct arena_trap trap;
    q.out = &a->body;
    if (result == 0 && ARENA_TRY(q.arena, trap)) {
        result = arena_caught(q.arena, &e);
    } else if (result == 0) {
        result = viewer_read_config(&q, &e);
        if (result == 0)
            result = page->answer(&q, &e);
        arena_try_end(q.arena);
    }
    if (result == 0 && a->body.error)
        result = err_set(&e, "the response is too large; narrow it with a filter");
    if (result == 0) {
        a->type = page->type;
        if (page->file) {
            char value[128];
            snprintf(value, sizeof value, "attachment;filename=%s", page->file);
            http_answer_header(a, "Content-Disposition", value);
        } else {
            pages_compress(request, a);
        }
    } else {
        http_answer_text(a, 400, "%s", e.message);
    }
    arena_free(q.arena);
    return 0;
}

static void viewer_request_due(void *context, void *state)
{
}

static void viewer_abandon_request(void *context, void *state)
{
}

// --- start and stop ---

static void open_browser(const char *url)
{
    const char *const usual[] = {getenv("BROWSER"), "xdg-open", "sensible-browser",
                                 "google-chrome",   "chromium", "firefox"};
    // Our own signals are blocked; the browser's must not be.
    sigset_t none;
    posix_spawnattr_t attributes;
    sigemptyset(&none);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
    posix_spawnattr_setsigmask(&attributes, &none);
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++) {
        if (!usual[i])
            continue;
        char *argv[] = {(char *)usual[i], (char *)url, NULL};
        pid_t child;
        if (posix_spawnp(&child, argv[0], NULL, &attributes, argv, environ) == 0)
            break;
    }
    posix_spawnattr_destroy(&attributes);
}

int viewer_serve(struct viewer *viewer, const struct viewer_options *options, struct err *e)
{
    struct listener listener;
    if (pages_available(e) || listener_open(&listener, options->listen, e))
        return -1;
    char url[sizeof listener.address];
    snprintf(url, sizeof url, "%s", listener.address);
    char host[sizeof listener.host];
    snprintf(host, sizeof host, "%s", listener.host);
    viewer->check_host = listener.loopback;
    viewer->host = host;
    struct http_handler handler = {.context = viewer,
                                   .begin = viewer_begin_request,
                                   .due = viewer_request_due,
                                   .finish = viewer_finish_request,
                                   .abandon = viewer_abandon_request};
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    sigprocmask(SIG_BLOCK, &ends, NULL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGCHLD, SIG_DFL);
    struct http_server *server = http_server_start(&listener, &handler, e);
    if (!server) {
        listener_close(&listener);
        return -1;
    }
    char text[sizeof url + 64];
    snprintf(text, sizeof text, "Serving web UI on %s", url);
    options->say(text);
    if (!options->no_browser)
        open_browser(url);
    int signal_number;
    while (sigwait(&ends, &signal_number))
        ;
    http_server_stop(server);
    http_server_free(server);
    return 0;
}
