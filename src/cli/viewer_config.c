// Named settings in google/pprof's file: both programs share them.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/viewer.h"
#include "codec/json.h"
#include "codec/json_read.h"
#include "codec/message.h"

enum { PATH_SIZE = 4096, MOST_BYTES = 1 << 20 };

static bool settings_file_name(char *path, size_t size, bool make_directory)
{
    const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    char directory[PATH_SIZE - 32];
    int n = config && *config
                ? snprintf(directory, sizeof directory, "%s", config)
                : snprintf(directory, sizeof directory, "%s/.config", home ? home : "");
    if (n <= 0 || (size_t)n >= sizeof directory || !(home || config))
        return false;
    if (make_directory)
        mkdir(directory, 0700);
    snprintf(path, size, "%s/pprof", directory);
    if (make_directory)
        mkdir(path, 0700);
    snprintf(path, size, "%s/pprof/settings.json", directory);
    return true;
}

// As pprof, saves neither paths nor the sample type.
static bool is_saved(const struct config_field *field)
{
    static const char *const not_saved[] = {"output", "source_path", "trim_path", "sample_index",
                                            "divide_by"};
    for (size_t i = 0; i < sizeof not_saved / sizeof *not_saved; i++)
        if (strcmp(not_saved[i], field->name) == 0)
            return false;
    return true;
}

// Returns the configurations in the settings file; absent if the file is not readable.
static struct json read_settings(struct arena *arena)
{
    char path[PATH_SIZE];
    struct json all;
    int fd = settings_file_name(path, sizeof path, false) ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0)
        return (struct json){0};
    char *text = malloc(MOST_BYTES);
    size_t n = 0;
    for (ssize_t got; text && n < MOST_BYTES && (got = read(fd, text + n, MOST_BYTES - n)) > 0;)
        n += (size_t)got;
    close(fd);
    struct str copy = {text && n < MOST_BYTES ? arena_copy(arena, text, n) : "", n};
    free(text);
    if (n == MOST_BYTES || json_parse(arena, copy, &all, NULL))
        return (struct json){0};
    return json_get(all, "configs");
}

static void write_setting(struct out *out, const char *name)
{
    out_text(out, ",\n      ");
    json_write_string(out, str_from(name));
    out_text(out, ": ");
}

// Omits fields with default values.
static void write_saved(struct out *out, const struct config *c, const struct config_field *f)
{
    const char *at = (const char *)c + f->offset;
    switch (f->kind) {
    case CONFIG_BOOL:
        if (*(const bool *)at) {
            write_setting(out, f->name);
            out_text(out, "true");
        }
        break;
    case CONFIG_INT:
        if (*(const int *)at) {
            write_setting(out, f->name);
            out_i64(out, *(const int *)at);
        }
        break;
    case CONFIG_DOUBLE:
        if (*(const double *)at != 0) {
            write_setting(out, f->name);
            out_printf(out, "%.17g", *(const double *)at);
        }
        break;
    default:
        if (**(const char *const *)at) {
            write_setting(out, f->name);
            json_write_string(out, str_from(*(const char *const *)at));
        }
    }
}

static void write_config(struct out *out, const char *name, const struct config *c)
{
    out_text(out, "{\n      \"name\": ");
    json_write_string(out, str_from(name));
    for (const struct config_field *f = config_fields; f->name; f++)
        if (is_saved(f))
            write_saved(out, c, f);
    out_text(out, "\n    }");
}

// Rewrites the settings file: sets the named configuration to config, or removes it if config is
// NULL. The others are kept as written.
static int write_settings(struct json configs, const char *name, const struct config *config,
                          struct err *e)
{
    char path[PATH_SIZE], part[PATH_SIZE + 8];
    if (!settings_file_name(path, sizeof path, true))
        return err_set(e, "cannot save settings; set HOME or XDG_CONFIG_HOME");
    snprintf(part, sizeof part, "%s.part", path);
    FILE *file = fopen(part, "we");
    if (!file)
        return err_set(e, "%s: %s", path, strerror(errno));
    struct out out;
    out_init_memory(&out, 2 * MOST_BYTES);
    bool first = true;
    out_text(&out, "{\n  \"configs\": [");
    for (struct json_each i = json_each(configs); json_next(&i);) {
        bool is_named = json_is(json_get(i.value, "name"), name);
        if (is_named && !config)
            continue;
        out_text(&out, first ? "\n    " : ",\n    ");
        first = false;
        if (is_named)
            write_config(&out, name, config);
        else
            out_str(&out, json_text(i.value));
        config = is_named ? NULL : config;
    }
    if (config) {
        out_text(&out, first ? "\n    " : ",\n    ");
        write_config(&out, name, config);
    }
    out_text(&out, "\n  ]\n}\n");
    bool failed = out.error || fwrite(out.p, 1, out.n, file) != out.n;
    out_fini(&out);
    if (fclose(file) || failed || rename(part, path))
        return err_set(e, "%s: %s", path, strerror(errno));
    return 0;
}

int viewer_save_config(struct viewer_query *q, struct err *e)
{
    const char *name = viewer_parameter(q, "config", e);
    if (!name)
        return -1;
    if (!*name)
        return err_set(e, "invalid config name");
    if (!message_is_utf8(str_from(name)))
        return err_set(e, "config: the name is not UTF-8");
    return write_settings(read_settings(q->arena), name, &q->config, e);
}

int viewer_delete_config(struct viewer_query *q, struct err *e)
{
    const char *name = viewer_parameter(q, "config", e);
    if (!name)
        return -1;
    struct json configs = read_settings(q->arena);
    bool found = false;
    for (struct json_each i = json_each(configs); json_next(&i) && !found;)
        found = json_is(json_get(i.value, "name"), name);
    return found ? write_settings(configs, name, NULL, e) : err_set(e, "config %s not found", name);
}

static void write_saved_field(struct out *out, struct json config, const struct config_field *f,
                              struct arena *arena, bool *first)
{
    struct config plain = config_default();
    struct json value = json_get(config, f->name);
    struct str given = json_string(value, arena);
    char text[1024] = "", usual[1024];
    double number;
    if (given.p)
        snprintf(text, sizeof text, "%.*s", (int)(given.n < 1023 ? given.n : 1023), given.p);
    else if (json_double(value, &number))
        snprintf(text, sizeof text, "%g", number);
    else if (f->kind == CONFIG_BOOL)
        snprintf(text, sizeof text, "%s", json_is_true(value) ? "true" : "false");
    else if (f->kind == CONFIG_INT || f->kind == CONFIG_DOUBLE)
        snprintf(text, sizeof text, "0");
    config_get(&plain, f, usual, sizeof usual);
    if (strcmp(text, usual) == 0)
        return;
    json_write_key(out, config_url_name(f), first);
    json_write_string(out, str_from(text));
}

void viewer_write_configs(struct out *out)
{
    struct arena *arena = arena_new(0);
    bool first_config = true;
    if (!arena) {
        out_text(out, "[]");
        return;
    }
    out_char(out, '[');
    for (struct json_each i = json_each(read_settings(arena)); json_next(&i);) {
        struct str name = json_string(json_get(i.value, "name"), arena);
        out_text(out, first_config ? "[" : ",[");
        first_config = false;
        json_write_string(out, name.p ? name : STR(""));
        out_text(out, ",{");
        bool first = true;
        for (const struct config_field *f = config_fields; f->name; f++)
            if (is_saved(f) && config_url_name(f))
                write_saved_field(out, i.value, f, arena, &first);
        out_text(out, "}]");
    }
    out_char(out, ']');
    arena_free(arena);
}
