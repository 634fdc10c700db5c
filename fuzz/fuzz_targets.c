// Answers of service discovery: groups of targets in JSON or YAML, and the result of relabeling.
// The first byte selects a configuration.
#include "reader.h"
#include "server/limits.h"
#include "server/scrape_discover.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static struct str both[] = {STR("__address__"), STR("k")};
static struct relabel_rule rules[] = {
    {.source = both,
     .n_source = 2,
     .separator = STR(";"),
     .target = STR("${2}x"),
     .replacement = STR("$1-$$-${k}"),
     .pattern = STR("^(?:(.*);(?P<k>.*))$")},
    {.pattern = STR("^(?:a(.*))$"), .replacement = STR("$1"), .action = RELABEL_LABELMAP},
    {.pattern = STR("^(?:b.*)$"), .action = RELABEL_LABELDROP},
    {.source = both,
     .n_source = 1,
     .target = STR("shard"),
     .modulus = 3,
     .pattern = STR("^(?:(.*))$"),
     .action = RELABEL_HASHMOD},
};
static struct scrape_profile profiles[] = {{STR("cpu"), STR("/p?a=b"), true, true, 0},
                                           {STR("heap"), STR("/h"), true, false, 0}};

static void check_target(const struct scrape_target *t)
{
    fuzz_require(store_is_tenant(t->tenant) && strncmp(t->url, "http", 4) == 0);
    for (const char *c = t->url; *c; c++)
        fuzz_require((unsigned char)*c > ' ' && *c != 0x7f);
    for (size_t i = 0; i < t->n_labels; i++)
        fuzz_require(!str_starts(t->labels[i].name, STR("__")));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (!n)
        return 0;
    struct scrape_config config = {
        .job = STR("job"),
        .scheme = STR("http"),
        .path_prefix = STR("/x"),
        .tenant = data[0] & 1 ? STR("own") : STR(""),
        .target_limit = 100,
        .interval = 10000000000,
        .rules = rules,
        .n_rules = data[0] & 2 ? sizeof rules / sizeof *rules : 0,
        .profiles = profiles,
        .n_profiles = 2,
    };
    struct arena *arena = arena_new(64 << 20);
    char *copy = malloc(n);
    struct target_group *groups;
    size_t n_groups;
    struct err e = {""};
    struct arena_trap trap;
    fuzz_require(arena && copy);
    memcpy(copy, data + 1, n - 1);
    int result =
        scrape_read_groups("fuzz", (struct str){copy, n - 1}, arena, &groups, &n_groups, &e);
    free(copy);
    fuzz_require(!result || e.message[0]);
    if (!result && !ARENA_TRY(arena, trap)) {
        struct scrape_job job;
        struct scrape_targets targets = {0};
        fuzz_require(scrape_job_init(&job, &config, arena, &e) == 0);
        scrape_add_groups(&job, groups, n_groups, true, &targets);
        arena_try_end(arena);
        fuzz_require(targets.n <= 200 && (!targets.unusable || targets.why.message[0]));
        for (size_t i = 0; i < targets.n; i++)
            check_target(&targets.items[i]);
    }
    arena_free(arena);
    return 0;
}
