// kiln info: describes the content of a profile and its gaps.
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/stat.h>
#include <time.h>

#include "cli/commands.h"
#include "cli/terminal.h"
#include "model/units.h"

enum { MOST_MAPPINGS = 8, MOST_LABELS = 30 };

struct info {
    const struct model_profile *p;
    struct arena *arena;
    struct terminal t;
    struct out out;
};

static void put_info_head(struct info *in, const char *name)
{
    terminal_put_right(&in->t, &in->out, str_from(name), STYLE_BOLD, 12);
    out_text(&in->out, "  ");
}

static void put_info_time(struct info *in)
{
    const struct model_profile *p = in->p;
    char text[128];
    if (p->time_nanos > 0) {
        time_t seconds = p->time_nanos / 1000000000;
        struct tm tm;
        localtime_r(&seconds, &tm);
        strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S %Z", &tm);
        put_info_head(in, "taken");
        out_printf(&in->out, "%s\n", text);
    }
    if (p->duration_nanos) {
        units_label(text, sizeof text, p->duration_nanos, STR("nanoseconds"), STR("auto"));
        put_info_head(in, "duration");
        out_printf(&in->out, "%s\n", text);
    }
    if (p->period) {
        struct str type = model_str(p, p->period_type.type);
        struct str unit = model_str(p, p->period_type.unit);
        units_label(text, sizeof text, p->period, unit, STR("auto"));
        put_info_head(in, "period");
        out_printf(&in->out, "one sample every %s (%.*s)\n", text, (int)type.n, type.p);
    }
}

static void put_types(struct info *in)
{
    const struct model_profile *p = in->p;
    int chosen = model_type_index(p, STR(""), NULL);
    for (uint32_t i = 0; i < p->n_types; i++) {
        int64_t total = 0;
        for (size_t s = 0; s < p->n_samples; s++)
            total = units_add(total, model_values(p, s)[i]);
        struct str type = model_str(p, p->types[i].type), unit = model_str(p, p->types[i].unit);
        char text[128];
        units_label(text, sizeof text, total, unit, STR("auto"));
        put_info_head(in, i == 0 ? "types" : "");
        terminal_put(&in->t, &in->out, type, STYLE_NONE, 0);
        out_printf(&in->out, " in %.*s: total %s%s\n", (int)unit.n, unit.p, text,
                   (int)i == chosen ? " (default)" : "");
    }
}

// --- stacks ---

static bool samples_share_stack(const struct model_profile *p, size_t a, size_t b)
{
    return p->stack_len[a] == p->stack_len[b] &&
           memcmp(model_stack(p, a), model_stack(p, b), p->stack_len[a] * sizeof(uint32_t)) == 0;
}

static size_t distinct_stacks(struct info *in)
{
    const struct model_profile *p = in->p;
    struct hash_table index;
    size_t n = 0;
    hash_init(&index, in->arena, p->n_samples);
    for (size_t s = 0; s < p->n_samples; s++) {
        uint64_t hash = hash_bytes(model_stack(p, s), p->stack_len[s] * sizeof(uint32_t), 0);
        bool known = false;
        for (struct hash_probe at = hash_find(&index, hash); !known && hash_hit(&index, &at);
             hash_next(&index, &at))
            known = samples_share_stack(p, s, at.item);
        if (known)
            continue;
        hash_add(&index, in->arena, hash, (uint32_t)s);
        n++;
    }
    return n;
}

static void put_samples(struct info *in)
{
    const struct model_profile *p = in->p;
    uint64_t frames = 0;
    uint32_t deepest = 0;
    for (size_t s = 0; s < p->n_samples; s++) {
        frames += p->stack_len[s];
        deepest = p->stack_len[s] > deepest ? p->stack_len[s] : deepest;
    }
    put_info_head(in, "samples");
    out_printf(&in->out, "%zu, %zu distinct stacks; depth %.1f on average, %u at most\n",
               p->n_samples, distinct_stacks(in),
               p->n_samples ? (double)frames / (double)p->n_samples : 0.0, deepest);
}

