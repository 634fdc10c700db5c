// Builds the request: Connect's unary POST of a push.v1.PushRequest.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#include "agent/agent.h"
#include "agent/gzip.h"
#include "agent/push/push.h"
#include "codec/proto.h"

// --- the target ---

static bool is_label_name(const char *name)
{
    static const char first[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";
    return *name && strchr(first, *name) &&
           !name[strspn(name, "0123456789.abcdefghijklmnopqrstuvwxyz"
                              "ABCDEFGHIJKLMNOPQRSTUVWXYZ_")];
}

static int add_push_tag(struct push_target *t, const char *name, const char *value, struct err *e)
{
    if (!is_label_name(name) || strcmp(name, "__name__") == 0)
        return err_set(
            e, "invalid name of a tag \"%.100s\"; expected letters, digits, dots and underscores",
            name);
    if (t->n_tags == PUSH_TAGS)
        return err_set(e, "more than %d tags, at %.100s", PUSH_TAGS - 1, name);
    size_t at = t->n_tags;
    for (size_t i = 0; i < t->n_tags; i++)
        if (strcmp(t->tags[i].name, name) == 0)
            return err_set(e, "duplicate tag %.100s", name);
    while (at && strcmp(t->tags[at - 1].name, name) > 0) {
        t->tags[at] = t->tags[at - 1];
        at--;
    }
    t->tags[at] = (struct push_tag){strdup(name), strdup(value)};
    t->n_tags++;
    return t->tags[at].name && t->tags[at].value ? 0 : err_set(e, "no memory for tags");
}

static void encode_base64(struct out *out, struct str s)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < s.n; i += 3) {
        uint32_t bits = 0;
        for (size_t k = 0; k < 3; k++)
            bits = bits << 8 | (i + k < s.n ? (unsigned char)s.p[i + k] : 0);
        for (size_t k = 0; k < 4; k++)
            out_char(out, i + k > s.n ? '=' : digits[bits >> (18 - 6 * k) & 63]);
    }
}

static int add_header(struct out *out, const char *name, const char *prefix, const char *value,
                      struct err *e)
{
    if (strpbrk(name, "\r\n: ") || strpbrk(value, "\r\n") || !*name)
        return err_set(e,
                       "invalid header %.100s; expected a name without space or colon, and a value "
                       "of one line",
                       name);
    out_printf(out, "%s: %s%s\r\n", name, prefix, value);
    return 0;
}

static int add_authorization(struct out *out, const struct push_target *t,
                             const struct kiln_push_options *o, struct err *e)
{
    char login[POST_LOGIN_MAX];
    if (o->token)
        return add_header(out, "Authorization", "Bearer ", o->token, e);
    snprintf(login, sizeof login, "%s", t->url.login);
    if (o->user && (size_t)snprintf(login, sizeof login, "%s:%s", o->user,
                                    o->password ? o->password : "") >= sizeof login)
        return err_set(e, "user and password are longer than %d bytes", POST_LOGIN_MAX - 1);
    if (!*login)
        return 0;
    out_text(out, "Authorization: Basic ");
    encode_base64(out, str_from(login));
    out_text(out, "\r\n");
    return 0;
}

static int make_headers(struct push_target *t, const struct kiln_push_options *o, struct err *e)
{
    struct out out;
    out_init_memory(&out, 32 << 10);
    out_text(&out, "Content-Type: application/proto\r\nContent-Encoding: gzip\r\n"
                   "Connect-Protocol-Version: 1\r\nUser-Agent: kiln/" KILN_VERSION "\r\n");
    int result = add_authorization(&out, t, o, e);
    if (result == 0 && o->tenant)
        result = add_header(&out, "X-Scope-OrgID", "", o->tenant, e);
    for (const char *const *h = o->headers; result == 0 && h && h[0] && h[1]; h += 2)
        result = add_header(&out, h[0], "", h[1], e);
    out_char(&out, '\0');
    if (result == 0 && out.error)
        result = err_set(e, "the headers are too long");
    if (result == 0 && !(t->headers = strdup(out.p)))
        result = err_set(e, "no memory for headers");
    out_fini(&out);
    return result;
}

