// JSON. A parsed document must be the same after writing and parsing it again, and parsing must use
// bounded memory.
#include "codec/json.h"
#include "codec/json_read.h"
#include "reader.h"

// Writes a document with a depth-first walk and an explicit stack of iterators.
static void write_document(struct json root, struct arena *arena, struct out *out)
{
    struct json_each *open = arena_array(arena, JSON_MAX_DEPTH + 1, sizeof *open);
    size_t depth = 0;
    struct json v = root;
    for (bool value = true;;) {
        if (value) {
            switch (json_kind(v)) {
            case JSON_STRING: {
                json_write_string(out, json_string(v, arena));
                break;
            }
            case JSON_ARRAY:
            case JSON_OBJECT:
                fuzz_require(depth <= JSON_MAX_DEPTH);
                out_char(out, json_kind(v) == JSON_ARRAY ? '[' : '{');
                open[depth++] = json_each(v);
                break;
            case JSON_NUMBER: {
                int64_t i;
                double d;
                fuzz_require(!json_i64(v, &i) || json_double(v, &d) || json_text(v).n >= 64);
                out_str(out, json_text(v));
                break;
            }
            case JSON_ABSENT:
                fuzz_require(false);
                break;
            default:
                out_str(out, json_text(v));
            }
        }
        if (!depth)
            return;
        struct json_each *each = &open[depth - 1];
        bool first = !each->is_started, object = each->is_object;
        value = json_next(each);
        if (!value) {
            out_char(out, object ? '}' : ']');
            depth--;
            continue;
        }
        if (!first)
            out_char(out, ',');
        if (object) {
            json_write_string(out, json_key(each, arena));
            out_char(out, ':');
        }
        v = each->value;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct arena *arena = arena_new((size_t)64 << 20), *parsing = arena_new((1 << 20) + 16 * n);
    struct err e = {.message = ""};
    struct arena_trap trap, parsing_trap;
    fuzz_require(!ARENA_TRY(arena, trap) && !ARENA_TRY(parsing, parsing_trap));
    char *copy = malloc(n ? n : 1);
    if (n)
        memcpy(copy, data, n);
    struct json root, again;
    int result = json_parse(parsing, (struct str){copy, n}, &root, &e);
    fuzz_require(result == 0 || e.message[0]);
    if (result == 0) {
        struct out out, second;
        out_init_arena(&out, arena);
        out_init_arena(&second, arena);
        write_document(root, arena, &out);
        fuzz_require(json_parse(arena, out_result(&out), &again, &e) == 0);
        write_document(again, arena, &second);
        fuzz_require(str_eq(out_result(&out), out_result(&second)));
        fuzz_require(json_size(root) == json_size(again));
        json_get(root, "a");
    }
    free(copy);
    arena_try_end(arena);
    arena_try_end(parsing);
    arena_free(arena);
    arena_free(parsing);
    return 0;
}
