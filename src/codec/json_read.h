// Reads JSON without building a tree. json_parse checks the whole text (RFC 8259) and records where
// each array and object ends, in eight bytes of the arena each. Values are decoded on access, so
// the text must outlive them.
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
    uint32_t at;                          // offset in the text
    uint32_t nest;                        // index of the first array or object at or after it
};

// Parses exactly one value of less than 4 GiB. Returns -1 with e filled: line, column and what was
// expected.
int json_parse(struct arena *arena, struct str text, struct json *root, struct err *e);

enum json_kind json_kind(struct json value);

// Returns the member with this name; the last one if it occurs more than once. Absent if there is
// none or if object is not an object.
struct json json_get(struct json object, const char *key);

// Iterates over the members of an object or the items of an array. Other values have no items.
//     for (struct json_each i = json_each(value); json_next(&i);)
//         use(i.value);
struct json_each {
    struct json value;
    struct str key; // of a member, not decoded: compare with json_key_is
    uint32_t at, nest;
    bool is_object, is_started;
};

// json_each starts an iteration. json_next advances it and returns false at the end. json_size
// counts the members or items.
struct json_each json_each(struct json container);
bool json_next(struct json_each *each);
size_t json_size(struct json container);
bool json_key_is(const struct json_each *each, const char *key);
// Returns the decoded name of the current member. The result may point into the document's text.
struct str json_key(const struct json_each *each, struct arena *arena);

// Returns the decoded text, or NULL as p if the value is not a string. The result points into the
// document's text if it contains no escapes, else into arena.
struct str json_string(struct json value, struct arena *arena);
// Whether value is a string equal to text.
bool json_is(struct json value, const char *text);
bool json_is_true(struct json value);
// Return false if the value is not a number, not an integer (1.0 and 1e2 are not), or out of range.
bool json_i64(struct json value, int64_t *number);
bool json_u64(struct json value, uint64_t *number);
// Returns false if the value is not a number or not finite.
bool json_double(struct json value, double *number);
// Returns the value's text as it is in the document.
struct str json_text(struct json value);