int push_target_init(struct push_target *t, const struct kiln_push_options *o, struct err *e)
{
    const char *name =
        o->application && *o->application ? o->application : program_invocation_short_name;
    *t = (struct push_target){0};
    if (!o->url || !*o->url)
        return err_set(e, "no URL; expected http://HOST:PORT or https://HOST");
    int result = post_url_parse(&t->url, o->url, e);
    if (result == 0)
        result = add_push_tag(t, "service_name", name, e);
    for (const char *const *tag = o->tags; result == 0 && tag && tag[0] && tag[1]; tag += 2)
        result = add_push_tag(t, tag[0], tag[1], e);
    if (result == 0)
        result = make_headers(t, o, e);
    if (result)
        push_target_fini(t);
    return result;
}

void push_target_fini(struct push_target *t)
{
    for (size_t i = 0; i < t->n_tags; i++) {
        free(t->tags[i].name);
        free(t->tags[i].value);
    }
    free(t->headers);
    *t = (struct push_target){0};
}

// --- messages ---

enum { FIELD_1 = 1 << 3 | WIRE_BYTES, FIELD_2 = 2 << 3 | WIRE_BYTES };

static size_t field_size(size_t n)
{
    return 1 + proto_varint_size(n) + n;
}

static void put_field(struct out *out, uint64_t key, struct str s)
{
    proto_put_varint(out, key);
    proto_put_varint(out, s.n);
    out_str(out, s);
}

static void put_push_label(struct out *out, struct str name, struct str value)
{
    proto_put_varint(out, FIELD_1);
    proto_put_varint(out, field_size(name.n) + field_size(value.n));
    put_field(out, FIELD_1, name);
    put_field(out, FIELD_2, value);
}

static void make_id(char id[37])
{
    uint8_t bytes[16] = {0};
    char hex[32];
    if (getrandom(bytes, sizeof bytes, GRND_NONBLOCK) < 0)
        bytes[0] = 1; // still a valid id
    bytes[6] = (bytes[6] & 0x0f) | 0x40;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    str_hex(hex, bytes, sizeof bytes);
    snprintf(id, 37, "%.8s-%.4s-%.4s-%.4s-%.12s", hex, hex + 8, hex + 12, hex + 16, hex + 20);
}

// Writes one series with one profile.
static void put_push_series(struct out *out, const struct push_target *t, const char *name,
                            struct str profile, struct arena *arena)
{
    struct out series;
    char id[37];
    make_id(id);
    out_init_arena(&series, arena);
    put_push_label(&series, STR("__name__"), str_from(name));
    for (size_t i = 0; i < t->n_tags; i++)
        put_push_label(&series, str_from(t->tags[i].name), str_from(t->tags[i].value));
    proto_put_varint(&series, FIELD_2);
    proto_put_varint(&series, field_size(profile.n) + field_size(36));
    put_field(&series, FIELD_1, profile);
    put_field(&series, FIELD_2, (struct str){id, 36});
    put_field(out, FIELD_1, out_result(&series));
}

static int put_push_profile(struct out *out, const struct push_target *t, const char *name,
                            struct model_profile *p, bool labels, struct arena *arena,
                            struct err *e)
{
    struct agent_output output = {.format = AGENT_PPROF_PLAIN, .no_labels = !labels};
    struct out raw;
    if (!p || p->n_samples == 0)
        return 0;
    out_init_arena(&raw, arena);
    if (agent_write(p, arena, &output, &raw, e) || out_finish(&raw, e))
        return -1;
    put_push_series(out, t, name, out_result(&raw), arena);
    return 0;
}

static int compress_body(const struct out *message, struct push_body *body, struct err *e)
{
    struct out packed;
    out_init_memory(&packed, SIZE_MAX);
    int result = gzip_write(&packed, message->p, message->n, e) || out_finish(&packed, e) ? -1 : 0;
    if (result == 0) {
        body->p = packed.p;
        body->n = packed.n;
    } else {
        out_fini(&packed);
    }
    return result;
}

int push_message(const struct push_target *t, struct model_profile *cpu, struct model_profile *heap,
                 struct arena *arena, struct push_body *body, struct err *e)
{
    struct arena_trap trap;
    *body = (struct push_body){0};
    if (ARENA_TRY(arena, trap))
        return arena_caught(arena, e);
    struct out message;
    out_init_arena(&message, arena);
    int result = put_push_profile(&message, t, "process_cpu", cpu, true, arena, e);
    if (result == 0)
        result = put_push_profile(&message, t, "memory", heap, false, arena, e);
    if (result == 0 && message.n)
        result = compress_body(&message, body, e);
    arena_try_end(arena);
    return result;
}
