// Answers of a Kubernetes API server: pages of lists and events of watches, and the targets of
// their objects. The first byte selects the resource, the role and what is read.
#include "reader.h"
#include "server/kube_targets.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check_kube_target(const struct target_group *g)
{
    fuzz_require(g->n_targets == 1 && g->targets[0].n);
    for (size_t i = 0; i < g->n_labels; i++) {
        struct str name = g->labels[i].name;
        fuzz_require(name.n && g->labels[i].value.n);
        for (size_t k = 0; k < name.n; k++)
            fuzz_require((name.p[k] >= 'a' && name.p[k] <= 'z') || name.p[k] == '_' ||
                         (name.p[k] >= 'A' && name.p[k] <= 'Z') ||
                         (name.p[k] >= '0' && name.p[k] <= '9'));
    }
}

// A function of its own, so that no variable of the caller's loops lives across ARENA_TRY.
static void check_kube_object(const struct kube_discovery *d, const struct kube_view *view,
                              const struct kube_object *o)
{
    struct arena *arena = arena_new(64 << 20);
    struct arena_trap trap;
    size_t n;
    fuzz_require(arena != NULL);
    if (!ARENA_TRY(arena, trap)) {
        struct target_group *g = kube_targets(d, view, kube_object_json(o), arena, &n);
        for (size_t k = 0; k < n; k++)
            check_kube_target(&g[k]);
        arena_try_end(arena);
    }
    arena_free(arena);
}

static void check_kube_objects(const struct kube_discovery *d, const struct kube_objects *objects)
{
    const struct kube_view view = {objects, objects, objects};
    for (size_t i = 0; i < objects->n_buckets; i++)
        for (const struct kube_object *o = objects->buckets[i]; o; o = o->chain)
            check_kube_object(d, &view, o);
}

static void read_lines(struct kube_objects *objects, enum kube_resource resource, struct str text)
{
    char version[KUBE_VERSION_MAX] = "1";
    struct str line;
    while (str_next_line(&text, &line)) {
        struct err e = {""};
        enum kube_event event = kube_event_read(objects, resource, line, version, &e);
        fuzz_require(version[0] && strlen(version) < sizeof version);
        fuzz_require(e.message[0] || event == KUBE_EVENT_CHANGE || event == KUBE_EVENT_BOOKMARK ||
                     event == KUBE_EVENT_EXPIRED);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (!n)
        return 0;
    struct budget budget = {.account = {.owner = "fuzz", .limit = 64 << 20}};
    struct kube_objects objects = {.budget = &budget, .list = 1};
    enum kube_resource resource = (enum kube_resource)(data[0] % 3);
    const struct kube_discovery d = {
        .role = resource == KUBE_PODS ? KUBE_ROLE_POD
                : data[0] & 0x10      ? KUBE_ROLE_SLICE
                                      : KUBE_ROLE_ENDPOINTS,
        .annotations = (data[0] & 0x20) != 0,
    };
    char *copy = malloc(n);
    fuzz_require(copy != NULL);
    memcpy(copy, data + 1, n - 1);
    struct str text = {copy, n - 1};
    if (data[0] & 0x40) {
        struct kube_page page;
        struct err e = {""};
        int result = kube_page_read(&objects, resource, text, &page, &e);
        fuzz_require(!result == !e.message[0] && (result || page.version[0]));
        free(page.more);
        kube_objects_sweep(&objects);
    } else {
        read_lines(&objects, resource, text);
    }
    free(copy);
    check_kube_objects(&d, &objects);
    kube_objects_free(&objects);
    fuzz_require(budget.account.held == 0);
    return 0;
}
