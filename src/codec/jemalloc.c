#include <math.h>
#include <stdlib.h>

#include "model/builder.h"
#include "codec/codec.h"
#include "codec/detect.h"
#include "codec/maps.h"

// Heap dumps of jemalloc:
//
//     heap_v2/<sampling interval>
//       t*: <objects>: <bytes> [<accumulated objects>: <accumulated bytes>]
//       t<thread>: ...
//     @ 0x<address> 0x<address> ...
//       t*: ...
//       t<thread>: ...
//
//     MAPPED_LIBRARIES:
//     <lines of /proc/self/maps>
//
// Thread names become labels. The t* line of a stack has its total; the lines of the threads only
// decide how it is divided among them.
//
// Stacks begin inside the allocator, in the function that records them. These frames are removed so
// that the leaf is the caller that allocated. If jemalloc is a shared library, this reader removes
// them by address. If it is linked statically, drop_frames removes them by name.
enum { OBJECTS, BYTES, ACC_OBJECTS, ACC_BYTES, N_COUNTS };

static const char drop_frames[] =
    "(_rjem_|je_)*(malloc|calloc|realloc|mallocx|rallocx|aligned_alloc|memalign|posix_memalign|"
    "valloc|pvalloc|malloc_default|imalloc.*|do_rallocx|prof_backtrace.*|prof_tctx_create|"
    "prof_alloc_prep.*)|(__rustc::)?__r(ust|g)_(alloc|alloc_zeroed|realloc)|"
    "<tikv_jemallocator::.*|<?alloc::alloc::.*";

#define MAP_MARK "MAPPED_LIBRARIES:"

enum { LIBRARY_PARTS = 4, FIRST_SLOTS = 4096 };

// What one thread, or all threads with one name, contribute to a stack.
struct share {
    uint32_t name; // string id; 0: no name
    int64_t counts[N_COUNTS], values[N_COUNTS];
};

struct reader {
    struct arena *arena;
    struct err *e;
    struct model_builder b;
    double interval;
    bool has_accumulated;
    // The stack being read. Its counts come from its t* line, or are the sum of its threads.
    bool in_stack, has_total;
    struct stack_address {
        uint64_t address, hash;
    } * addresses;
    uint32_t *frames; // their locations
    size_t n_frames, cap_frames, cap_addresses;
    // The location of each return address so far; open addressing.
    struct known_address {
        uint64_t address;
        uint32_t location; // + 1; 0: empty
    } * known;
    size_t n_known, n_slots;
    struct {
        uint64_t start, limit;
    } library[LIBRARY_PARTS]; // address ranges of jemalloc's code
    unsigned n_library;
    int64_t total[N_COUNTS], threads[N_COUNTS];
    struct share *shares; // of the current stack
    size_t n_shares, cap_shares;
    // Threads that have a name, from the thread list before the stacks.
    struct named_thread {
        uint64_t id;
        uint32_t name;
    } * named;
    size_t n_named, cap_named;
    struct hash_table by_id;
};

static int bad_line(struct reader *r, const struct scan_lines *lines, const char *expected)
{
    return err_set(r->e, "jemalloc dump: line %zu: expected %s, found `%s`", lines->number,
                   expected, scan_quote(lines->line).text);
}

// `<objects>: <bytes> [<objects>: <bytes>]`
static bool jemalloc_scan_counts(struct scan *s, int64_t counts[N_COUNTS])
{
    static const char after[N_COUNTS] = {':', '[', ':', ']'};
    for (int i = 0; i < N_COUNTS; i++) {
        scan_blanks(s);
        if (!str_to_i64(scan_run(s, scan_is_digit), &counts[i]))
            return false;
        scan_blanks(s);
        if (!scan_char(s, after[i]))
            return false;
    }
    return true;
}

// Scales sampled counts to estimates. A block of size S is sampled with probability 1 -
// exp(-S/interval), so its counts are divided by that probability.
static bool unsample_jemalloc(const struct reader *r, const int64_t sampled[2], int64_t scaled[2])
{
    scaled[0] = sampled[0];
    scaled[1] = sampled[1];
    if (sampled[0] == 0 || sampled[1] == 0 || r->interval <= 1)
        return true;
    double average = (double)sampled[1] / (double)sampled[0];
    double probability = -expm1(-average / r->interval);
    return scan_round((double)sampled[0] / probability, &scaled[0]) &&
           scan_round((double)sampled[1] / probability, &scaled[1]);
}

