// proto and topproto: profiles as reports.
#include "codec/codec.h"
#include "model/builder.h"
#include "model/units.h"
#include "report/formats.h"

static void write_pprof_report(struct report *r, const struct model_profile *p, struct out *out)
{
    struct err e;
    if (codec_write_pprof_gzip(p, out, &e))
        arena_fail(r->arena, "%s", e.message);
}

void report_proto(struct report *r, struct out *out)
{
    struct model_profile *p = model_profile_derive(r->p, r->arena);
    // google/pprof drops unknown fields.
    p->is_weighed = false;
    p->squares = NULL;
    if (r->o.ratio > 0 && r->o.ratio != 1) {
        struct model_profile *scaled = model_profile_derive(p, r->arena);
        size_t n = p->n_samples * p->n_types;
        scaled->values = arena_array(r->arena, n + 1, sizeof *scaled->values);
        for (size_t i = 0; i < n; i++)
            scaled->values[i] = units_truncate((double)p->values[i] * r->o.ratio);
        p = scaled;
    }
    write_pprof_report(r, p, out);
}

void report_topproto(struct report *r, struct out *out)
{
    const struct model_profile *p = r->p;
    struct graph *g = graph_new_trimmed(r);
    graph_select_unit(g);
    struct model_builder b;
    model_build(&b, r->arena);
    model_build_type(&b, STR("cum"), r->o.output_unit);
    model_build_type(&b, STR("flat"), r->o.output_unit);
    b.p->time_nanos = p->time_nanos;
    b.p->duration_nanos = p->duration_nanos;
    b.p->period = p->period;
    b.p->period_type =
        (struct model_value_type){model_build_string(&b, model_str(p, p->period_type.type)),
                                  model_build_string(&b, model_str(p, p->period_type.unit))};
    b.p->locations = arena_array(r->arena, g->n_selected + 1, sizeof *b.p->locations);
    b.p->lines = arena_array(r->arena, g->n_selected + 1, sizeof *b.p->lines);
    for (size_t i = 0; i < g->n_selected; i++) {
        const struct node *n = &g->nodes[g->selected[i]];
        uint32_t name = model_build_string(&b, model_str(p, n->info.name));
        uint32_t file = model_build_string(&b, model_str(p, n->info.file));
        // One location per row, even if two rows are equal.
        b.p->lines[i] = (struct model_line){
            .line = n->info.line,
            .column = n->info.column,
            .function = model_build_function(&b, name, 0, file, n->info.start_line),
        };
        b.p->locations[i] = (struct model_location){.id = i + 1,
                                                    .address = n->info.address,
                                                    .mapping = MODEL_NONE,
                                                    .first_line = (uint32_t)i,
                                                    .n_lines = 1};
        uint32_t frame = (uint32_t)i;
        int64_t values[2] = {
            units_truncate(units_scale(node_cum(n), r->o.unit, r->o.output_unit, NULL)),
            units_truncate(units_scale(node_flat(n), r->o.unit, r->o.output_unit, NULL)),
        };
        model_build_sample(&b, &frame, 1, values);
    }
    b.p->n_locations = b.p->n_lines = (uint32_t)g->n_selected;
    write_pprof_report(r, b.p, out);
}
