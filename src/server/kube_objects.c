#include "server/kube_objects.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "codec/json.h"

enum {
    PARSE_MAX = 64 << 20,       // bytes to parse a page
    FIRST_BUCKETS = 64,         // a power of two
    ANNOTATION_MAX = 2 << 10,   // bytes of a value that is kept
    OBJECT_OVERHEAD = 32,       // of an allocation
    NAME_MAX_BYTES = 253 + 253, // of a namespace and a name
};

// --- the table ---

static size_t memory_of(const struct kube_object *o)
{
    return sizeof *o + o->n_key + o->n + OBJECT_OVERHEAD;
}

static void free_kube_object(struct kube_objects *objects, struct kube_object *o)
{
    budget_release(&objects->budget->account, memory_of(o));
    objects->n--;
    free(o);
}

void kube_objects_free(struct kube_objects *objects)
{
    for (size_t i = 0; i < objects->n_buckets; i++)
        for (struct kube_object *o = objects->buckets[i], *next; o; o = next) {
            next = o->chain;
            free_kube_object(objects, o);
        }
    budget_release(&objects->budget->account, objects->n_buckets * sizeof *objects->buckets);
    free(objects->buckets);
    objects->buckets = NULL;
    objects->n_buckets = 0;
}

struct str kube_object_json(const struct kube_object *o)
{
    return (struct str){o->bytes + o->n_key, o->n};
}

static struct kube_object **kube_link(const struct kube_objects *objects, struct str key,
                                      uint64_t hash)
{
    struct kube_object **link = &objects->buckets[hash & (objects->n_buckets - 1)];
    while (*link && !((*link)->hash == hash && (*link)->n_key == key.n &&
                      memcmp((*link)->bytes, key.p, key.n) == 0))
        link = &(*link)->chain;
    return link;
}

const struct kube_object *kube_object_find(const struct kube_objects *objects, struct str key)
{
    return objects->n_buckets ? *kube_link(objects, key, hash_bytes(key.p, key.n, 0)) : NULL;
}

static void remove_kube_object(struct kube_objects *objects, struct str key)
{
    if (!objects->n_buckets)
        return;
    struct kube_object **link = kube_link(objects, key, hash_bytes(key.p, key.n, 0));
    struct kube_object *o = *link;
    if (o) {
        *link = o->chain;
        free_kube_object(objects, o);
    }
}

static bool grow_kube_table(struct kube_objects *objects)
{
    size_t n = objects->n_buckets ? 4 * objects->n_buckets : FIRST_BUCKETS;
    struct kube_object **old = objects->buckets, **buckets;
    if (objects->n < objects->n_buckets)
        return true;
    if (budget_take(objects->budget, n * sizeof *buckets))
        return objects->n_buckets > 0;
    buckets = calloc(n, sizeof *buckets);
    if (!buckets) {
        budget_release(&objects->budget->account, n * sizeof *buckets);
        return objects->n_buckets > 0;
    }
    for (size_t i = 0; i < objects->n_buckets; i++)
        for (struct kube_object *o = old[i], *next; o; o = next) {
            next = o->chain;
            o->chain = buckets[o->hash & (n - 1)];
            buckets[o->hash & (n - 1)] = o;
        }
    budget_release(&objects->budget->account, objects->n_buckets * sizeof *buckets);
    free(old);
    objects->buckets = buckets;
    objects->n_buckets = n;
    return true;
}

// Replaces the object with this key. An object without room is left out, and counted.
static void put_kube_object(struct kube_objects *objects, struct str key, struct str json)
{
    uint64_t hash = hash_bytes(key.p, key.n, 0);
    struct kube_object head = {.n_key = (uint32_t)key.n, .n = (uint32_t)json.n};
    struct kube_object *o = NULL;
    remove_kube_object(objects, key);
    if (json.n <= KUBE_OBJECT_MAX && grow_kube_table(objects) &&
        budget_take(objects->budget, memory_of(&head)) == 0) {
        o = malloc(sizeof *o + key.n + json.n);
        if (!o)
            budget_release(&objects->budget->account, memory_of(&head));
    }
    if (!o) {
        objects->dropped++;
        return;
    }
    *o = head;
    o->hash = hash;
    o->list = objects->list;
    memcpy(o->bytes, key.p, key.n);
    memcpy(o->bytes + key.n, json.p, json.n);
    struct kube_object **bucket = &objects->buckets[hash & (objects->n_buckets - 1)];
    o->chain = *bucket;
    *bucket = o;
    objects->n++;
}

void kube_objects_sweep(struct kube_objects *objects)
{
    for (size_t i = 0; i < objects->n_buckets; i++)
        for (struct kube_object **link = &objects->buckets[i]; *link;) {
            struct kube_object *o = *link;
            if (o->list == objects->list) {
                link = &o->chain;
                continue;
            }
            *link = o->chain;
            free_kube_object(objects, o);
        }
}

// --- what is kept of an object ---

// A member that is kept, and which members of it, or of the objects of its array; NULL: all.
struct shape {
    const char *name;
    const struct shape *inside;
};

