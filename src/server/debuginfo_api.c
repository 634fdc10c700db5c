#include "server/debuginfo_api.h"

#include <stdlib.h>

#include "codec/json.h"
#include "server/debuginfo.h"
#include "server/query_api.h"

static int read_number(struct call *c, const char *name, uint64_t otherwise, uint64_t *value)
{
    struct str text = call_parameter(c, name);
    *value = otherwise;
    if (!text.p || str_to_u64(text, 10, value))
        return 0;
    call_fail(c, CALL_INVALID_ARGUMENT, 0, "invalid %s '%.*s'; expected a number of bytes", name,
              text.n < 40 ? (int)text.n : 40, text.p);
    return -1;
}

void debuginfo_api_upload(struct call *c)
{
    static const char *const states[] = {"part", "stored", "replaced", "known", "kept"};
    struct debuginfo_put put = {.tenant = c->tenant};
    struct err e = {""};
    if (!call_is_post(c, "application/octet-stream") || call_body(c, &put.bytes) ||
        read_number(c, "offset", 0, &put.offset) || read_number(c, "size", put.bytes.n, &put.size))
        return;
    struct str id = call_parameter(c, "build_id");
    put.build_id = id.p ? id : STR("");
    int status = debuginfo_put(c->server->debuginfo, &put, &e);
    if (status) {
        call_fail(c,
                  status == 413   ? CALL_RESOURCE_EXHAUSTED
                  : status == 503 ? CALL_UNAVAILABLE
                                  : CALL_INVALID_ARGUMENT,
                  status, "%s", e.message);
        return;
    }
    if (put.state != DEBUGINFO_PART)
        server_log("info", "debug file", "build_id", put.id, "state", states[put.state], NULL);
    c->x->type = "application/json";
    out_printf(&c->x->body_out,
               "{\"buildId\":\"%s\",\"state\":\"%s\",\"received\":%llu,\"bytes\":%llu,"
               "\"dwarf\":%s}\n",
               put.id, states[put.state], (unsigned long long)(put.offset + put.bytes.n),
               (unsigned long long)put.size, put.has_dwarf ? "true" : "false");
    call_finish(c);
}

static int by_build_id(const void *a, const void *b)
{
    const struct store_address *x = a, *y = b;
    int c = str_cmp(x->build_id, y->build_id);
    return c ? c : str_cmp(x->file, y->file);
}

// The build ids that stored profiles want names of, and how many addresses have none.
static int write_missing(struct call *c, struct out *out)
{
    struct store_address *all;
    struct err e = {""};
    size_t n = 0;
    int64_t now = server_now(), from, until;
    if (api_time(c, "from", now - (int64_t)86400 * 1000000000, &from) ||
        api_time(c, "until", now, &until))
        return -1;
    int result =
        store_unnamed(c->server->store, c->tenant, STR(""), from, until, c->arena, &all, &n, &e);
    if (result) {
        call_fail_store(c, result, &e);
        return -1;
    }
    if (n)
        qsort(all, n, sizeof *all, by_build_id);
    bool first = true;
    for (size_t at = 0, end; at < n; at = end) {
        for (end = at; end < n && str_eq(all[end].build_id, all[at].build_id); end++)
            ;
        if (debuginfo_has(c->server->debuginfo, c->tenant, all[at].build_id))
            continue;
        out_text(out, first ? "{\"buildId\":" : ",{\"buildId\":");
        json_write_string(out, all[at].build_id);
        out_text(out, ",\"file\":");
        json_write_string(out, all[at].file);
        out_printf(out, ",\"addresses\":%zu}", end - at);
        first = false;
    }
    return 0;
}

void debuginfo_api_list(struct call *c)
{
    struct debuginfo_file *files;
    struct str missing = call_parameter(c, "missing");
    struct out *out = &c->x->body_out;
    size_t n = debuginfo_list(c->server->debuginfo, c->tenant, c->arena, &files);
    c->x->type = "application/json";
    out_text(out, "{\"files\":[");
    for (size_t i = 0; i < n; i++)
        out_printf(out, "%s{\"buildId\":\"%s\",\"bytes\":%llu,\"uploaded\":%lld}", i ? "," : "",
                   files[i].id, (unsigned long long)files[i].bytes,
                   (long long)(files[i].time / 1000000));
    out_char(out, ']');
    if (missing.p && str_eq(missing, STR("1"))) {
        out_text(out, ",\"missing\":[");
        if (write_missing(c, out))
            return;
        out_char(out, ']');
    }
    out_text(out, "}\n");
    call_finish(c);
}

void debuginfo_api_delete(struct call *c)
{
    struct str id = call_parameter(c, "build_id");
    if (!call_is_post(c, "application/json"))
        return;
    if (!id.p || !debuginfo_remove(c->server->debuginfo, c->tenant, id)) {
        call_fail(c, CALL_NOT_FOUND, 0,
                  "unknown build id '%.*s'; `kiln debuginfo list` prints the uploaded files",
                  id.n < 128 ? (int)id.n : 128, id.p ? id.p : "");
        return;
    }
    c->x->type = "application/json";
    out_text(&c->x->body_out, "{}\n");
    call_finish(c);
}
