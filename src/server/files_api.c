// Files that somebody looks at: read, drawn, forgotten.
#include "codec/codec.h"
#include "net/multipart.h"
#include "server/query_api.h"

enum { MOST_PATH = 2048 };

struct upload {
    struct str profile, base;
    struct flame_request request;
};

static int read_parts(struct call *c, struct str body, struct upload *u, struct err *e)
{
    struct flame_request *r = &u->request;
    const struct {
        const char *name;
        struct str *value;
    } parts[] = {
        {"profile", &u->profile},
        {"base", &u->base},
        {"type", &r->type},
        {"focus", &r->focus},
        {"by", &r->by},
        {"ignore", &r->ignore},
        {"hide", &r->hide},
        {"show", &r->show},
        {"showFrom", &r->show_from},
        {"pruneFrom", &r->prune_from},
        {"title", &r->title},
        {"format", &r->format},
    };
    struct multipart m;
    struct str name, content, type = web_header(c->x, "Content-Type");
    struct str *path = arena_array(c->arena, MOST_PATH, sizeof *path);
    r->path.items = path;
    int more = multipart_begin(&m, type.p ? type : STR(""), body, e);
    while (!more && (more = multipart_next(&m, &name, &content, e)) == 1) {
        more = 0;
        size_t i = 0;
        while (i < sizeof parts / sizeof *parts && !str_eq(name, str_from(parts[i].name)))
            i++;
        if (i < sizeof parts / sizeof *parts)
            *parts[i].value = content;
        else if (str_eq(name, STR("path")) && r->path.n < MOST_PATH)
            path[r->path.n++] = content;
        else if (str_eq(name, STR("reverse")))
            r->reverse = true;
        else if (str_eq(name, STR("normalize")))
            r->normalize = true;
        else
            return err_set(e, "part \"%.*s\": expected profile, base, type, path or a filter",
                           name.n < 64 ? (int)name.n : 64, name.p);
    }
    if (more < 0)
        return -1;
    return u->profile.n ? 0 : err_set(e, "part \"profile\", a file, is missing or empty");
}

static struct model_profile *read_file(struct call *c, struct str content, const char *which,
                                       struct err *e)
{
    struct codec_limits limits = {.inflated = c->server->config->limits.profile};
    struct err why = {""};
    struct model_profile *p =
        codec_read(c->arena, (const uint8_t *)content.p, content.n, &limits, NULL, &why);
    if (!p)
        err_set(e, "the %s: %s", which, why.message);
    return p;
}

static int draw_file_flame(struct call *c, const struct upload *u, struct err *e)
{
    const struct model_profile *sides[2] = {NULL, read_file(c, u->profile, "profile", e)};
    if (!sides[1] || (u->base.n && !(sides[0] = read_file(c, u->base, "base", e))))
        return -1;
    int type = model_type_index(sides[1], u->request.type, e);
    if (type < 0)
        return -1;
    if (sides[0]) {
        int base = model_type_index(sides[0], model_str(sides[1], sides[1]->types[type].type), e);
        if (base < 0)
            return -1;
    }
    return api_draw(c, sides, &u->request, true, (double[2]){0, 0}, NULL, e);
}

void api_flame_files(struct call *c, struct str body)
{
    struct err e = {""};
    struct upload *u = arena_alloc(c->arena, sizeof *u);
    *u = (struct upload){0};
    if (read_parts(c, body, u, &e) || draw_file_flame(c, u, &e)) {
        call_fail_input(c, CALL_INVALID_ARGUMENT, 0, &e);
        return;
    }
    call_finish(c);
}
