#include "model/events.h"

#include <math.h>

static struct str type_family(const struct model_profile *p, uint32_t type)
{
    struct str name = model_str(p, p->types[type].type);
    for (size_t i = name.n; i > 0; i--)
        if (name.p[i - 1] == '_')
            return str_from_to(name, 0, i);
    return STR("");
}

// Returns the type with this unit that belongs to type, such as alloc_objects to alloc_space. If
// only one type has this unit, it belongs to all.
static uint32_t related_type(const struct model_profile *p, uint32_t type, struct str unit)
{
    uint32_t only = MODEL_NONE, n = 0;
    for (uint32_t i = 0; i < p->n_types; i++) {
        if (!str_eq(model_str(p, p->types[i].unit), unit))
            continue;
        if (str_eq(type_family(p, i), type_family(p, type)))
            return i;
        only = i;
        n++;
    }
    return n == 1 ? only : MODEL_NONE;
}

struct model_events model_events(const struct model_profile *p, uint32_t type)
{
    struct model_events ev = {.type = type,
                              .count = related_type(p, type, STR("count")),
                              .bytes = related_type(p, type, STR("bytes"))};
    ev.is_count = str_eq(model_str(p, p->types[type].unit), STR("count"));
    bool heap = str_eq(model_str(p, p->period_type.unit), STR("bytes"));
    if (heap && p->period > 1 && ev.count != MODEL_NONE && ev.bytes != MODEL_NONE)
        ev.rate = (double)p->period;
    if (p->period_type.type == p->types[type].type && p->period_type.unit == p->types[type].unit &&
        p->period > 0)
        ev.period = (double)p->period;
    return ev;
}

bool model_is_counted(const struct model_events *ev, const struct model_profile *p)
{
    return p->is_weighed || ev->count != MODEL_NONE || ev->period > 0 || ev->is_count;
}

double model_periods(const struct model_profile *p, size_t sample)
{
    const int64_t *values = model_values(p, sample);
    for (uint32_t t = 0; t < p->n_types && p->period > 0; t++)
        if (p->types[t].type == p->period_type.type && p->types[t].unit == p->period_type.unit)
            return fabs((double)values[t]) / (double)p->period;
    for (uint32_t t = 0; t < p->n_types; t++)
        if (str_eq(model_str(p, p->types[t].unit), STR("count")))
            return fabs((double)values[t]);
    return 1;
}

double model_squares(const struct model_profile *p, size_t sample)
{
    return p->squares ? p->squares[sample] : model_periods(p, sample);
}

double model_variance(const struct model_events *ev, const struct model_profile *p, size_t sample)
{
    const int64_t *values = model_values(p, sample);
    double v = (double)values[ev->type];
    if (v == 0)
        return 0;
    if (p->is_weighed) {
        double periods = model_periods(p, sample), squares = model_squares(p, sample);
        return periods > 0 ? v * v * squares / (periods * periods) : v * v;
    }
    return model_count_variance(ev, v, ev->count != MODEL_NONE ? (double)values[ev->count] : 0,
                                ev->bytes != MODEL_NONE ? (double)values[ev->bytes] : 0);
}

double model_count_variance(const struct model_events *ev, double v, double count, double bytes)
{
    double n = 1, unseen = 1;
    if (ev->count != MODEL_NONE) {
        n = fabs(count);
        if (ev->rate > 0 && n > 0) {
            unseen = exp(-fabs(bytes) / n / ev->rate);
            n *= 1 - unseen;
        }
    } else if (ev->period > 0) {
        n = fabs(v) / ev->period;
    } else if (ev->is_count) {
        n = fabs(v);
    }
    return v * v / (n > 0 ? n : 1) * unseen;
}

double model_event_weight(const struct model_profile *p, uint32_t type)
{
    struct model_events ev = model_events(p, type);
    double value = 0, variance = 0;
    for (size_t s = 0; s < p->n_samples; s++) {
        value += (double)model_values(p, s)[type];
        variance += model_variance(&ev, p, s);
    }
    return value != 0 ? variance / value : 0;
}
