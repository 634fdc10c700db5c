// Objects of a Kubernetes API server: pods, endpoint slices and services, as lists and watches
// deliver them. Of each object only the members that targets are made of are kept, as JSON.
#pragma once

#include "base/budget.h"
#include "base/str.h"
#include "codec/json_read.h"

enum kube_resource { KUBE_PODS, KUBE_SLICES, KUBE_SERVICES };

enum {
    KUBE_VERSION_MAX = 128,      // bytes of a resourceVersion
    KUBE_TOKEN_MAX = 8 << 10,    // of the token that continues a list
    KUBE_OBJECT_MAX = 256 << 10, // of an object, as it is kept
};

struct kube_object {
    struct kube_object *chain;
    uint64_t hash;
    uint32_t list; // number of the last list that had it
    uint32_t n_key, n;
    char bytes[]; // NAMESPACE/NAME, then JSON
};

// The objects of one watch. Their memory is charged to budget.
struct kube_objects {
    struct budget *budget;
    struct kube_object **buckets;
    size_t n_buckets, n;
    uint32_t list;    // number of the list being read
    uint64_t dropped; // objects without room, or too large
};

void kube_objects_free(struct kube_objects *objects);
struct str kube_object_json(const struct kube_object *object);
// NULL: there is none.
const struct kube_object *kube_object_find(const struct kube_objects *objects, struct str key);

struct kube_page {
    char version[KUBE_VERSION_MAX]; // of the list
    char *more;                     // malloced: token of the next page; NULL: this is the last one
};

// Adds the objects of a page of a list. Before the first page, increment objects->list; after the
// last one call kube_objects_sweep, which removes those that the list did not have. Returns -1 with
// e filled if the page is invalid; the objects before the invalid one were added.
int kube_page_read(struct kube_objects *objects, enum kube_resource resource, struct str page,
                   struct kube_page *result, struct err *e);
void kube_objects_sweep(struct kube_objects *objects);

enum kube_event {
    KUBE_EVENT_INVALID, // e says why: the watch cannot be trusted any more
    KUBE_EVENT_CHANGE,  // an object was added, modified or deleted
    KUBE_EVENT_BOOKMARK,
    KUBE_EVENT_EXPIRED, // the version is too old: list again
    KUBE_EVENT_FAILED,  // the server ends the watch with an error, which is in e
};

// Applies an event, which is a line of a watch. Sets version to the one that the watch can be
// resumed from, unless the event is invalid or an error.
enum kube_event kube_event_read(struct kube_objects *objects, enum kube_resource resource,
                                struct str line, char version[KUBE_VERSION_MAX], struct err *e);
