#include "server/alert_message.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "codec/json.h"
#include "codec/json_read.h"
#include "model/units.h"
#include "net/hmac.h"
#include "server/changes_api.h"

enum {
    LABEL_MAX = 1000, // bytes of a label's value: C++ has names of 64 KiB
    LABELS = 9,       // of the server
    RESENDS = 4,      // intervals until an Alertmanager that hears nothing takes an alert for over
};
static const int64_t SECOND = 1000000000, MILLISECOND = 1000000;

// --- texts ---

static const char *alert_time_text(int64_t time, struct arena *arena)
{
    time_t seconds = (time_t)(time / SECOND);
    struct tm utc;
    char when[40];
    strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%S", gmtime_r(&seconds, &utc));
    return arena_printf(arena, "%s.%03dZ", when, (int)(time % SECOND / MILLISECOND));
}

// Not longer than a label may be, and not cut inside a character.
static struct str cut_alert_text(struct str text, struct arena *arena)
{
    size_t n = LABEL_MAX;
    if (text.n <= LABEL_MAX)
        return text;
    while (n && ((unsigned char)text.p[n] & 0xc0) == 0x80)
        n--;
    return str_from(arena_printf(arena, "%.*s...", (int)n, text.p));
}

static void put_escaped(struct out *out, struct str text)
{
    for (size_t i = 0; i < text.n; i++) {
        unsigned char c = (unsigned char)text.p[i];
        bool plain = (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') || c == '-' ||
                     c == '_' || c == '.' || c == '~';
        if (plain)
            out_char(out, (char)c);
        else
            out_printf(out, "%%%02X", c);
    }
}

// The diff of the ranges that were compared.
static struct str diff_url(const struct alert_sender *s, const struct changes_entry *entry,
                           struct arena *arena)
{
    const struct stats_range *sides = entry->entry.sides;
    struct out out;
    out_init_arena(&out, arena);
    out_text(&out, s->external_url);
    out_text(&out, sides[0].end && sides[1].end ? "/diff?query=" : "/explore?query=");
    put_escaped(&out, changes_api_selector(entry, 1, arena));
    if (entry->versions.label.n) {
        out_text(&out, "&left_query=");
        put_escaped(&out, changes_api_selector(entry, 0, arena));
    }
    out_text(&out, "&type=");
    put_escaped(&out, entry->type);
    if (sides[0].end && sides[1].end)
        out_printf(&out,
                   "&left_from=%" PRId64 "&left_until=%" PRId64 "&from=%" PRId64 "&until=%" PRId64,
                   sides[0].start / MILLISECOND, sides[0].end / MILLISECOND,
                   sides[1].start / MILLISECOND, sides[1].end / MILLISECOND);
    return out_result(&out);
}

// The page that lists the changes of the service, where they are acknowledged and muted.
static struct str changes_url(const struct alert_sender *s, const struct changes_entry *entry,
                              struct arena *arena)
{
    struct out out;
    out_init_arena(&out, arena);
    out_text(&out, s->external_url);
    out_text(&out, "/changes?service=");
    put_escaped(&out, entry->service);
    return out_result(&out);
}

static struct str amount_text(double value, struct str unit, bool sign, struct arena *arena)
{
    char text[96];
    size_t n = units_amount(text, sizeof text, value, unit, sign);
    return (struct str){arena_copy(arena, text, n), n};
}

static void put_str(struct out *out, const char *before, struct str text, const char *after)
{
    out_text(out, before);
    out_str(out, text);
    out_text(out, after);
}

// Of two that were compared.
static struct str versions_text(const struct changes_versions *v, struct arena *arena)
{
    struct out out;
    out_init_arena(&out, arena);
    put_str(&out, "", cut_alert_text(v->label, arena), ": ");
    put_str(&out, "", cut_alert_text(v->before, arena), " -> ");
    put_str(&out, "", cut_alert_text(v->after, arena), "");
    return out_result(&out);
}

// The versions ran side by side from low to high.
static struct str versions_description(const struct changes_entry *entry, struct arena *arena)
{
    const struct stats_entry *c = &entry->entry;
    const struct changes_versions *v = &entry->versions;
    struct changes_units u = changes_api_units(entry, arena);
    struct out out;
    out_init_arena(&out, arena);
    put_str(&out, "", cut_alert_text(c->function, arena), " takes ");
    put_str(&out, "", amount_text(c->after / u.value_per, u.value, false, arena), "");
    put_str(&out, " in ", cut_alert_text(v->label, arena), "=");
    put_str(&out, "", cut_alert_text(v->after, arena), " and ");
    put_str(&out, "", amount_text(c->before / u.value_per, u.value, false, arena), "");
    put_str(&out, " in ", cut_alert_text(v->before, arena), " at the same time (");
    put_str(&out, "", cut_alert_text(entry->type, arena), ", ");
    out_printf(&out, "%s to ", alert_time_text(c->sides[1].start, arena));
    out_printf(&out, "%s; ", alert_time_text(c->sides[1].end, arena));
    out_printf(&out,
               "%.0f %% of the profiles were of the new version). The cost is that of the whole "
               "service with the new version.",
               100 * v->part);
    return out_result(&out);
}

static struct str alert_description(const struct changes_entry *entry, struct arena *arena)
{
    const struct stats_entry *c = &entry->entry;
    struct changes_units u = changes_api_units(entry, arena);
    struct out out;
    out_init_arena(&out, arena);
    out_printf(&out, "Since %s (95 %% interval: %s", alert_time_text(c->time, arena),
               alert_time_text(c->low, arena));
    out_printf(&out, " to %s) ", alert_time_text(c->high, arena));
    put_str(&out, "", c->function.n ? cut_alert_text(c->function, arena) : STR("the whole service"),
            " takes ");
    put_str(&out, "", amount_text(c->after / u.value_per, u.value, false, arena), " instead of ");
    put_str(&out, "", amount_text(c->before / u.value_per, u.value, false, arena), " (");
    put_str(&out, "", cut_alert_text(entry->type, arena), ").");
    if (c->marker)
        put_str(&out, " Deploy: ", cut_alert_text(c->marker->text, arena), ".");
    return out_result(&out);
}

// --- labels ---

static int compare_alert_labels(const void *a, const void *b)
{
    return str_cmp(((const struct store_label *)a)->name, ((const struct store_label *)b)->name);
}

static struct store_label *labels_of(const struct alert_sender *s,
                                     const struct changes_entry *entry, struct arena *arena,
                                     size_t *n)
{
    static const char *const measured[] = {"service", "self", "total"};
    const struct alert_receiver *r = s->receiver;
    const struct stats_entry *c = &entry->entry;
    bool has_severity = false;
    struct store_label *labels = arena_array(arena, LABELS + r->n_labels, sizeof *labels);
    const struct store_label own[LABELS - 1] = {
        {STR("alertname"), STR("KilnChange")},
        {STR("change_id"), str_from(arena_printf(arena, "%" PRId64, entry->id))},
        {STR("direction"), c->cost < 0 ? STR("decrease") : STR("increase")},
        {STR("function"), cut_alert_text(c->function, arena)},
        {STR("measured"), str_from(measured[c->measured % 3])},
        {STR("profile_type"), cut_alert_text(entry->type, arena)},
        {STR("service_name"), cut_alert_text(entry->service, arena)},
        {STR("tenant"), s->tenant},
    };
    *n = 0;
    for (size_t i = 0; i < LABELS - 1; i++)
        if (own[i].value.n) // an Alertmanager drops empty ones
            labels[(*n)++] = own[i];
    for (size_t i = 0; i < r->n_labels; i++) {
        has_severity |= str_eq(r->labels[i].name, STR("severity"));
        if (r->labels[i].value.n)
            labels[(*n)++] = r->labels[i];
    }
    if (!has_severity)
        labels[(*n)++] =
            (struct store_label){STR("severity"), c->cost < 0 ? STR("info") : STR("warning")};
    qsort(labels, *n, sizeof *labels, compare_alert_labels);
    return labels;
}

static void write_alert_labels(struct out *out, const char *key, const struct store_label *labels,
                               size_t n)
{
    out_printf(out, "\"%s\":{", key);
    for (size_t i = 0; i < n; i++) {
        out_text(out, i ? "," : "");
        json_write_string(out, labels[i].name);
        out_char(out, ':');
        json_write_string(out, labels[i].value);
    }
    out_char(out, '}');
}

void alert_describe(const struct alert_sender *s, struct changes_alert *alert, struct arena *arena)
{
    const struct changes_entry *entry = &alert->entry;
    const struct stats_entry *c = &entry->entry;
    struct changes_units u = changes_api_units(entry, arena);
    struct str cost = amount_text(c->cost / u.cost_per, u.cost, true, arena);
    struct str what = c->function.n ? cut_alert_text(c->function, arena) : STR("the whole service");
    struct out out, summary;
    size_t n;
    struct store_label *labels = labels_of(s, entry, arena, &n);
    out_init_arena(&out, arena);
    out_init_arena(&summary, arena);
    put_str(&summary, "", cut_alert_text(entry->service, arena), ": ");
    put_str(&summary, "", what, " costs ");
    put_str(&summary, "", cost, "");
    bool of_versions = entry->versions.label.n > 0;
    if (of_versions) {
        put_str(&summary, " if all of it has ", cut_alert_text(entry->versions.label, arena), "=");
        put_str(&summary, "", cut_alert_text(entry->versions.after, arena), "");
    }
    struct str text =
        of_versions ? versions_description(entry, arena) : alert_description(entry, arena);
    struct store_label annotations[6] = {{STR("changes_url"), changes_url(s, entry, arena)},
                                         {STR("cost"), cost},
                                         {STR("description"), text},
                                         {STR("summary"), out_result(&summary)}};
    size_t n_annotations = 4;
    if (of_versions)
        annotations[n_annotations++] =
            (struct store_label){STR("versions"), versions_text(&entry->versions, arena)};
    if (c->marker)
        annotations[n_annotations++] =
            (struct store_label){STR("deploy"), cut_alert_text(c->marker->text, arena)};
    // After the clock went back, the future is refused.
    alert->starts = c->time < s->now ? c->time : s->now;
    out_char(&out, '{');
    write_alert_labels(&out, "labels", labels, n);
    out_char(&out, ',');
    write_alert_labels(&out, "annotations", annotations, n_annotations);
    out_printf(&out,
               ",\"startsAt\":\"%s\",\"generatorURL\":", alert_time_text(alert->starts, arena));
    json_write_string(&out, diff_url(s, entry, arena));
    out_char(&out, '}');
    alert->text = out_result(&out);
}

// --- bodies ---

static int read_alert_texts(const struct changes_alert *alerts, size_t n, struct arena *arena,
                            struct json **roots, struct err *e)
{
    *roots = arena_array(arena, n + 1, sizeof **roots);
    for (size_t i = 0; i < n; i++)
        if (json_parse(arena, alerts[i].text, &(*roots)[i], e) ||
            json_kind(json_get((*roots)[i], "labels")) != JSON_OBJECT) {
            err_prefix(
                e, "the alert of change %" PRId64 " in the database is damaged: ", alerts[i].id);
            return STORE_CORRUPT;
        }
    return 0;
}

// Its members, without the brace that ends it.
static struct str is_inside_alert(struct str object)
{
    return str_from_to(object, 1, object.n - 1);
}

// It may not end before it began, whatever the clock says.
static int64_t alert_end(const struct alert_sender *s, const struct changes_alert *alert)
{
    return s->now > alert->starts ? s->now : alert->starts;
}

int alert_write_list(const struct alert_sender *s, const struct changes_alert *alerts, size_t n,
                     struct arena *arena, struct str *body, struct err *e)
{
    struct json *roots;
    struct out out;
    int code = read_alert_texts(alerts, n, arena, &roots, e);
    if (code)
        return code;
    out_init_arena(&out, arena);
    for (size_t i = 0; i < n; i++) {
        int64_t end = alert_end(s, &alerts[i]);
        end += alerts[i].open ? RESENDS * s->receiver->interval : 0;
        put_str(&out, i ? ",{" : "[{", is_inside_alert(json_text(roots[i])), "");
        out_printf(&out, ",\"endsAt\":\"%s\"}", alert_time_text(end, arena));
    }
    out_char(&out, ']');
    *body = out_result(&out);
    return 0;
}

static uint64_t fnv_hash(uint64_t hash, struct str text)
{
    for (size_t i = 0; i < text.n; i++)
        hash = (hash ^ (unsigned char)text.p[i]) * 1099511628211u;
    return (hash ^ 255) * 1099511628211u;
}

// As Prometheus' model.LabelSet has it: labels are in the order of their names.
static uint64_t alert_fingerprint(struct json labels, struct arena *arena)
{
    uint64_t hash = 14695981039346656037u;
    for (struct json_each i = json_each(labels); json_next(&i);)
        hash = fnv_hash(fnv_hash(hash, json_key(&i, arena)), json_string(i.value, arena));
    return hash;
}

// The members of an object that all of them have.
static void write_common(struct out *out, const char *key, const char *member,
                         const struct json *roots, size_t n, struct arena *arena)
{
    bool first = true;
    out_printf(out, ",\"%s\":{", key);
    struct json_each i = json_each(json_get(roots[0], member));
    while (json_next(&i)) {
        struct str name = json_key(&i, arena);
        bool common = true;
        for (size_t k = 1; k < n && common; k++)
            common = str_eq(
                json_text(json_get(json_get(roots[k], member), arena_copy(arena, name.p, name.n))),
                json_text(i.value));
        if (!common)
            continue;
        out_text(out, first ? "" : ",");
        first = false;
        json_write_string(out, name);
        out_char(out, ':');
        out_str(out, json_text(i.value));
    }
    out_char(out, '}');
}

static void write_grouped(const struct alert_sender *s, struct out *out,
                          const struct changes_alert *alert, struct json root, struct arena *arena)
{
    const char *end =
        alert->open ? "0001-01-01T00:00:00Z" : alert_time_text(alert_end(s, alert), arena);
    put_str(out, alert->open ? "{\"status\":\"firing\"," : "{\"status\":\"resolved\",",
            is_inside_alert(json_text(root)), "");
    out_printf(out, ",\"endsAt\":\"%s\",\"fingerprint\":\"%016" PRIx64 "\"}", end,
               alert_fingerprint(json_get(root, "labels"), arena));
}

int alert_write_group(const struct alert_sender *s, const struct changes_alert *alerts, size_t n,
                      size_t left_out, struct arena *arena, struct str *body, struct err *e)
{
    const struct store_label group[] = {
        {STR("alertname"), STR("KilnChange")},
        {STR("service_name"), cut_alert_text(alerts[0].service, arena)},
        {STR("tenant"), s->tenant}};
    struct json *roots;
    struct out out, key;
    bool firing = left_out > 0;
    int code = read_alert_texts(alerts, n, arena, &roots, e);
    if (code)
        return code;
    for (size_t i = 0; i < n; i++)
        firing |= alerts[i].open;
    out_init_arena(&out, arena);
    out_init_arena(&key, arena);
    out_text(&key, "{}:{");
    for (size_t i = 0; i < sizeof group / sizeof *group; i++) {
        put_str(&key, i ? ", " : "", group[i].name, "=");
        json_write_string(&key, group[i].value);
    }
    out_char(&key, '}');
    out_text(&out, "{\"version\":\"4\",\"groupKey\":");
    json_write_string(&out, out_result(&key));
    out_printf(&out, ",\"truncatedAlerts\":%zu,\"status\":\"%s\",\"receiver\":", left_out,
               firing ? "firing" : "resolved");
    json_write_string(&out, s->receiver->name);
    out_char(&out, ',');
    write_alert_labels(&out, "groupLabels", group, sizeof group / sizeof *group);
    write_common(&out, "commonLabels", "labels", roots, n, arena);
    write_common(&out, "commonAnnotations", "annotations", roots, n, arena);
    out_text(&out, ",\"externalURL\":");
    json_write_string(&out, str_from(s->external_url));
    out_text(&out, ",\"alerts\":[");
    for (size_t i = 0; i < n; i++) {
        out_text(&out, i ? "," : "");
        write_grouped(s, &out, &alerts[i], roots[i], arena);
    }
    out_text(&out, "]}");
    *body = out_result(&out);
    return 0;
}

void alert_sign(struct str secret, int64_t seconds, struct str body,
                char header[ALERT_SIGNATURE_MAX])
{
    uint8_t digest[SHA256_SIZE];
    char hex[2 * SHA256_SIZE + 1] = "", time[24];
    snprintf(time, sizeof time, "%" PRId64, seconds);
    const struct str parts[] = {str_from(time), STR("."), body};
    hmac_sha256(secret, parts, 3, digest);
    str_hex(hex, digest, sizeof digest);
    snprintf(header, ALERT_SIGNATURE_MAX, "X-Kiln-Signature: t=%s,v1=%s", time, hex);
}