// Converts the counts of a line to values in the order of the profile's types: accumulated first.
static bool scale_counts(const struct reader *r, const int64_t counts[N_COUNTS],
                         int64_t values[N_COUNTS])
{
    return unsample_jemalloc(r, counts, values + 2) &&
           unsample_jemalloc(r, counts + ACC_OBJECTS, values);
}

static void jemalloc_add_sample(struct reader *r, uint32_t thread, const int64_t values[N_COUNTS])
{
    if (!(values[0] | values[1] | values[2] | values[3]))
        return;
    if (thread)
        model_build_label(&r->b, STR("thread"), model_str(r->b.p, thread));
    model_build_sample(&r->b, r->frames, r->n_frames, values + (r->has_accumulated ? 0 : 2));
}

// Shares without a name sort last.
static int compare_share_names(const void *a, const void *b)
{
    uint32_t x = ((const struct share *)a)->name - 1, y = ((const struct share *)b)->name - 1;
    return (x > y) - (x < y);
}

// Divides values among the threads in proportion to their lines. The parts add up to values
// exactly. Threads without a name share one sample.
static void jemalloc_add_shares(struct reader *r, const int64_t values[N_COUNTS])
{
    double sum[N_COUNTS] = {0}, upto[N_COUNTS] = {0};
    int64_t given[N_COUNTS] = {0}, part[N_COUNTS];
    qsort(r->shares, r->n_shares, sizeof *r->shares, compare_share_names);
    for (size_t i = 0; i < r->n_shares; i++) {
        struct share *share = &r->shares[i];
        if (!scale_counts(r, share->counts, share->values))
            memset(share->values, 0, sizeof share->values); // t* still has the total
        for (int k = 0; k < N_COUNTS; k++)
            sum[k] += (double)share->values[k];
    }
    for (size_t i = 0; i < r->n_shares && r->shares[i].name;) {
        uint32_t name = r->shares[i].name;
        for (; i < r->n_shares && r->shares[i].name == name; i++)
            for (int k = 0; k < N_COUNTS; k++)
                upto[k] += (double)r->shares[i].values[k];
        for (int k = 0; k < N_COUNTS; k++) {
            int64_t to = given[k];
            if (sum[k] > 0 && scan_round((double)values[k] * (upto[k] / sum[k]), &to))
                to = to > values[k] ? values[k] : to;
            part[k] = to - given[k];
            given[k] = to;
        }
        jemalloc_add_sample(r, name, part);
    }
    for (int k = 0; k < N_COUNTS; k++)
        part[k] = values[k] - given[k];
    jemalloc_add_sample(r, 0, part);
}

static int jemalloc_end_stack(struct reader *r, const struct scan_lines *lines)
{
    if (!r->in_stack)
        return 0;
    r->in_stack = false;
    int64_t values[N_COUNTS];
    bool named = false;
    if (!scale_counts(r, r->has_total ? r->total : r->threads, values))
        return err_set(r->e, "jemalloc dump: the counts of the stack before line %zu are too large",
                       lines->number);
    for (size_t i = 0; i < r->n_shares; i++)
        named |= r->shares[i].name != 0;
    if (named)
        jemalloc_add_shares(r, values);
    else
        jemalloc_add_sample(r, 0, values);
    return 0;
}

static void jemalloc_begin_stack(struct reader *r)
{
    r->in_stack = true;
    r->has_total = false;
    r->n_frames = 0;
    r->n_shares = 0;
    memset(r->threads, 0, sizeof r->threads);
}

static bool is_in_jemalloc_library(const struct reader *r, uint64_t address)
{
    for (unsigned i = 0; i < r->n_library; i++)
        if (address > r->library[i].start && address <= r->library[i].limit)
            return true;
    return false;
}

static inline struct known_address *find_known_slot(const struct reader *r, struct stack_address a)
{
    size_t at = a.hash & (r->n_slots - 1);
    while (r->known[at].location && r->known[at].address != a.address)
        at = (at + 1) & (r->n_slots - 1);
    return &r->known[at];
}

