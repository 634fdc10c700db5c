#include <math.h>
#include <stdio.h>

#include "codec/json.h"
#include "codec/message.h"
#include "codec/proto.h"

// The values of a field: one value, or the items of a list.
struct values {
    const char *items;
    size_t n, size;
};

static bool is_default(const struct message_field *f, const void *at)
{
    switch (f->kind) {
    case MESSAGE_INT:
        return *(const int64_t *)at == 0;
    case MESSAGE_DOUBLE:
        return *(const double *)at == 0 && !signbit(*(const double *)at);
    case MESSAGE_BOOL:
        return !*(const bool *)at;
    case MESSAGE_MESSAGE:
        return *(void *const *)at == NULL;
    default:
        return ((const struct str *)at)->n == 0;
    }
}

static struct values values_of(const struct message_field *f, const void *object)
{
    const char *at = (const char *)object + f->offset;
    size_t size = f->kind == MESSAGE_INT       ? sizeof(int64_t)
                  : f->kind == MESSAGE_DOUBLE  ? sizeof(double)
                  : f->kind == MESSAGE_BOOL    ? sizeof(bool)
                  : f->kind == MESSAGE_MESSAGE ? f->message->size
                                               : sizeof(struct str);
    if (f->repeated) {
        const struct message_list *list = (const void *)at;
        return (struct values){list->items, list->n, size};
    }
    if (is_default(f, at))
        return (struct values){NULL, 0, size};
    if (f->kind == MESSAGE_MESSAGE)
        return (struct values){*(char *const *)at, 1, size};
    return (struct values){at, 1, size};
}

// --- protocol buffers ---

static size_t message_proto_size(const struct message *m, const void *object);

static size_t value_size(const struct message_field *f, const void *at)
{
    size_t n;
    switch (f->kind) {
    case MESSAGE_INT:
        return proto_varint_size((uint64_t) * (const int64_t *)at);
    case MESSAGE_DOUBLE:
        return 8;
    case MESSAGE_BOOL:
        return 1;
    case MESSAGE_MESSAGE:
        n = message_proto_size(f->message, at);
        break;
    default:
        n = ((const struct str *)at)->n;
    }
    return proto_varint_size(n) + n;
}

static bool is_packed(const struct message_field *f)
{
    return f->repeated && f->kind <= MESSAGE_BOOL;
}

static size_t values_size(const struct message_field *f, const struct values *v)
{
    size_t total = 0;
    for (size_t i = 0; i < v->n; i++)
        total += value_size(f, v->items + i * v->size);
    return total;
}

static size_t message_proto_size(const struct message *m, const void *object)
{
    size_t total = 0;
    for (size_t i = 0; i < m->n_fields; i++) {
        const struct message_field *f = &m->fields[i];
        struct values v = values_of(f, object);
        if (!v.n)
            continue;
        size_t n = values_size(f, &v), key = proto_varint_size((uint64_t)f->number << 3);
        total += is_packed(f) ? key + proto_varint_size(n) + n : key * v.n + n;
    }
    return total;
}

static void proto_write_value(const struct message_field *f, const void *at, struct out *out)
{
    switch (f->kind) {
    case MESSAGE_INT:
        proto_put_varint(out, (uint64_t) * (const int64_t *)at);
        return;
    case MESSAGE_DOUBLE:
        out_write(out, at, 8);
        return;
    case MESSAGE_BOOL:
        out_char(out, *(const bool *)at);
        return;
    case MESSAGE_MESSAGE:
        proto_put_varint(out, message_proto_size(f->message, at));
        message_write_proto(f->message, at, out);
        return;
    default:
        proto_put_varint(out, ((const struct str *)at)->n);
        out_str(out, *(const struct str *)at);
    }
}

void message_write_proto(const struct message *m, const void *object, struct out *out)
{
    for (size_t i = 0; i < m->n_fields; i++) {
        const struct message_field *f = &m->fields[i];
        struct values v = values_of(f, object);
        if (!v.n)
            continue;
        unsigned wire = is_packed(f) || f->kind > MESSAGE_BOOL ? WIRE_BYTES
                        : f->kind == MESSAGE_DOUBLE            ? WIRE_FIXED64
                                                               : WIRE_VARINT;
        uint64_t key = (uint64_t)f->number << 3 | wire;
        if (is_packed(f)) {
            proto_put_varint(out, key);
            proto_put_varint(out, values_size(f, &v));
        }
        for (size_t k = 0; k < v.n && !out->error; k++) {
            if (!is_packed(f))
                proto_put_varint(out, key);
            proto_write_value(f, v.items + k * v.size, out);
        }
    }
}

// --- JSON ---

static void write_base64(struct out *out, struct str s)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const uint8_t *p = (const uint8_t *)s.p;
    out_char(out, '"');
    for (size_t i = 0; i < s.n; i += 3) {
        uint32_t v = (uint32_t)p[i] << 16 | (i + 1 < s.n ? (uint32_t)p[i + 1] << 8 : 0) |
                     (i + 2 < s.n ? p[i + 2] : 0);
        out_char(out, digits[v >> 18]);
        out_char(out, digits[v >> 12 & 63]);
        out_char(out, i + 1 < s.n ? digits[v >> 6 & 63] : '=');
        out_char(out, i + 2 < s.n ? digits[v & 63] : '=');
    }
    out_char(out, '"');
}

static void write_double(struct out *out, double d)
{
    char text[40];
    if (isnan(d)) {
        out_text(out, "\"NaN\"");
    } else if (isinf(d)) {
        out_text(out, d < 0 ? "\"-Infinity\"" : "\"Infinity\"");
    } else if (d == floor(d) && fabs(d) < 1e15) {
        out_i64(out, (int64_t)d);
    } else {
        // Use the shortest text that reads back as the same number.
        for (int digits = 15; digits <= 17; digits++) {
            snprintf(text, sizeof text, "%.*g", digits, d);
            double back;
            if (str_to_double(str_from(text), &back) && back == d)
                break;
        }
        out_text(out, text);
    }
}

static void json_write_value(const struct message_field *f, const void *at, struct out *out)
{
    switch (f->kind) {
    case MESSAGE_INT:
        if (!f->small)
            out_char(out, '"');
        out_i64(out, *(const int64_t *)at);
        if (!f->small)
            out_char(out, '"');
        return;
    case MESSAGE_DOUBLE:
        write_double(out, *(const double *)at);
        return;
    case MESSAGE_BOOL:
        out_text(out, *(const bool *)at ? "true" : "false");
        return;
    case MESSAGE_STRING:
        json_write_string(out, *(const struct str *)at);
        return;
    case MESSAGE_BYTES:
    case MESSAGE_HEX:
        write_base64(out, *(const struct str *)at);
        return;
    case MESSAGE_MESSAGE:
        message_write_json(f->message, at, out);
    }
}

void message_write_json(const struct message *m, const void *object, struct out *out)
{
    bool first = true;
    out_char(out, '{');
    for (size_t i = 0; i < m->n_fields; i++) {
        const struct message_field *f = &m->fields[i];
        struct values v = values_of(f, object);
        if (!v.n)
            continue;
        json_write_key(out, f->json, &first);
        if (f->repeated)
            out_char(out, '[');
        for (size_t k = 0; k < v.n && !out->error; k++) {
            if (k)
                out_char(out, ',');
            json_write_value(f, v.items + k * v.size, out);
        }
        if (f->repeated)
            out_char(out, ']');
    }
    out_char(out, '}');
}
