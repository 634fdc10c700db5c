#include "codec/message.h"

#include <jansson.h>
#include <math.h>

#include "codec/json.h"
#include "codec/proto.h"

enum { DEPTH_MAX = 32 };

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

// Where the next value of f goes.
static void *place(struct arena *arena, const struct message_field *f, void *object)
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
    if (!*child) // a second occurrence is merged into the first, as protobuf asks
        *child = arena_alloc(arena, f->message->size);
    return *child;
}

bool message_is_utf8(struct str s)
{
    for (size_t i = 0; i < s.n;) {
        uint64_t eight;
        if (s.n - i >= sizeof eight) {
            memcpy(&eight, s.p + i, sizeof eight);
            if (!(eight & 0x8080808080808080u)) {
                i += sizeof eight;
                continue;
            }
        } else if (!(s.p[i] & 0x80)) {
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

static int read_fields(const struct message *m, struct arena *arena, struct proto_span s,
                       void *object, int depth, struct err *e);

static const struct message_field *find_number(const struct message *m, uint64_t number)
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

static void put_number(struct arena *arena, const struct message_field *f, void *object, int wire,
                       uint64_t bits)
{
    void *at = place(arena, f, object);
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

static int bad_field(const struct message_field *f, struct err *e)
{
    return err_set(e, "field %u (%s) cannot be decoded", f->number, f->json);
}

static int read_packed(const struct message_field *f, struct arena *arena, struct proto_span s,
                       void *object, struct err *e)
{
    ((struct message_list *)((char *)object + f->offset))->packed = true;
    bool fixed = f->kind == MESSAGE_DOUBLE || f->fixed;
    while (s.p < s.end) {
        uint64_t bits;
        if (fixed) {
            if (s.end - s.p < 8)
                return bad_field(f, e);
            bits = little_endian((struct proto_span){s.p, s.p + 8});
            s.p += 8;
        } else if (!proto_varint(&s, &bits)) {
            return bad_field(f, e);
        }
        put_number(arena, f, object, fixed ? WIRE_FIXED64 : WIRE_VARINT, bits);
    }
    return 0;
}

static int read_field(const struct message_field *f, struct arena *arena,
                      const struct proto_field *v, void *object, int depth, struct err *e)
{
    struct str text = {(const char *)v->span.p, (size_t)(v->span.end - v->span.p)};
    switch (f->kind) {
    case MESSAGE_INT:
    case MESSAGE_DOUBLE:
    case MESSAGE_BOOL:
        if (v->wire == WIRE_BYTES)
            return f->repeated ? read_packed(f, arena, v->span, object, e) : bad_field(f, e);
        put_number(arena, f, object, v->wire,
                   v->wire == WIRE_VARINT ? v->value : little_endian(v->span));
        return 0;
    case MESSAGE_STRING:
        if (v->wire != WIRE_BYTES)
            return bad_field(f, e);
        if (!message_is_utf8(text))
            return err_set(e, "field %u (%s) is not valid UTF-8", f->number, f->json);
        *(struct str *)place(arena, f, object) = text;
        return 0;
    case MESSAGE_BYTES:
    case MESSAGE_HEX:
        if (v->wire != WIRE_BYTES)
            return bad_field(f, e);
        *(struct str *)place(arena, f, object) = text;
        return 0;
    case MESSAGE_MESSAGE:
        if (v->wire != WIRE_BYTES)
            return bad_field(f, e);
        return read_fields(f->message, arena, v->span, place(arena, f, object), depth + 1, e);
    }
    return 0;
}

static int read_fields(const struct message *m, struct arena *arena, struct proto_span s,
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
        const struct message_field *f = find_number(m, v.number);
        if (f && read_field(f, arena, &v, object, depth, e))
            return -1;
    }
    return 0;
}

void *message_read_proto(const struct message *m, struct arena *arena, const uint8_t *data,
                         size_t n, struct err *e)
{
    void *object = arena_alloc(arena, m->size);
    return read_fields(m, arena, (struct proto_span){data, data + n}, object, 0, e) ? NULL : object;
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

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

static struct str from_hex(struct arena *arena, struct str text)
{
    char *to = arena_alloc(arena, text.n / 2 + 1);
    for (size_t i = 0; i + 1 < text.n; i += 2) {
        int high = hex_digit(text.p[i]), low = hex_digit(text.p[i + 1]);
        if (high < 0 || low < 0)
            return (struct str){NULL, 0};
        to[i / 2] = (char)(high << 4 | low);
    }
    return text.n % 2 ? (struct str){NULL, 0} : (struct str){to, text.n / 2};
}

static int take_object(const struct message *m, struct arena *arena, json_t *json, void *object,
                       int depth, struct err *e);

static int wrong(const struct message_field *f, const char *wanted, struct err *e)
{
    return err_set(e, "field \"%s\": expected %s", f->json, wanted);
}

static int take_int(const struct message_field *f, json_t *json, int64_t *value, struct err *e)
{
    if (json_is_integer(json)) {
        *value = json_integer_value(json);
        return 0;
    }
    if (json_is_real(json)) {
        double d = json_real_value(json);
        if (d != floor(d) || d < -9.2e18 || d > 9.2e18)
            return wrong(f, "an integer", e);
        *value = (int64_t)d;
        return 0;
    }
    if (json_is_boolean(json) && !f->names) {
        *value = json_is_true(json);
        return 0;
    }
    if (!json_is_string(json))
        return wrong(f, "an integer", e);
    struct str text = {json_string_value(json), json_string_length(json)};
    for (const struct message_enum *n = f->names; n && n->name; n++)
        if (str_eq(text, str_from(n->name))) {
            *value = n->value;
            return 0;
        }
    uint64_t large;
    if (str_to_i64(text, value))
        return 0;
    if (!f->names && str_to_u64(text, 10, &large)) {
        *value = (int64_t)large;
        return 0;
    }
    return f->names ? wrong(f, "one of its names or a number", e) : wrong(f, "an integer", e);
}

static int take_double(const struct message_field *f, json_t *json, double *value, struct err *e)
{
    if (json_is_number(json)) {
        *value = json_number_value(json);
        return 0;
    }
    if (json_is_string(json) &&
        str_to_double((struct str){json_string_value(json), json_string_length(json)}, value))
        return 0;
    return wrong(f, "a number", e);
}

static int take_value(const struct message_field *f, struct arena *arena, json_t *json,
                      void *object, int depth, struct err *e)
{
    void *at = place(arena, f, object);
    switch (f->kind) {
    case MESSAGE_INT:
        return take_int(f, json, at, e);
    case MESSAGE_DOUBLE:
        return take_double(f, json, at, e);
    case MESSAGE_BOOL:
        if (!json_is_boolean(json))
            return wrong(f, "true or false", e);
        *(bool *)at = json_is_true(json);
        return 0;
    case MESSAGE_MESSAGE:
        return take_object(f->message, arena, json, at, depth + 1, e);
    case MESSAGE_STRING:
    case MESSAGE_BYTES:
    case MESSAGE_HEX:
        break;
    }
    if (!json_is_string(json))
        return wrong(f, "a string", e);
    struct str text = {json_string_value(json), json_string_length(json)}, *to = at;
    if (f->kind == MESSAGE_STRING) {
        *to = (struct str){arena_copy(arena, text.p, text.n), text.n};
        return 0;
    }
    *to = f->kind == MESSAGE_HEX ? from_hex(arena, text) : message_base64(arena, text);
    return to->p ? 0 : wrong(f, f->kind == MESSAGE_HEX ? "hexadecimal digits" : "base64", e);
}

static int take_object(const struct message *m, struct arena *arena, json_t *json, void *object,
                       int depth, struct err *e)
{
    if (depth > DEPTH_MAX)
        return err_set(e, "objects nested more than %d deep", DEPTH_MAX);
    if (!json_is_object(json))
        return err_set(e, "expected a JSON object");
    for (size_t i = 0; i < m->n_fields; i++) {
        const struct message_field *f = &m->fields[i];
        json_t *value = json_object_get(json, f->json);
        if (!value && f->name)
            value = json_object_get(json, f->name);
        if (!value || json_is_null(value))
            continue;
        if (!f->repeated) {
            if (take_value(f, arena, value, object, depth, e))
                return -1;
            continue;
        }
        if (!json_is_array(value))
            return wrong(f, "an array", e);
        for (size_t k = 0; k < json_array_size(value); k++)
            if (take_value(f, arena, json_array_get(value, k), object, depth, e))
                return -1;
    }
    return 0;
}

// The tree is jansson's, not the arena's: it must be freed when the arena runs out.
void *message_read_json(const struct message *m, struct arena *arena, const uint8_t *data, size_t n,
                        struct err *e)
{
    json_error_t why;
    json_t *volatile json = json_loadb((const char *)data, n, 0, &why);
    if (!json) {
        err_set(e, "not valid JSON: %s at byte %d", why.text, why.position);
        return NULL;
    }
    struct arena_trap trap;
    void *volatile object = NULL;
    int result;
    if (ARENA_TRY(arena, trap)) {
        result = arena_caught(arena, e);
    } else {
        object = arena_alloc(arena, m->size);
        result = take_object(m, arena, json, object, 0, e);
        arena_try_end(arena);
    }
    json_decref(json);
    return result ? NULL : object;
}
