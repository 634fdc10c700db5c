#include "codec/message.h"

#include <math.h>

#include "codec/json.h"
#include "codec/json_read.h"
#include "codec/proto.h"

enum { DEPTH_MAX = 32, FIELDS_MAX = 32 };

static size_t item_size(const struct message_field *f)
{
    switch (f->kind) {
    case MESSAGE_INT:
        return sizeof(int64_t);
    case MESSAGE_DOUBLE:
        return sizeof(double);
    case MESSAGE_BOOL:
        return sizeof(bool);
    case MESSAGE_MESSAGE:
        return f->message->size;
    default:
        return sizeof(struct str);
    }
}

// Returns where the next value of f is stored. Appends an item if f is repeated.
static void *field_destination(struct arena *arena, const struct message_field *f, void *object)
{
    void *at = (char *)object + f->offset;
    if (f->repeated) {
        struct message_list *list = at;
        size_t size = item_size(f);
        list->items = arena_push(arena, list->items, list->n, &list->cap, size);
        return (char *)list->items + list->n++ * size;
    }
    if (f->kind != MESSAGE_MESSAGE)
        return at;
    void **child = at;
    if (!*child) // protobuf merges repeated occurrences of a submessage
        *child = arena_alloc(arena, f->message->size);
    return *child;
}

bool message_is_utf8(struct str s)
{
    for (size_t i = 0; i < s.n;) {
        uint64_t eight;
        if (s.n >= sizeof eight) {
            // The last word overlaps the previous one.
            bool last = s.n - i < sizeof eight;
            memcpy(&eight, last ? s.p + s.n - sizeof eight : s.p + i, sizeof eight);
            if (!(eight & 0x8080808080808080u)) {
                if (last)
                    return true;
                i += sizeof eight;
                continue;
            }
        }
        if (!(s.p[i] & 0x80)) {
            i++;
            continue;
        }
        size_t length = json_utf8_length((const unsigned char *)s.p + i, s.n - i);
        if (!length)
            return false;
        i += length;
    }
    return true;
}

// --- protocol buffers ---

static int proto_read_fields(const struct message *m, struct arena *arena, struct proto_span s,
                             void *object, int depth, struct err *e);

static const struct message_field *find_field_number(const struct message *m, uint64_t number)
{
    for (size_t i = 0; i < m->n_fields; i++)
        if (m->fields[i].number == number)
            return &m->fields[i];
    return NULL;
}

static uint64_t little_endian(struct proto_span s)
{
    uint64_t v = 0;
    for (const uint8_t *p = s.end; p > s.p;)
        v = v << 8 | *--p;
    return v;
}

static void store_number(struct arena *arena, const struct message_field *f, void *object, int wire,
                         uint64_t bits)
{
    void *at = field_destination(arena, f, object);
    if (f->kind == MESSAGE_DOUBLE) {
        float single;
        uint32_t low = (uint32_t)bits;
        memcpy(&single, &low, sizeof single);
        if (wire == WIRE_FIXED32)
            *(double *)at = (double)single;
        else
            memcpy(at, &bits, sizeof bits);
    } else if (f->kind == MESSAGE_BOOL) {
        *(bool *)at = bits != 0;
    } else {
        *(int64_t *)at = (int64_t)bits;
    }
}

static int field_decode_error(const struct message_field *f, struct err *e)
{
    return err_set(e, "field %u (%s) cannot be decoded", f->number, f->json);
}

static int proto_read_packed(const struct message_field *f, struct arena *arena,
                             struct proto_span s, void *object, struct err *e)
{
    ((struct message_list *)((char *)object + f->offset))->packed = true;
    bool fixed = f->kind == MESSAGE_DOUBLE || f->fixed;
    while (s.p < s.end) {
        uint64_t bits;
        if (fixed) {
            if (s.end - s.p < 8)
                return field_decode_error(f, e);
            bits = little_endian((struct proto_span){s.p, s.p + 8});
            s.p += 8;
        } else if (!proto_varint(&s, &bits)) {
            return field_decode_error(f, e);
        }
        store_number(arena, f, object, fixed ? WIRE_FIXED64 : WIRE_VARINT, bits);
    }
    return 0;
}