static void grow_known(struct reader *r)
{
    struct known_address *old = r->known;
    size_t n = r->n_slots;
    r->n_slots = n ? n * 4 : FIRST_SLOTS;
    r->known = arena_array(r->arena, r->n_slots, sizeof *r->known);
    for (size_t i = 0; i < n; i++)
        if (old[i].location)
            *find_known_slot(
                r, (struct stack_address){old[i].address, hash_mix(old[i].address, 0)}) = old[i];
}

// Adds the location of a return address that was not met before. Subtracts one so that the address
// lies inside the call. Address 0 is kept: nothing returns to it.
static uint32_t jemalloc_add_location(struct reader *r, struct stack_address a)
{
    if (r->n_known >= r->n_slots / 2)
        grow_known(r);
    uint32_t location =
        model_build_location(&r->b, MODEL_NONE, a.address ? a.address - 1 : 0, NULL, 0);
    *find_known_slot(r, a) = (struct known_address){a.address, location + 1};
    r->n_known++;
    return location;
}

// The slot arrives in the cache before find_stack_locations uses it.
static inline void jemalloc_add_address(struct reader *r, uint64_t address)
{
    struct stack_address a = {address, hash_mix(address, 0)};
    __builtin_prefetch(&r->known[a.hash & (r->n_slots - 1)]);
    r->addresses =
        arena_push(r->arena, r->addresses, r->n_frames, &r->cap_addresses, sizeof *r->addresses);
    r->addresses[r->n_frames++] = a;
}

static void find_stack_locations(struct reader *r)
{
    if (r->cap_frames < r->cap_addresses) {
        r->frames = arena_raw(r->arena, r->cap_addresses, sizeof *r->frames);
        r->cap_frames = r->cap_addresses;
    }
    for (size_t i = 0; i < r->n_frames; i++) {
        const struct known_address *slot = find_known_slot(r, r->addresses[i]);
        r->frames[i] =
            slot->location ? slot->location - 1 : jemalloc_add_location(r, r->addresses[i]);
    }
}

// Scans 0xHEX. Most of a dump consists of addresses, so this reads each digit once.
static bool scan_hex_address(struct scan *s, uint64_t *address)
{
    // digit value + 1. A table avoids branches, which would be mispredicted for random digits.
    static const uint8_t digits[256] = {
        ['0'] = 1,  ['1'] = 2,  ['2'] = 3,  ['3'] = 4,  ['4'] = 5,  ['5'] = 6,
        ['6'] = 7,  ['7'] = 8,  ['8'] = 9,  ['9'] = 10, ['a'] = 11, ['b'] = 12,
        ['c'] = 13, ['d'] = 14, ['e'] = 15, ['f'] = 16, ['A'] = 11, ['B'] = 12,
        ['C'] = 13, ['D'] = 14, ['E'] = 15, ['F'] = 16,
    };
    const char *at = s->at + 2;
    uint64_t value = 0;
    if (s->end - s->at < 3 || s->at[0] != '0' || s->at[1] != 'x')
        return false;
    for (; at < s->end && at - s->at < 2 + 16 && digits[(unsigned char)*at]; at++)
        value = value << 4 | (digits[(unsigned char)*at] - 1u);
    bool any = at > s->at + 2, more = at < s->end && scan_is_hex(*at);
    s->at = at;
    *address = value;
    return any && !more;
}

static int read_stack_line(struct reader *r, struct scan_lines *lines, struct str line)
{
    if (jemalloc_end_stack(r, lines))
        return -1;
    jemalloc_begin_stack(r);
    struct scan s = scan_from(line, 1);
    uint64_t inside = 0;
    while (scan_run(&s, scan_is_space).n && s.at < s.end) {
        uint64_t address;
        if (!scan_hex_address(&s, &address))
            return bad_line(r, lines, "`@ 0xaddress ...`");
        if (r->n_frames == 0 && is_in_jemalloc_library(r, address))
            inside = address;
        else
            jemalloc_add_address(r, address);
    }
    if (r->n_frames == 0 && inside)
        jemalloc_add_address(r, inside); // all frames are jemalloc's: it allocated for itself
    find_stack_locations(r);
    return s.at == s.end ? 0 : bad_line(r, lines, "`@ 0xaddress ...`");
}

static uint32_t find_thread_name(const struct reader *r, uint64_t id)
{
    for (struct hash_probe at = hash_find(&r->by_id, hash_mix(id, 0)); hash_hit(&r->by_id, &at);
         hash_next(&r->by_id, &at))
        if (r->named[at.item].id == id)
            return r->named[at.item].name;
    return 0;
}