static const struct shape port_shape[] = {
    {"name", NULL}, {"containerPort", NULL}, {"protocol", NULL}, {NULL, NULL}};
static const struct shape container_shape[] = {
    {"name", NULL}, {"image", NULL}, {"ports", port_shape}, {NULL, NULL}};
static const struct shape owner_shape[] = {
    {"kind", NULL}, {"name", NULL}, {"controller", NULL}, {NULL, NULL}};
static const struct shape condition_shape[] = {{"type", NULL}, {"status", NULL}, {NULL, NULL}};
static const struct shape annotation_shape[] = {{NULL, NULL}}; // all but long ones
static const struct shape meta_shape[] = {{"name", NULL},
                                          {"namespace", NULL},
                                          {"uid", NULL},
                                          {"labels", annotation_shape},
                                          {"annotations", annotation_shape},
                                          {"ownerReferences", owner_shape},
                                          {NULL, NULL}};
static const struct shape pod_spec_shape[] = {{"nodeName", NULL},
                                              {"initContainers", container_shape},
                                              {"containers", container_shape},
                                              {NULL, NULL}};
static const struct shape pod_status_shape[] = {{"phase", NULL},
                                                {"podIP", NULL},
                                                {"hostIP", NULL},
                                                {"conditions", condition_shape},
                                                {NULL, NULL}};
static const struct shape pod_shape[] = {
    {"metadata", meta_shape}, {"spec", pod_spec_shape}, {"status", pod_status_shape}, {NULL, NULL}};
static const struct shape service_shape[] = {{"metadata", meta_shape}, {NULL, NULL}};
static const struct shape target_shape[] = {
    {"kind", NULL}, {"namespace", NULL}, {"name", NULL}, {NULL, NULL}};
static const struct shape endpoint_shape[] = {
    {"addresses", NULL}, {"conditions", NULL},        {"hostname", NULL}, {"nodeName", NULL},
    {"zone", NULL},      {"targetRef", target_shape}, {NULL, NULL}};
static const struct shape slice_shape[] = {{"metadata", meta_shape},
                                           {"addressType", NULL},
                                           {"endpoints", endpoint_shape},
                                           {"ports", NULL},
                                           {NULL, NULL}};
static const struct shape *const shapes[] = {pod_shape, slice_shape, service_shape};

static void write_shape(struct out *out, struct json value, const struct shape *shape);

// A value such as kubectl's last-applied-configuration is as large as the object itself.
static void write_short_members(struct out *out, struct json object)
{
    bool first = true;
    out_char(out, '{');
    for (struct json_each i = json_each(object); json_next(&i);) {
        if (json_text(i.value).n > ANNOTATION_MAX)
            continue;
        out_text(out, first ? "\"" : ",\"");
        first = false;
        out_str(out, i.key);
        out_text(out, "\":");
        out_str(out, json_text(i.value));
    }
    out_char(out, '}');
}

static void write_members(struct out *out, struct json object, const struct shape *shape)
{
    bool first = true;
    out_char(out, '{');
    for (; shape->name; shape++) {
        struct json value = json_get(object, shape->name);
        if (json_kind(value) == JSON_ABSENT || json_kind(value) == JSON_NULL)
            continue;
        json_write_key(out, shape->name, &first);
        write_shape(out, value, shape->inside);
    }
    out_char(out, '}');
}

static void write_items(struct out *out, struct json array, const struct shape *shape)
{
    bool first = true;
    out_char(out, '[');
    for (struct json_each i = json_each(array); json_next(&i);) {
        if (json_kind(i.value) != JSON_OBJECT)
            continue;
        if (!first)
            out_char(out, ',');
        first = false;
        write_members(out, i.value, shape);
    }
    out_char(out, ']');
}

// As deep as shapes are nested.
static void write_shape(struct out *out, struct json value, const struct shape *shape)
{
    if (shape == annotation_shape && json_kind(value) == JSON_OBJECT)
        write_short_members(out, value);
    else if (shape && json_kind(value) == JSON_OBJECT)
        write_members(out, value, shape);
    else if (shape && json_kind(value) == JSON_ARRAY)
        write_items(out, value, shape);
    else
        out_str(out, json_text(value));
}

// NAMESPACE/NAME; n 0: the object has no name, or one that is too long.
static struct str key_of(struct json object, struct arena *arena)
{
    struct json meta = json_get(object, "metadata");
    struct str space = json_string(json_get(meta, "namespace"), arena);
    struct str name = json_string(json_get(meta, "name"), arena);
    if (!name.p || !name.n || space.n + name.n > NAME_MAX_BYTES)
        return STR("");
    struct out out;
    out_init_arena(&out, arena);
    out_str(&out, space.p ? space : STR(""));
    out_char(&out, '/');
    out_str(&out, name);
    return out_result(&out);
}

static int keep_kube_object(struct kube_objects *objects, enum kube_resource resource,
                            struct json object, struct arena *arena, struct err *e)
{
    struct str key = key_of(object, arena);
    struct out out;
    if (!key.n)
        return err_set(e, "an object has no metadata.name, or an invalid one");
    out_init_arena(&out, arena);
    write_shape(&out, object, shapes[resource]);
    put_kube_object(objects, key, out_result(&out));
    return 0;
}

