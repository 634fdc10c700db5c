// Targets out of objects of a Kubernetes API server, with the labels that Prometheus gives them.
#pragma once

#include "server/config.h"
#include "server/kube_objects.h"

// The objects that targets refer to. For role pod, only pods.
struct kube_view {
    const struct kube_objects *pods, *slices, *services; // NULL: not watched
};

// Returns the targets of one object, a pod or an endpoint slice, in arena, which may jump. Each
// group has one target.
struct target_group *kube_targets(const struct kube_discovery *d, const struct kube_view *view,
                                  struct str json, struct arena *arena, size_t *n);
