// Messages that travel as protocol buffers or as JSON, described once: a table of fields and the
// C struct that they land in. One decoder and one encoder serve every request and answer of the
// server, and OTLP.
//
// JSON follows protobuf's rules: fields by lowerCamel or by their proto name, 64-bit integers as
// strings or numbers (written as strings), bytes in base64, enumerations by name or number,
// unknown fields ignored, null as absent.
#pragma once

#include "base/arena.h"
#include "base/out.h"

enum message_kind {
    MESSAGE_INT,     // int64_t; any varint, fixed or bool
    MESSAGE_DOUBLE,  // double
    MESSAGE_BOOL,    // bool
    MESSAGE_STRING,  // struct str, valid UTF-8
    MESSAGE_BYTES,   // struct str
    MESSAGE_HEX,     // struct str: bytes that JSON has as hexadecimal digits
    MESSAGE_MESSAGE, // a pointer to the struct, NULL if absent; in a list, the structs themselves
};

// What a repeated field lands in.
struct message_list {
    void *items;
    size_t n, cap;
    bool packed; // some of it came packed: tells versions of a message apart
};

struct message_enum {
    const char *name;
    int64_t value;
};

struct message;

struct message_field {
    uint32_t number;
    const char *json, *name; // name: NULL if it is the same
    enum message_kind kind;
    bool repeated;
    bool small; // an int32 or uint32: JSON writes it as a number
    bool fixed; // eight bytes an item where it is packed
    size_t offset;
    const struct message *message;    // of MESSAGE_MESSAGE
    const struct message_enum *names; // of an enumeration; NULL-name-terminated
};

struct message {
    size_t size;
    const struct message_field *fields;
    size_t n_fields;
};

#define MESSAGE(type, table)                                  \
    {                                                         \
        sizeof(type), table, sizeof(table) / sizeof(table)[0] \
    }

// Both return the zeroed and filled struct in arena, or NULL with e filled. What it holds points
// into data.
void *message_read_proto(const struct message *m, struct arena *arena, const uint8_t *data,
                         size_t n, struct err *e);
// The same for JSON.
void *message_read_json(const struct message *m, struct arena *arena, const uint8_t *data, size_t n,
                        struct err *e);

// Defaults (zero, empty) are left out of both.
void message_write_proto(const struct message *m, const void *object, struct out *out);
void message_write_json(const struct message *m, const void *object, struct out *out);

bool message_is_utf8(struct str s);
// The decoded bytes in arena; p is NULL if it is not base64 (either alphabet, padded or not).
struct str message_base64(struct arena *arena, struct str text);
