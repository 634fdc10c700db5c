// What receivers of alerts are sent: docs/guides/alerts.md.
#pragma once

#include "changes/changes.h"
#include "server/config.h"

enum { ALERT_SIGNATURE_MAX = 120 };

struct alert_sender {
    const char *external_url; // of this server
    const struct alert_receiver *receiver;
    struct str tenant;
    int64_t now;
};

// Fills starts and text of an open alert: a JSON object that begins with its labels and
// annotations. The same labels each time.
void alert_describe(const struct alert_sender *s, struct changes_alert *alert, struct arena *arena);
// The bodies; texts are filled. STORE_CORRUPT with e filled if one that was kept is damaged.
// `POST /api/v2/alerts` of an Alertmanager: each of its own.
int alert_write_list(const struct alert_sender *s, const struct changes_alert *alerts, size_t n,
                     struct arena *arena, struct str *body, struct err *e);
// What an Alertmanager sends to its webhooks: the alerts of one service. left_out: open ones that
// are not among them.
int alert_write_group(const struct alert_sender *s, const struct changes_alert *alerts, size_t n,
                      size_t left_out, struct arena *arena, struct str *body, struct err *e);
// `X-Kiln-Signature: t=SECONDS,v1=HEX`
void alert_sign(struct str secret, int64_t seconds, struct str body,
                char header[ALERT_SIGNATURE_MAX]);
