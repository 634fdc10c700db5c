// Messages encoded as protocol buffers or JSON. Each is described once, by a table of fields and
// the C struct that receives them. One decoder and one encoder serve all requests and responses of
// the server, and OTLP.
//
// JSON follows protobuf's rules. Fields have their lowerCamelCase or proto name. 64-bit integers
// are strings or numbers (written as strings). Bytes are base64. Enumerations are read by name or
// number. Unknown fields are ignored. null means absent.
#pragma once

#include "base/arena.h"
#include "base/out.h"

enum message_kind {
    MESSAGE_INT,     // int64_t; any varint, fixed or bool
    MESSAGE_DOUBLE,  // double
    MESSAGE_BOOL,    // bool
    MESSAGE_STRING,  // struct str, valid UTF-8
    MESSAGE_BYTES,   // struct str
    MESSAGE_HEX,     // struct str; JSON input has hexadecimal digits
    MESSAGE_MESSAGE, // pointer to the struct, NULL if absent; lists hold the structs
};

// The C type of a repeated field.
struct message_list {
    void *items;
    size_t n, cap;
    bool packed; // part of it was packed; distinguishes versions of a message
};

struct message_enum {
    const char *name;
    int64_t value;
};

struct message;

struct message_field {
    uint32_t number;
    const char *json, *name; // name: proto name, NULL if equal to json
    enum message_kind kind;
    bool repeated;
    bool small; // int32 or uint32: JSON output is a number
    bool fixed; // packed items have eight bytes each
    size_t offset;
    const struct message *message;    // for MESSAGE_MESSAGE
    const struct message_enum *names; // for an enumeration; ends with a NULL name
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

// Decodes a message into a zeroed struct in arena. Returns NULL with e filled on failure. Strings
// and bytes may point into data, so data must outlive the result.
void *message_read_proto(const struct message *m, struct arena *arena, const uint8_t *data,
                         size_t n, struct err *e);
// Like message_read_proto, for JSON.
void *message_read_json(const struct message *m, struct arena *arena, const uint8_t *data, size_t n,
                        struct err *e);

// Encode a message. Default values (zero, empty) are omitted.
void message_write_proto(const struct message *m, const void *object, struct out *out);
void message_write_json(const struct message *m, const void *object, struct out *out);

// Whether s is valid UTF-8.
bool message_is_utf8(struct str s);
// Decodes base64 (either alphabet, with or without padding) into arena. p is NULL if text is
// invalid.
struct str message_base64(struct arena *arena, struct str text);