static int proto_read_field(const struct message_field *f, struct arena *arena,
                            const struct proto_field *v, void *object, int depth, struct err *e)
{
    struct str text = {(const char *)v->span.p, (size_t)(v->span.end - v->span.p)};
    switch (f->kind) {
    case MESSAGE_INT:
    case MESSAGE_DOUBLE:
    case MESSAGE_BOOL:
        if (v->wire == WIRE_BYTES)
            return f->repeated ? proto_read_packed(f, arena, v->span, object, e)
                               : field_decode_error(f, e);
        store_number(arena, f, object, v->wire,
                     v->wire == WIRE_VARINT ? v->value : little_endian(v->span));
        return 0;
    case MESSAGE_STRING:
        if (v->wire != WIRE_BYTES)
            return field_decode_error(f, e);
        if (!message_is_utf8(text))
            return err_set(e, "field %u (%s) is not valid UTF-8", f->number, f->json);
        *(struct str *)field_destination(arena, f, object) = text;
        return 0;
    case MESSAGE_BYTES:
    case MESSAGE_HEX:
        if (v->wire != WIRE_BYTES)
            return field_decode_error(f, e);
        *(struct str *)field_destination(arena, f, object) = text;
        return 0;
    case MESSAGE_MESSAGE:
        if (v->wire != WIRE_BYTES)
            return field_decode_error(f, e);
        return proto_read_fields(f->message, arena, v->span, field_destination(arena, f, object),
                                 depth + 1, e);
    }
    return 0;
}

static int proto_read_fields(const struct message *m, struct arena *arena, struct proto_span s,
                             void *object, int depth, struct err *e)
{
    const uint8_t *from = s.p;
    if (depth > DEPTH_MAX)
        return err_set(e, "messages nested more than %d deep", DEPTH_MAX);
    while (s.p < s.end) {
        struct proto_field v;
        size_t at = (size_t)(s.p - from);
        if (!proto_next(&s, &v) || v.number == 0)
            return err_set(e, "not a protocol buffer: no field can be decoded at byte %zu", at);
        const struct message_field *f = find_field_number(m, v.number);
        if (f && proto_read_field(f, arena, &v, object, depth, e))
            return -1;
    }
    return 0;
}

void *message_read_proto(const struct message *m, struct arena *arena, const uint8_t *data,
                         size_t n, struct err *e)
{
    void *object = arena_alloc(arena, m->size);
    return proto_read_fields(m, arena, (struct proto_span){data, data + n}, object, 0, e) ? NULL
                                                                                          : object;
}

// --- JSON ---

struct str message_base64(struct arena *arena, struct str text)
{
    while (text.n && text.p[text.n - 1] == '=')
        text.n--;
    uint8_t *to = arena_alloc(arena, text.n / 4 * 3 + 3), *at = to;
    uint32_t bits = 0;
    unsigned have = 0;
    for (size_t i = 0; i < text.n; i++) {
        char c = text.p[i];
        uint32_t v;
        if (c >= 'A' && c <= 'Z')
            v = (uint32_t)(c - 'A');
        else if (c >= 'a' && c <= 'z')
            v = (uint32_t)(c - 'a') + 26;
        else if (c >= '0' && c <= '9')
            v = (uint32_t)(c - '0') + 52;
        else if (c == '+' || c == '-')
            v = 62;
        else if (c == '/' || c == '_')
            v = 63;
        else
            return (struct str){NULL, 0};
        bits = bits << 6 | v;
        have += 6;
        if (have >= 8) {
            have -= 8;
            *at++ = (uint8_t)(bits >> have);
        }
    }
    if (text.n % 4 == 1)
        return (struct str){NULL, 0};
    return (struct str){(char *)to, (size_t)(at - to)};
}

static int json_hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

static struct str decode_hex(struct arena *arena, struct str text)
{
    char *to = arena_alloc(arena, text.n / 2 + 1);
    for (size_t i = 0; i + 1 < text.n; i += 2) {
        int high = json_hex_digit(text.p[i]), low = json_hex_digit(text.p[i + 1]);
        if (high < 0 || low < 0)
            return (struct str){NULL, 0};
        to[i / 2] = (char)(high << 4 | low);
    }
    return text.n % 2 ? (struct str){NULL, 0} : (struct str){to, text.n / 2};
}

static int json_read_object(const struct message *m, struct arena *arena, struct json json,
                            void *object, int depth, struct err *e);

static int json_field_error(const struct message_field *f, const char *wanted, struct err *e)
{
    return err_set(e, "field \"%s\": expected %s", f->json, wanted);
}