static void add_thread_name(struct reader *r, uint64_t id, uint32_t name)
{
    if (!name || find_thread_name(r, id) || r->n_named == MODEL_NONE)
        return;
    r->named = arena_push(r->arena, r->named, r->n_named, &r->cap_named, sizeof *r->named);
    hash_add(&r->by_id, r->arena, hash_mix(id, 0), (uint32_t)r->n_named);
    r->named[r->n_named++] = (struct named_thread){id, name};
}

static int jemalloc_add_share(struct reader *r, const struct scan_lines *lines,
                              const int64_t counts[N_COUNTS], uint32_t name)
{
    struct share share = {.name = name};
    for (int i = 0; i < N_COUNTS; i++)
        if (__builtin_add_overflow(r->threads[i], counts[i], &r->threads[i]))
            return bad_line(r, lines, "counts that fit 63 bits");
    memcpy(share.counts, counts, sizeof share.counts);
    r->shares = arena_push(r->arena, r->shares, r->n_shares, &r->cap_shares, sizeof *r->shares);
    r->shares[r->n_shares++] = share;
    return 0;
}

// `t*: counts` or `t<uid>: counts name`. Before the first stack, these lines are totals of the
// whole dump.
static int read_counts_line(struct reader *r, struct scan_lines *lines, struct str line)
{
    const char *expected = "`t*: objects: bytes [objects: bytes]`";
    struct scan s = scan_from(line, 1);
    bool is_total = scan_char(&s, '*');
    uint64_t id = 0;
    if (!is_total && !str_to_u64(scan_run(&s, scan_is_digit), 10, &id))
        return bad_line(r, lines, expected);
    int64_t counts[N_COUNTS];
    if (!scan_char(&s, ':') || !jemalloc_scan_counts(&s, counts))
        return bad_line(r, lines, expected);
    if (!is_total) {
        struct str text = str_trim((struct str){s.at, (size_t)(s.end - s.at)});
        uint32_t name = text.n ? model_intern(r->b.p->strings, text) : find_thread_name(r, id);
        if (r->in_stack)
            return jemalloc_add_share(r, lines, counts, name);
        add_thread_name(r, id, name);
    } else if (r->in_stack) {
        if (r->has_total)
            return bad_line(r, lines, "one `t*:` line a stack");
        r->has_total = true;
        memcpy(r->total, counts, sizeof counts);
    }
    return 0;
}

// Returns the text from the first line that begins with mark, or an empty string. Does not visit
// the lines before it one by one, because they are most of the dump.
static struct str text_from_mark(struct str text, struct str mark)
{
    const char *end = text.p + text.n;
    for (const char *at = text.p; (at = memmem(at, (size_t)(end - at), mark.p, mark.n)); at++) {
        const char *start = at;
        while (start > text.p && (start[-1] == ' ' || start[-1] == '\t'))
            start--;
        if (start == text.p || start[-1] == '\n')
            return (struct str){at, (size_t)(end - at)};
    }
    return (struct str){end, 0};
}

// Whether any stack has accumulated counts. They decide which types the profile has, so this runs
// before the stacks are read. They are in the first brackets of a line.
static bool has_accumulated(struct str text, struct str map)
{
    const char *at = text_from_mark(text, STR("@")).p, *end = map.p;
    while (at < end && (at = memchr(at, '[', (size_t)(end - at)))) {
        for (; at < end && *at != ']' && *at != '\n'; at++)
            if (*at >= '1' && *at <= '9')
                return true;
        at = at < end ? memchr(at, '\n', (size_t)(end - at)) : NULL;
        if (!at)
            break;
    }
    return false;
}

// Finds the address ranges of jemalloc's library. The memory map follows the stacks but is needed
// to read them.
static void find_jemalloc_library(struct reader *r, struct str map)
{
    struct scan_lines lines = {.rest = map};
    struct maps_entry entry;
    while (scan_next(&lines) && r->n_library < LIBRARY_PARTS) {
        uint64_t start, limit;
        if (maps_parse(lines.line, &entry) && str_find(entry.perm, STR("x"), 0) != SIZE_MAX &&
            str_starts(scan_basename(entry.file), STR("libjemalloc")) &&
            str_to_u64(entry.start, 16, &start) && str_to_u64(entry.limit, 16, &limit)) {
            r->library[r->n_library].start = start;
            r->library[r->n_library++].limit = limit;
        }
    }
}

