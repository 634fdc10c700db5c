// Named settings, in the file where google/pprof keeps them: either program finds what the other
// has saved.
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/viewer.h"
#include "codec/json.h"

enum { PATH_SIZE = 4096, MOST_BYTES = 1 << 20 };

static bool file_name(char *path, size_t size, bool make_directory)
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

// What pprof saves: not where files are, nor which value is looked at.
static bool is_saved(const struct config_field *field)
{
    static const char *const not_saved[] = {"output", "source_path", "trim_path", "sample_index",
                                            "divide_by"};
    for (size_t i = 0; i < sizeof not_saved / sizeof *not_saved; i++)
        if (strcmp(not_saved[i], field->name) == 0)
            return false;
    return true;
}

static json_t *read_settings(void)
{
    char path[PATH_SIZE];
    json_t *all = NULL;
    struct stat st;
    if (file_name(path, sizeof path, false) && stat(path, &st) == 0 && st.st_size < MOST_BYTES)
        all = json_load_file(path, 0, NULL);
    if (!json_is_object(all)) {
        json_decref(all);
        all = json_object();
    }
    if (!json_is_array(json_object_get(all, "configs")))
        json_object_set_new(all, "configs", json_array());
    return all;
}

static int write_settings(const json_t *all, struct err *e)
{
    char path[PATH_SIZE], part[PATH_SIZE + 8];
    if (!file_name(path, sizeof path, true))
        return err_set(e, "no settings can be saved: neither HOME nor XDG_CONFIG_HOME is set");
    snprintf(part, sizeof part, "%s.part", path);
    if (json_dump_file(all, part, JSON_INDENT(2)) || rename(part, path))
        return err_set(e, "%s: %s", path, strerror(errno));
    return 0;
}

static void put_field(json_t *object, const struct config *c, const struct config_field *f)
{
    const char *at = (const char *)c + f->offset;
    switch (f->kind) {
    case CONFIG_BOOL:
        if (*(const bool *)at)
            json_object_set_new(object, f->name, json_true());
        break;
    case CONFIG_INT:
        if (*(const int *)at)
            json_object_set_new(object, f->name, json_integer(*(const int *)at));
        break;
    case CONFIG_DOUBLE:
        if (*(const double *)at != 0)
            json_object_set_new(object, f->name, json_real(*(const double *)at));
        break;
    default:
        if (**(const char *const *)at)
            json_object_set_new(object, f->name, json_string(*(const char *const *)at));
    }
}

static size_t find(const json_t *configs, const char *name)
{
    for (size_t i = 0; i < json_array_size(configs); i++) {
        const char *given = json_string_value(json_object_get(json_array_get(configs, i), "name"));
        if (given && strcmp(given, name) == 0)
            return i;
    }
    return SIZE_MAX;
}

int viewer_save_config(struct viewer_query *q, struct err *e)
{
    const char *name = viewer_parameter(q, "config", e);
    if (!name)
        return -1;
    if (!*name)
        return err_set(e, "invalid config name");
    json_t *all = read_settings(), *configs = json_object_get(all, "configs");
    json_t *mine = json_pack("{s:s}", "name", name);
    if (!mine) {
        json_decref(all);
        return err_set(e, "config: the name is not UTF-8");
    }
    for (const struct config_field *f = config_fields; f->name; f++)
        if (is_saved(f))
            put_field(mine, &q->config, f);
    size_t at = find(configs, name);
    if (at == SIZE_MAX)
        json_array_append_new(configs, mine);
    else
        json_array_set_new(configs, at, mine);
    int result = write_settings(all, e);
    json_decref(all);
    return result;
}

int viewer_delete_config(struct viewer_query *q, struct err *e)
{
    const char *name = viewer_parameter(q, "config", e);
    if (!name)
        return -1;
    json_t *all = read_settings(), *configs = json_object_get(all, "configs");
    size_t at = find(configs, name);
    int result = at == SIZE_MAX ? err_set(e, "config %s not found", name) : 0;
    if (result == 0) {
        json_array_remove(configs, at);
        result = write_settings(all, e);
    }
    json_decref(all);
    return result;
}

static void write_field(struct out *out, const json_t *config, const struct config_field *f,
                        bool *first)
{
    struct config plain = config_default();
    const json_t *value = json_object_get(config, f->name);
    char text[1024] = "", usual[1024];
    if (json_is_string(value))
        snprintf(text, sizeof text, "%s", json_string_value(value));
    else if (json_is_number(value))
        snprintf(text, sizeof text, "%g", json_number_value(value));
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
    json_t *all = read_settings(), *configs = json_object_get(all, "configs");
    out_char(out, '[');
    for (size_t i = 0; i < json_array_size(configs); i++) {
        const json_t *config = json_array_get(configs, i);
        const char *name = json_string_value(json_object_get(config, "name"));
        out_text(out, i ? ",[" : "[");
        json_write_string(out, str_from(name ? name : ""));
        out_text(out, ",{");
        bool first = true;
        for (const struct config_field *f = config_fields; f->name; f++)
            if (is_saved(f) && config_url_name(f))
                write_field(out, config, f, &first);
        out_text(out, "}]");
    }
    out_char(out, ']');
    json_decref(all);
}