static int json_read_int(const struct message_field *f, struct arena *arena, struct json json,
                         int64_t *value, struct err *e)
{
    enum json_kind kind = json_kind(json);
    uint64_t large;
    if (kind == JSON_NUMBER) {
        double d;
        if (json_i64(json, value))
            return 0;
        if (!f->names && json_u64(json, &large)) {
            *value = (int64_t)large;
            return 0;
        }
        if (!json_double(json, &d) || d != floor(d) || d < -9.2e18 || d > 9.2e18)
            return json_field_error(f, "a 64-bit integer", e);
        *value = (int64_t)d;
        return 0;
    }
    if (kind == JSON_BOOL && !f->names) {
        *value = json_is_true(json);
        return 0;
    }
    if (kind != JSON_STRING)
        return json_field_error(f, "an integer", e);
    struct str text = json_string(json, arena);
    for (const struct message_enum *n = f->names; n && n->name; n++)
        if (str_eq(text, str_from(n->name))) {
            *value = n->value;
            return 0;
        }
    if (str_to_i64(text, value))
        return 0;
    if (!f->names && str_to_u64(text, 10, &large)) {
        *value = (int64_t)large;
        return 0;
    }
    return json_field_error(f, f->names ? "one of its names or a number" : "a 64-bit integer", e);
}

static int json_read_double(const struct message_field *f, struct arena *arena, struct json json,
                            double *value, struct err *e)
{
    if (json_double(json, value))
        return 0;
    if (json_kind(json) == JSON_STRING && str_to_double(json_string(json, arena), value))
        return 0;
    return json_field_error(f, "a number", e);
}

static int json_read_field(const struct message_field *f, struct arena *arena, struct json json,
                           void *object, int depth, struct err *e)
{
    void *at = field_destination(arena, f, object);
    switch (f->kind) {
    case MESSAGE_INT:
        return json_read_int(f, arena, json, at, e);
    case MESSAGE_DOUBLE:
        return json_read_double(f, arena, json, at, e);
    case MESSAGE_BOOL:
        if (json_kind(json) != JSON_BOOL)
            return json_field_error(f, "true or false", e);
        *(bool *)at = json_is_true(json);
        return 0;
    case MESSAGE_MESSAGE:
        return json_read_object(f->message, arena, json, at, depth + 1, e);
    case MESSAGE_STRING:
    case MESSAGE_BYTES:
    case MESSAGE_HEX:
        break;
    }
    struct str text = json_string(json, arena), *to = at;
    if (!text.p)
        return json_field_error(f, "a string", e);
    if (f->kind == MESSAGE_STRING) {
        *to = text;
        return 0;
    }
    *to = f->kind == MESSAGE_HEX ? decode_hex(arena, text) : message_base64(arena, text);
    return to->p ? 0
                 : json_field_error(f, f->kind == MESSAGE_HEX ? "hexadecimal digits" : "base64", e);
}

// Finds the values of m's fields. If several members have the same name, the last one wins. The
// JSON name takes precedence over the proto name.
static void json_find_fields(const struct message *m, struct json object, struct json *values)
{
    uint64_t by_json_name = 0;
    for (struct json_each i = json_each(object); json_next(&i);)
        for (size_t k = 0; k < m->n_fields; k++) {
            bool is_json_name = json_key_is(&i, m->fields[k].json);
            if (is_json_name)
                by_json_name |= UINT64_C(1) << k;
            else if (by_json_name >> k & 1 || !m->fields[k].name ||
                     !json_key_is(&i, m->fields[k].name))
                continue;
            values[k] = i.value;
            break;
        }
}

static int json_read_object(const struct message *m, struct arena *arena, struct json json,
                            void *object, int depth, struct err *e)
{
    struct json values[FIELDS_MAX] = {{0}};
    if (depth > DEPTH_MAX)
        return err_set(e, "objects nested more than %d deep", DEPTH_MAX);
    if (json_kind(json) != JSON_OBJECT)
        return err_set(e, "expected a JSON object");
    if (m->n_fields > FIELDS_MAX)
        return err_set(e, "a message with more than %d fields", FIELDS_MAX);
    json_find_fields(m, json, values);
    for (size_t i = 0; i < m->n_fields; i++) {
        const struct message_field *f = &m->fields[i];
        enum json_kind kind = json_kind(values[i]);
        if (kind == JSON_ABSENT || kind == JSON_NULL)
            continue;
        if (!f->repeated) {
            if (json_read_field(f, arena, values[i], object, depth, e))
                return -1;
            continue;
        }
        if (kind != JSON_ARRAY)
            return json_field_error(f, "an array", e);
        for (struct json_each item = json_each(values[i]); json_next(&item);)
            if (json_read_field(f, arena, item.value, object, depth, e))
                return -1;
    }
    return 0;
}

void *message_read_json(const struct message *m, struct arena *arena, const uint8_t *data, size_t n,
                        struct err *e)
{
    struct json json;
    if (json_parse(arena, (struct str){(const char *)data, n}, &json, e)) {
        err_prefix(e, "not valid JSON: ");
        return NULL;
    }
    void *object = arena_alloc(arena, m->size);
    return json_read_object(m, arena, json, object, 0, e) ? NULL : object;
}
