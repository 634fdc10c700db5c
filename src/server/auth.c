#include "server/auth.h"

#include "server/limits.h"
#include "server/tenants.h"

static const struct str default_tenant = STR("anonymous");

// Takes the same time wherever two secrets begin to differ.
static bool same_secret(struct str a, struct str b)
{
    unsigned char differ = a.n != b.n;
    for (size_t i = 0; i < a.n; i++)
        differ |= (unsigned char)a.p[i] ^ (unsigned char)(b.n ? b.p[i % b.n] : 0);
    return !differ;
}

static bool after_word(struct str header, const char *word, struct str *rest)
{
    size_t n = strlen(word);
    if (header.n <= n || strncasecmp(header.p, word, n) != 0 || header.p[n] != ' ')
        return false;
    *rest = str_trim(str_from_to(header, n, header.n));
    return true;
}

// What the credentials of the call allow; NULL: they are missing or wrong. scratch: see ARENA_TRY.
static const struct server_access *find_access(struct call *c, struct arena *scratch)
{
    const struct server_config *config = c->server->config;
    struct str header = web_header(c->x, "Authorization"), value;
    struct str user = {"", 0}, secret;
    if (!header.n)
        return NULL;
    if (after_word(header, "Bearer", &value)) {
        secret = value;
    } else if (after_word(header, "Basic", &value)) {
        struct str plain = message_base64(scratch, value);
        const char *colon = plain.p ? memchr(plain.p, ':', plain.n) : NULL;
        if (!colon)
            return NULL;
        user = (struct str){plain.p, (size_t)(colon - plain.p)};
        secret = str_from_to(plain, user.n + 1, plain.n);
    } else {
        return NULL;
    }
    // All are compared, so that the time does not tell which one it was. A token may also come as
    // the password of any user: agents that know basic authentication only send it so.
    const struct server_access *found = NULL;
    for (size_t i = 0; i < config->n_access; i++) {
        const struct server_access *a = &config->access[i];
        bool same = same_secret(secret, a->secret);
        if (same && (!a->name.n || str_eq(a->name, user)))
            found = a;
    }
    return found;
}

static int choose_tenant(struct call *c, const struct server_access *access)
{
    c->x->access = access;
    struct str asked = web_header(c->x, "X-Scope-OrgID");
    struct str name = access && access->n_tenants ? access->tenants[0] : default_tenant;
    bool allowed = access ? access->any_tenant : c->server->config->multitenant;
    for (size_t i = 0; asked.n && access && i < access->n_tenants; i++)
        allowed |= str_eq(access->tenants[i], asked);
    // Without authentication and with one tenant only, the header means nothing.
    if (asked.n && (allowed || access)) {
        if (!allowed) {
            call_fail(c, CALL_PERMISSION_DENIED, 0,
                      "X-Scope-OrgID: these credentials do not belong to that tenant");
            return -1;
        }
        if (!store_is_tenant(asked)) {
            call_fail(
                c, CALL_UNAUTHENTICATED, 0,
                "invalid tenant in X-Scope-OrgID; expected 1 to 150 letters, digits and !._*'()-");
            return -1;
        }
        name = asked;
    }
    struct tenant *t = tenants_get(name);
    if (!t) {
        call_fail(c, CALL_RESOURCE_EXHAUSTED, 0, "out of memory; try again later");
        return -1;
    }
    c->x->owner = &t->owner;
    return 0;
}

static int check_scope(struct call *c, unsigned scope, const struct server_access **access)
{
    struct arena *scratch = arena_new(0);
    struct arena_trap trap;
    *access = NULL;
    if (scratch && !ARENA_TRY(scratch, trap))
        *access = find_access(c, scratch);
    arena_free(scratch);
    if (!*access) {
        call_fail(c, CALL_UNAUTHENTICATED, 0,
                  "credentials are missing or wrong: send Authorization: Bearer TOKEN, or Basic");
        return -1;
    }
    if (!((*access)->scopes & scope)) {
        call_fail(c, CALL_PERMISSION_DENIED, 0, "these credentials may not %s",
                  scope & SCOPE_PUSH    ? "push"
                  : scope == SCOPE_READ ? "read"
                                        : "manage the server");
        return -1;
    }
    return 0;
}

int auth_admit(struct call *c, unsigned scope)
{
    const struct server_access *access = NULL;
    if (c->server->config->n_access && scope && check_scope(c, scope, &access))
        return -1;
    return choose_tenant(c, access);
}

int auth_require(struct call *c, unsigned scope)
{
    const struct server_access *access;
    return c->server->config->n_access ? check_scope(c, scope, &access) : 0;
}