static void put_symbols(struct info *in)
{
    const struct model_profile *p = in->p;
    uint64_t frames = 0, named = 0;
    uint32_t inlined = 0, with_lines = 0;
    bool *has_name = arena_array(in->arena, p->n_locations + 1, sizeof *has_name);
    for (uint32_t i = 0; i < p->n_locations; i++) {
        const struct model_location *l = &p->locations[i];
        inlined += l->n_lines > 1;
        for (uint32_t k = 0; k < l->n_lines; k++)
            has_name[i] |= p->functions[p->lines[l->first_line + k].function].name != 0;
        with_lines += l->n_lines && p->lines[l->first_line].line != 0;
    }
    for (size_t s = 0; s < p->n_samples; s++) {
        frames += p->stack_len[s];
        for (uint32_t i = 0; i < p->stack_len[s]; i++)
            named += has_name[model_stack(p, s)[i]];
    }
    double share = frames ? 100.0 * (double)named / (double)frames : 0;
    put_info_head(in, "symbols");
    out_printf(&in->out, "%s: %.4g %% of all frames have names; %u function%s, %u location%s\n",
               named == 0        ? "no"
               : named == frames ? "yes"
                                 : "in part",
               share, p->n_functions, str_plural(p->n_functions), p->n_locations,
               str_plural(p->n_locations));
    put_info_head(in, "");
    out_printf(&in->out, "lines: %s; inlined calls: %s\n",
               with_lines == 0                ? "no"
               : with_lines == p->n_locations ? "yes"
                                              : "in part",
               inlined ? "yes" : "none recorded");
}

static void put_mappings(struct info *in)
{
    const struct model_profile *p = in->p;
    uint32_t shown = p->n_mappings > MOST_MAPPINGS + 1 ? MOST_MAPPINGS : p->n_mappings;
    for (uint32_t i = 0; i < shown; i++) {
        struct str file = model_str(p, p->mappings[i].file);
        struct str id = model_str(p, p->mappings[i].build_id);
        put_info_head(in, i == 0 ? "mappings" : "");
        terminal_put(&in->t, &in->out, file.n ? file : STR("(no name)"), STYLE_NONE,
                     in->t.columns ? in->t.columns / 2 : 0);
        if (id.n)
            out_printf(&in->out, "  build id %.*s\n", (int)id.n, id.p);
        else
            out_text(&in->out, "  no build id\n");
    }
    if (shown < p->n_mappings) {
        put_info_head(in, "");
        out_printf(&in->out, "and %u more\n", p->n_mappings - shown);
    }
}

// --- labels ---

struct label_key {
    uint32_t key;
    bool is_number;
    size_t values, samples;
    uint32_t example;
};

static struct label_key *find_key(struct label_key *keys, size_t *n, const struct model_label *l)
{
    for (size_t i = 0; i < *n; i++)
        if (keys[i].key == l->key && keys[i].is_number == l->is_number)
            return &keys[i];
    if (*n == MOST_LABELS)
        return NULL;
    keys[*n] = (struct label_key){.key = l->key, .is_number = l->is_number, .example = l->str};
    return &keys[(*n)++];
}

static bool is_new_value(struct hash_table *seen, const struct model_profile *p,
                         struct arena *arena, uint32_t at)
{
    const struct model_label *l = &p->labels[at];
    uint64_t hash = hash_mix(hash_mix(l->key, l->str), (uint64_t)l->number * 2 + l->is_number);
    for (struct hash_probe probe = hash_find(seen, hash); hash_hit(seen, &probe);
         hash_next(seen, &probe)) {
        const struct model_label *o = &p->labels[probe.item];
        if (o->key == l->key && o->str == l->str && o->number == l->number &&
            o->is_number == l->is_number)
            return false;
    }
    hash_add(seen, arena, hash, at);
    return true;
}

static void put_info_labels(struct info *in)
{
    const struct model_profile *p = in->p;
    struct label_key keys[MOST_LABELS];
    size_t n_keys = 0;
    struct hash_table seen;
    hash_init(&seen, in->arena, 64);
    size_t *uses = arena_array(in->arena, p->n_label_sets + 1, sizeof *uses);
    for (size_t s = 0; p->label_set && s < p->n_samples; s++)
        uses[p->label_set[s]]++;
    for (uint32_t set = 0; set < p->n_label_sets; set++) {
        for (uint32_t i = 0; uses[set] && i < p->label_sets[set].n; i++) {
            uint32_t at = p->label_sets[set].first + i;
            struct label_key *key = find_key(keys, &n_keys, &p->labels[at]);
            if (!key)
                continue;
            key->samples += uses[set];
            key->values += is_new_value(&seen, p, in->arena, at);
        }
    }
    if (n_keys == 0) {
        put_info_head(in, "labels");
        out_text(&in->out, "none\n");
    }
    for (size_t i = 0; i < n_keys; i++) {
        put_info_head(in, i == 0 ? "labels" : "");
        terminal_put(&in->t, &in->out, model_str(p, keys[i].key), STYLE_NONE, 0);
        out_printf(&in->out, " (%s): %zu value%s, on %zu sample%s\n",
                   keys[i].is_number ? "number" : "text", keys[i].values,
                   str_plural(keys[i].values), keys[i].samples, str_plural(keys[i].samples));
    }
}

