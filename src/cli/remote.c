#include "cli/remote.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/retry.h"
#include "codec/json_read.h"
#include "net/client.h"
#include "process/clock.h"

enum { RETRY_INTERVAL_MS = 1000 };

struct remote remote_default(void)
{
    const char *server = getenv("KILN_SERVER"), *token = getenv("KILN_TOKEN");
    return (struct remote){
        .server = server && *server ? server : "http://127.0.0.1:4040",
        .token = token && *token ? token : NULL,
    };
}

int remote_value(const char *name, int argc, char **argv, int *i, const char **value, struct err *e)
{
    const char *word = argv[*i];
    if (word[0] != '-' || !word[1])
        return 0;
    word += word[1] == '-' ? 2 : 1;
    size_t n = strlen(name);
    if (strncmp(word, name, n) != 0 || (word[n] && word[n] != '='))
        return 0;
    if (word[n] == '=') {
        *value = word + n + 1;
        return 1;
    }
    if (*i + 1 >= argc)
        return err_set(e, "--%s needs a value", name);
    *value = argv[++*i];
    return 1;
}

int remote_option(struct remote *r, int argc, char **argv, int *i, struct err *e)
{
    const struct {
        const char *name;
        const char **value;
    } options[] = {
        {"server", &r->server}, {"token", &r->token}, {"tenant", &r->tenant}, {"ca", &r->ca_file}};
    for (size_t k = 0; k < sizeof options / sizeof *options; k++) {
        int taken = remote_value(options[k].name, argc, argv, i, options[k].value, e);
        if (taken)
            return taken;
    }
    return 0;
}

// Sets e from {"code":..., "message":...} or from the text itself.
static int set_remote_error(const struct remote *r, const struct net_answer *a, struct arena *arena,
                            struct err *e)
{
    struct str text = {(const char *)a->data, a->n}, message = {NULL, 0};
    struct json json;
    if (json_parse(arena, text, &json, NULL) == 0)
        message = json_string(json_get(json, "message"), arena);
    if (message.p)
        return err_set(e, "%s returned %d: %.*s", r->server, a->status,
                       message.n < 400 ? (int)message.n : 400, message.p);
    return err_set(e, "%s returned %d: %.*s", r->server, a->status, a->n < 200 ? (int)a->n : 200,
                   a->n ? text.p : "");
}

// Retries while the answer is 429 or 503, until the patience ends. Results are those of
// net_client_do.
static int call_with_retries(const struct remote *r, const struct net_request *request,
                             struct net_answer *a)
{
    struct retry retry;
    uint64_t end = process_now_ns() + r->patience * UINT64_C(1000000000);
    retry_init(&retry, RETRY_INTERVAL_MS, retry_seed());
    for (;;) {
        if (net_client_do(request, a))
            return -1;
        if (a->status != 429 && a->status != 503)
            return 0;
        uint64_t pause = retry_refused(&retry, a->retry_after);
        if (process_now_ns() + pause * 1000000 > end)
            return 0;
        free(a->data);
        fprintf(stderr, "kiln: %s is busy (%d): trying again in %.1f s\n", r->server, a->status,
                (double)pause / 1000);
        usleep((useconds_t)pause * 1000);
    }
}

void remote_escape(struct out *path, const char *value)
{
    for (const char *c = value; *c; c++)
        out_printf(path, "%%%02X", (unsigned char)*c);
}

int remote_call(const struct remote *r, const char *path, const char *type, struct str body,
                struct arena *arena, struct str *answer, struct err *e)
{
    struct str base = str_from(r->server);
    const char *headers[6];
    size_t n = 0;
    while (base.n && base.p[base.n - 1] == '/')
        base.n--;
    headers[n++] = arena_printf(arena, "Content-Type: %s", type);
    // Otherwise label names with dots or non-ASCII characters are not listed.
    headers[n++] = "Accept: */*; allow-utf8-labelnames=true";
    if (r->encoding)
        headers[n++] = arena_printf(arena, "Content-Encoding: %s", r->encoding);
    if (r->token)
        headers[n++] = arena_printf(arena, "Authorization: Bearer %s", r->token);
    if (r->tenant)
        headers[n++] = arena_printf(arena, "X-Scope-OrgID: %s", r->tenant);
    headers[n] = NULL;
    struct net_request request = {
        .url = arena_printf(arena, "%.*s%s", (int)base.n, base.p, path),
        .headers = headers,
        .body = body.p,
        .n_body = body.n,
        .ca_file = r->ca_file,
        .timeout_ms = 120000,
        .limit = (size_t)1 << 30,
    };
    struct net_answer a;
    if (call_with_retries(r, &request, &a))
        return err_set(e, "%s: %s", r->server, a.error.message);
    int result = a.status == 200 ? 0 : set_remote_error(r, &a, arena, e);
    if (!result)
        *answer = (struct str){arena_copy(arena, (const char *)a.data, a.n), a.n};
    free(a.data);
    return result;
}
