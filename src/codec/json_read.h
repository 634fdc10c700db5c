// Reading JSON without a tree. json_parse checks the whole text (RFC 8259) and notes where each
// array and object ends: eight bytes for each, in the arena. Values are decoded from the text when
// they are asked for, so the text must outlive them.
#pragma once

#include "base/arena.h"
#include "base/str.h"

enum { JSON_MAX_DEPTH = 2048 };

enum json_kind {
    JSON_ABSENT,
    JSON_NULL,
    JSON_BOOL,
    JSON_NUMBER,
    JSON_STRING,
    JSON_ARRAY,
    JSON_OBJECT,
};

struct json_document;

struct json {
    const struct json_document *document; // NULL: absent
    uint32_t at;                          // in the text
    uint32_t nest;                        // of the first array or object from there on
};

// Exactly one value, less than 4 GiB of text. -1 with e filled: line, column and what was expected.
int json_parse(struct arena *arena, struct str text, struct json *root, struct err *e);

enum json_kind json_kind(struct json value);

// The member of that name; of several the last one. Absent if there is none or object is no object.
struct json json_get(struct json object, const char *key);

// Members of an object or items of an array, nothing of other values:
//     for (struct json_each i = json_each(value); json_next(&i);)
//         use(i.value);
struct json_each {
    struct json value;
    struct str key; // of a member, as it is written: compare with json_key_is
    uint32_t at, nest;
    bool is_object, is_started;
};

struct json_each json_each(struct json container);
bool json_next(struct json_each *each);
size_t json_size(struct json container);
bool json_key_is(const struct json_each *each, const char *key);
struct str json_key(const struct json_each *each, struct arena *arena);

// The decoded text; p is NULL if the value is no string. It is part of the document's text if
// nothing in it was escaped.
struct str json_string(struct json value, struct arena *arena);
// Whether a string is equal to text.
bool json_is(struct json value, const char *text);
bool json_is_true(struct json value);
// False if the value is no number, not an integer (1.0 and 1e2 are none), or does not fit.
bool json_i64(struct json value, int64_t *number);
bool json_u64(struct json value, uint64_t *number);
// False if the value is no number or not finite.
bool json_double(struct json value, double *number);
// The value as it is written.
struct str json_text(struct json value);