static bool copy_version(struct json meta, struct arena *arena, char to[KUBE_VERSION_MAX])
{
    struct str version = json_string(json_get(meta, "resourceVersion"), arena);
    if (!version.p || !version.n || version.n >= KUBE_VERSION_MAX)
        return false;
    memcpy(to, version.p, version.n);
    to[version.n] = 0;
    return true;
}

// --- lists and events ---

// A text that is read into objects; page of a list, version of an event.
struct kube_text {
    struct kube_objects *objects;
    enum kube_resource resource;
    struct str text;
    struct kube_page *page;
    char *version;
};

// Calls read with the parsed text. Returns what read returns, or -1 if it was not parsed or needs
// too much memory.
static int read_kube_text(const struct kube_text *t,
                          int (*read)(const struct kube_text *t, struct json root,
                                      struct arena *arena, struct err *e),
                          struct err *e)
{
    struct arena *arena = arena_new_in(t->objects->budget, PARSE_MAX);
    struct arena_trap trap;
    struct json root;
    volatile int result = -1;
    if (!arena)
        return err_set(e, "out of memory");
    if (ARENA_TRY(arena, trap)) {
        arena_caught(arena, e);
    } else {
        if (!json_parse(arena, t->text, &root, e))
            result = read(t, root, arena, e);
        arena_try_end(arena);
    }
    arena_free(arena);
    return result;
}

static int read_kube_page(const struct kube_text *t, struct json root, struct arena *arena,
                          struct err *e)
{
    struct kube_page *page = t->page;
    struct json meta = json_get(root, "metadata"), items = json_get(root, "items");
    struct str more = json_string(json_get(meta, "continue"), arena);
    // A list without objects may have null.
    if (json_kind(items) != JSON_ARRAY && json_kind(items) != JSON_NULL)
        return err_set(e, "the answer is not a list: it has no items");
    if (!copy_version(meta, arena, page->version))
        return err_set(e, "the list has no metadata.resourceVersion");
    if (more.n > KUBE_TOKEN_MAX)
        return err_set(e, "the list's continue token is longer than %d KiB", KUBE_TOKEN_MAX >> 10);
    for (struct json_each i = json_each(items); json_next(&i);)
        if (keep_kube_object(t->objects, t->resource, i.value, arena, e))
            return -1;
    if (more.n && !(page->more = strndup(more.p, more.n)))
        return err_set(e, "out of memory");
    return 0;
}

int kube_page_read(struct kube_objects *objects, enum kube_resource resource, struct str text,
                   struct kube_page *page, struct err *e)
{
    struct kube_text t = {.objects = objects, .resource = resource, .text = text, .page = page};
    *page = (struct kube_page){0};
    return read_kube_text(&t, read_kube_page, e);
}

static enum kube_event read_status(struct json status, struct arena *arena, struct err *e)
{
    int64_t code = 0;
    struct str message = json_string(json_get(status, "message"), arena);
    json_i64(json_get(status, "code"), &code);
    if (code == 410 || json_is(json_get(status, "reason"), "Expired") ||
        json_is(json_get(status, "reason"), "Gone"))
        return KUBE_EVENT_EXPIRED;
    err_set(e, "the watch ended with an error: %.*s", (int)(message.n < 200 ? message.n : 200),
            message.n ? message.p : "");
    return KUBE_EVENT_FAILED;
}

static int read_kube_event(const struct kube_text *t, struct json root, struct arena *arena,
                           struct err *e)
{
    struct json type = json_get(root, "type"), object = json_get(root, "object");
    if (json_is(type, "ERROR"))
        return read_status(object, arena, e);
    bool bookmark = json_is(type, "BOOKMARK"), deleted = json_is(type, "DELETED");
    if (!bookmark && !deleted && !json_is(type, "ADDED") && !json_is(type, "MODIFIED")) {
        err_set(e, "a watch event has an unknown type");
        return KUBE_EVENT_INVALID;
    }
    char fresh[KUBE_VERSION_MAX];
    if (!copy_version(json_get(object, "metadata"), arena, fresh)) {
        err_set(e, "a watch event has no metadata.resourceVersion");
        return KUBE_EVENT_INVALID;
    }
    if (deleted) {
        struct str key = key_of(object, arena);
        remove_kube_object(t->objects, key);
    } else if (!bookmark && keep_kube_object(t->objects, t->resource, object, arena, e)) {
        return KUBE_EVENT_INVALID;
    }
    memcpy(t->version, fresh, sizeof fresh);
    return bookmark ? KUBE_EVENT_BOOKMARK : KUBE_EVENT_CHANGE;
}

enum kube_event kube_event_read(struct kube_objects *objects, enum kube_resource resource,
                                struct str line, char version[KUBE_VERSION_MAX], struct err *e)
{
    struct kube_text t = {
        .objects = objects, .resource = resource, .text = line, .version = version};
    int event = read_kube_text(&t, read_kube_event, e);
    return event < 0 ? KUBE_EVENT_INVALID : (enum kube_event)event;
}