// Reads the executable mappings as they are. The dump comes from a live process, so no mapping was
// split or misreported (compare maps_massage).
static void jemalloc_read_map(struct reader *r, struct scan_lines *lines)
{
    struct model_profile *p = r->b.p;
    while (scan_next(lines)) {
        struct maps_entry entry;
        struct model_mapping mapping;
        bool is_mapping;
        if (!maps_parse_mapping(p->strings, lines->line, &mapping, &is_mapping) ||
            !maps_parse(lines->line, &entry))
            continue;
        if (entry.file.n) {
            // A path may contain blanks.
            const char *end = lines->line.p + lines->line.n;
            struct str file = str_trim((struct str){entry.file.p, (size_t)(end - entry.file.p)});
            mapping.file = model_intern(p->strings, file);
        }
        model_build_mapping(&r->b, mapping);
    }
    maps_main_first(&r->b);
    const struct maps_index *index = maps_index_new(r->arena, p);
    for (uint32_t i = 0; i < p->n_locations; i++)
        p->locations[i].mapping = maps_find(index, p->locations[i].address);
}

static void jemalloc_add_types(struct reader *r)
{
    struct model_builder *b = &r->b;
    if (r->has_accumulated) {
        model_build_type(b, STR("alloc_objects"), STR("count"));
        model_build_type(b, STR("alloc_space"), STR("bytes"));
    }
    model_build_type(b, STR("inuse_objects"), STR("count"));
    model_build_type(b, STR("inuse_space"), STR("bytes"));
    b->p->default_type = model_build_string(b, STR("inuse_space"));
    b->p->period_type = (struct model_value_type){
        model_build_string(b, STR("space")),
        model_build_string(b, STR("bytes")),
    };
}

static struct model_profile *jemalloc_read_dump(struct reader *r, struct scan_lines *lines)
{
    scan_next(lines);
    struct scan s = scan_from(lines->line, 0);
    int64_t interval;
    if (!scan_text(&s, STR("heap_v2/")) || !str_to_i64(scan_run(&s, scan_is_digit), &interval)) {
        bad_line(r, lines, "`heap_v2/<sampling interval>`");
        return NULL;
    }
    model_build(&r->b, r->arena);
    hash_init(&r->by_id, r->arena, 64);
    r->interval = (double)interval;
    struct str map = text_from_mark(lines->rest, STR(MAP_MARK));
    r->has_accumulated = has_accumulated(lines->rest, map);
    find_jemalloc_library(r, map);
    grow_known(r);
    jemalloc_add_types(r);
    r->b.p->period = interval;
    r->b.p->drop_frames = model_build_string(&r->b, STR(drop_frames));
    bool has_map = false;
    while (!has_map && scan_next(lines)) {
        struct str line = str_trim(lines->line);
        int result = 0;
        if (str_starts(line, STR("@")))
            result = read_stack_line(r, lines, line);
        else if (str_starts(line, STR("t")))
            result = read_counts_line(r, lines, line);
        else if (str_starts(line, STR(MAP_MARK)))
            has_map = true;
        else if (line.n && line.p[0] != '#')
            result = bad_line(r, lines, "a stack (`@ ...`), counts (`t...`) or MAPPED_LIBRARIES:");
        if (result)
            return NULL;
    }
    if (jemalloc_end_stack(r, lines))
        return NULL;
    jemalloc_read_map(r, lines);
    return r->b.p;
}

struct model_profile *codec_read_jemalloc(struct arena *arena, const uint8_t *data, size_t n,
                                          struct err *e)
{
    struct arena_trap trap;
    if (ARENA_TRY(arena, trap)) {
        arena_caught(arena, e);
        return NULL;
    }
    struct reader r = {.arena = arena, .e = e};
    struct scan_lines lines = {.rest = n ? (struct str){(const char *)data, n} : STR("")};
    struct model_profile *p = jemalloc_read_dump(&r, &lines);
    arena_try_end(arena);
    return p;
}

bool codec_looks_like_jemalloc(struct str head)
{
    struct scan s = scan_from(head.n ? head : STR(""), 0);
    if (!scan_text(&s, STR("heap_v2/")) || scan_run(&s, scan_is_digit).n == 0)
        return false;
    return s.at == s.end || *s.at == '\n' || *s.at == '\r';
}
