// OpenTelemetry profiles: an ExportProfilesServiceRequest of opentelemetry.proto.collector.
// profiles.v1development, as protocol buffer or JSON.
//
// Between versions 1.9 and 1.10 of the protocol the fields of Sample changed their numbers; both
// are read, told apart by how they are encoded.
#pragma once

#include "model/profile.h"

struct otlp_attribute {
    struct str key, value;
};

// One profile has one sample type; samples of several services make several profiles.
struct otlp_profile {
    struct otlp_attribute *attributes; // of the resource, then of the scope
    size_t n_attributes;
    struct str service; // that the samples name; n 0: none
    struct model_profile *profile;
};

// What samples say about spans becomes the labels span_id and trace_id; other attributes become
// labels of their name. -1 with e filled.
int otlp_read(struct arena *arena, const uint8_t *data, size_t n, bool json,
              struct otlp_profile **profiles, size_t *n_profiles, struct err *e);
