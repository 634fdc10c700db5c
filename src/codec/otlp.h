// OpenTelemetry profiles: an ExportProfilesServiceRequest of
// opentelemetry.proto.collector.profiles.v1development, as protocol buffer or JSON.
//
// The fields of Sample changed their numbers between versions 1.9 and 1.10 of the protocol. This
// reader supports both and tells them apart by their encoding.
#pragma once

#include "model/profile.h"

struct otlp_attribute {
    struct str key, value;
};

// One profile has one sample type. Samples of several services become several profiles.
struct otlp_profile {
    struct otlp_attribute *attributes; // of the resource, then of the scope
    size_t n_attributes;
    struct str service; // service.name of the samples; n is 0 if they have none
    struct model_profile *profile;
};

// Reads a request. Links to spans become the labels span_id and trace_id; other attributes become
// labels with their names. Strings may point into data. Returns -1 with e filled on failure.
int otlp_read(struct arena *arena, const uint8_t *data, size_t n, bool json,
              struct otlp_profile **profiles, size_t *n_profiles, struct err *e);