// --- missing data ---

static void put_losses(struct info *in)
{
    const struct model_profile *p = in->p;
    size_t empty = 0, zero = 0;
    for (size_t s = 0; s < p->n_samples; s++) {
        bool nothing = true;
        for (uint32_t i = 0; i < p->n_types; i++)
            nothing &= model_values(p, s)[i] == 0;
        zero += nothing;
        empty += p->stack_len[s] == 0;
    }
    bool begun = false;
    const struct {
        size_t n;
        const char *what;
    } losses[] = {{empty, "samples without a stack"}, {zero, "samples whose values are all zero"}};
    for (size_t i = 0; i < 2; i++) {
        if (!losses[i].n)
            continue;
        put_info_head(in, begun ? "" : "lost");
        out_printf(&in->out, "%zu %s\n", losses[i].n, losses[i].what);
        begun = true;
    }
    if (p->drop_frames) {
        struct str drop = model_str(p, p->drop_frames);
        put_info_head(in, "hidden");
        out_text(&in->out, "reports leave out frames that match ");
        terminal_put(&in->t, &in->out, drop, STYLE_NONE, 60);
        out_text(&in->out, " (--all-frames keeps them)\n");
    }
}

static bool mentions_loss(struct str comment)
{
    static const char *const words[] = {"drop", "lost", "truncat", "overflow", "discard"};
    for (size_t w = 0; w < sizeof words / sizeof *words; w++)
        for (size_t i = 0; i + strlen(words[w]) <= comment.n; i++)
            if (strncasecmp(comment.p + i, words[w], strlen(words[w])) == 0)
                return true;
    return false;
}

static void put_info_comments(struct info *in)
{
    const struct model_profile *p = in->p;
    for (uint32_t i = 0; i < p->n_comments; i++) {
        struct str comment = model_str(p, p->comments[i]);
        put_info_head(in, i == 0 ? "comments" : "");
        terminal_put(&in->t, &in->out, comment, mentions_loss(comment) ? STYLE_WARM : STYLE_NONE,
                     0);
        out_char(&in->out, '\n');
    }
    if (p->doc_url) {
        put_info_head(in, "doc");
        terminal_put(&in->t, &in->out, model_str(p, p->doc_url), STYLE_NONE, 0);
        out_char(&in->out, '\n');
    }
}

static void put_format(struct info *in, const char *name, enum codec_format format)
{
    struct stat st;
    terminal_put(&in->t, &in->out, str_from(strcmp(name, "-") ? name : "standard input"),
                 STYLE_BOLD, 0);
    out_char(&in->out, '\n');
    put_info_head(in, "format");
    out_text(&in->out, format ? codec_format_name(format) : "fetched");
    if (stat(name, &st) == 0 && S_ISREG(st.st_mode)) {
        char text[64];
        units_label(text, sizeof text, st.st_size, STR("bytes"), STR("auto"));
        out_printf(&in->out, ", %s", text);
    }
    out_char(&in->out, '\n');
}

static int put_info_file(struct call *call, struct info *in, const char *name, struct err *e)
{
    struct source source = call->source;
    enum codec_format format = CODEC_AUTO;
    source.names = &name;
    source.n_names = 1;
    source.strict = source.as_is = true;
    source.format = &format;
    in->p = source_load(&source, in->arena, e);
    if (!in->p)
        return -1;
    struct arena_trap trap;
    if (ARENA_TRY(in->arena, trap))
        return arena_caught(in->arena, e);
    put_format(in, name, format);
    put_info_time(in);
    put_types(in);
    put_samples(in);
    put_symbols(in);
    put_mappings(in);
    put_info_labels(in);
    put_losses(in);
    put_info_comments(in);
    arena_try_end(in->arena);
    return 0;
}

int command_info(struct call *call, struct err *e)
{
    struct info in = {.arena = call->arena, .t = terminal_stdout("auto")};
    out_init_fd(&in.out, 1);
    int result = 0;
    for (size_t i = 0; i < call->n_arguments && result == 0; i++) {
        if (i)
            out_char(&in.out, '\n');
        result = put_info_file(call, &in, call->arguments[i], e);
    }
    if (out_finish(&in.out, result ? NULL : e))
        result = -1;
    out_fini(&in.out);
    return result;
}
