#include "report/report.h"

#include <time.h>

#include "model/stream.h"
#include "model/units.h"
#include "report/formats.h"
#include "report/object.h"

int64_t report_total(const struct model_profile *p, uint32_t type, bool mean)
{
    uint32_t base = model_find_string(p->strings, STR("pprof::base"));
    uint32_t yes = model_find_string(p->strings, STR("true"));
    int64_t total = 0, div = 0, base_total = 0, base_div = 0;
    // Encoded samples have no such label.
    if (p->stream) {
        total = p->stream->absolute[type];
        div = mean ? p->stream->first_value : 0;
        return div ? units_div(total, div) : total;
    }
    for (size_t i = 0; i < p->n_samples; i++) {
        const int64_t *values = model_values(p, i);
        int64_t v = units_abs(values[type]), d = mean ? values[0] : 0;
        total = units_add(total, v);
        div = units_add(div, d);
        if (base == MODEL_NONE)
            continue;
        uint32_t n;
        const struct model_label *labels = model_labels(p, i, &n);
        for (uint32_t k = 0; k < n; k++) {
            if (labels[k].key == base && labels[k].str == yes && !labels[k].is_number) {
                base_total = units_add(base_total, v);
                base_div = units_add(base_div, d);
                break;
            }
        }
    }
    if (base_total > 0) {
        total = base_total;
        div = base_div;
    }
    return div ? units_div(total, div) : total;
}

size_t report_format_value(const struct report *r, int64_t value, char *text, size_t size)
{
    if (r->o.ratio > 0 && r->o.ratio != 1)
        value = units_truncate((double)value * r->o.ratio);
    return units_label(text, size, value, r->o.unit, r->o.output_unit);
}

struct str report_profile_labels(const struct report *r)
{
    const struct model_profile *p = r->p;
    struct out out;
    out_init_arena(&out, r->arena);
    if (p->n_mappings && p->mappings[0].file) {
        struct str base = path_base(model_str(p, p->mappings[0].file));
        out_printf(&out, "File: %.*s\n", (int)base.n, base.p);
    }
    if (p->n_mappings && p->mappings[0].build_id) {
        struct str id = model_str(p, p->mappings[0].build_id);
        out_printf(&out, "Build ID: %.*s\n", (int)id.n, id.p);
    }
    for (uint32_t i = 0; i < p->n_comments; i++) {
        struct str comment = model_str(p, p->comments[i]);
        if (comment.n && comment.p[0] == '#')
            continue;
        out_str(&out, comment);
        out_char(&out, '\n');
    }
    if (r->o.type_name.n)
        out_printf(&out, "Type: %.*s\n", (int)r->o.type_name.n, r->o.type_name.p);
    if (p->doc_url)
        out_printf(&out, "Doc: %.*s\n", (int)model_str(p, p->doc_url).n,
                   model_str(p, p->doc_url).p);
    if (p->time_nanos) {
        int64_t seconds = p->time_nanos / 1000000000 - (p->time_nanos % 1000000000 < 0);
        struct tm tm;
        char text[64];
        localtime_r(&seconds, &tm);
        strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S %Z", &tm);
        out_printf(&out, "Time: %s\n", text);
    }
    if (p->duration_nanos) {
        char duration[64], total[256], ratio[32] = "";
        struct str unit;
        units_label(duration, sizeof duration, p->duration_nanos, STR("nanoseconds"), STR("auto"));
        double nanos = units_scale(r->total, r->o.unit, STR("nanoseconds"), &unit);
        if (str_eq(unit, STR("ns")) && nanos != 0) {
            ratio[0] = '(';
            size_t n = units_percentage(ratio + 1, sizeof ratio - 3, units_truncate(nanos),
                                        p->duration_nanos);
            ratio[n + 1] = ')';
        }
        report_format_value(r, r->total, total, sizeof total);
        out_printf(&out, "Duration: %s, Total samples = %s %s\n", duration, total, ratio);
    }
    struct str text = out_result(&out);
    return str_from_to(text, 0, text.n ? text.n - 1 : 0);
}

int report_write(struct report *r, struct out *out, struct err *e)
{
    static void (*const writers[])(struct report *, struct out *) = {
        [REPORT_TEXT] = report_text,       [REPORT_TREE] = report_tree,
        [REPORT_TRACES] = report_traces,   [REPORT_TAGS] = report_tags,
        [REPORT_RAW] = report_raw,         [REPORT_COMMENTS] = report_comments,
        [REPORT_DOT] = report_dot,         [REPORT_CALLGRIND] = report_callgrind,
        [REPORT_PROTO] = report_proto,     [REPORT_TOPPROTO] = report_topproto,
        [REPORT_LIST] = report_list,       [REPORT_DISASM] = report_disasm,
        [REPORT_WEBLIST] = report_weblist,
    };
    struct arena_trap trap;
    if (ARENA_TRY(r->arena, trap)) {
        objects_close(r);
        return arena_caught(r->arena, e);
    }
    writers[r->o.format](r, out);
    arena_try_end(r->arena);
    objects_close(r);
    return 0;
}
