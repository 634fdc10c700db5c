#include "model/units.h"

#include <math.h>
#include <stdio.h>

struct unit {
    const char *name;
    const char *aliases[3];
    double factor;
};

struct quantity {
    struct unit units[9];
    const char *standard;
    double standard_factor;
};

static const struct quantity quantities[] = {
    {
        .units = {{"B", {"b", "byte"}, 1},
                  {"kB", {"kb", "kbyte", "kilobyte"}, 1024.0},
                  {"MB", {"mb", "mbyte", "megabyte"}, 1048576.0},
                  {"GB", {"gb", "gbyte", "gigabyte"}, 1073741824.0},
                  {"TB", {"tb", "tbyte", "terabyte"}, 1099511627776.0},
                  {"PB", {"pb", "pbyte", "petabyte"}, 1125899906842624.0}},
        .standard = "B",
        .standard_factor = 1,
    },
    {
        .units = {{"ns", {"ns", "nanosecond"}, 1},
                  {"us", {"us", "microsecond"}, 1e3},
                  {"ms", {"ms", "millisecond"}, 1e6},
                  {"s", {"s", "sec", "second"}, 1e9},
                  {"hrs", {"hour", "hr"}, 3600e9}},
        .standard = "s",
        .standard_factor = 1e9,
    },
    {
        .units = {{"n*GCU", {"nanogcu"}, 1e-9},
                  {"u*GCU", {"microgcu"}, 1e-6},
                  {"m*GCU", {"milligcu"}, 1e-3},
                  {"GCU", {"gcu"}, 1},
                  {"k*GCU", {"kilogcu"}, 1e3},
                  {"M*GCU", {"megagcu"}, 1e6},
                  {"G*GCU", {"gigagcu"}, 1e9},
                  {"T*GCU", {"teragcu"}, 1e12},
                  {"P*GCU", {"petagcu"}, 1e15}},
        .standard = "GCU",
        .standard_factor = 1,
    },
};

#define EACH_QUANTITY(q)                        \
    for (const struct quantity *q = quantities; \
         q < quantities + sizeof quantities / sizeof *quantities; q++)

int64_t units_truncate(double value)
{
    return value >= -0x1p63 && value < 0x1p63 ? (int64_t)value : INT64_MIN;
}

int64_t units_round(double value)
{
    if (value >= 0x1p63)
        return INT64_MAX;
    return isnan(value) ? 0 : units_truncate(round(value));
}

static const struct unit *find_unit(const struct quantity *q, struct str name)
{
    char lower[16];
    if (name.n >= sizeof lower)
        return NULL;
    for (size_t i = 0; i < name.n; i++)
        lower[i] = (char)(name.p[i] >= 'A' && name.p[i] <= 'Z' ? name.p[i] + 32 : name.p[i]);
    if (name.n > 2 && lower[name.n - 1] == 's')
        name.n--;
    struct str wanted = {lower, name.n};
    for (const struct unit *u = q->units; u < q->units + 9 && u->name; u++)
        for (int i = 0; i < 3 && u->aliases[i]; i++)
            if (str_eq(wanted, str_from(u->aliases[i])))
                return u;
    return NULL;
}

static bool is_automatic(struct str unit)
{
    return str_eq(unit, STR("minimum")) || str_eq(unit, STR("auto"));
}

static double scale_known(const struct quantity *q, double v, struct str to, struct str *unit)
{
    const struct unit *target = NULL;
    if (is_automatic(to)) {
        double factor = 0;
        for (const struct unit *u = q->units; u < q->units + 9 && u->name; u++)
            if (u->factor >= factor && v / u->factor >= 1.0) {
                factor = u->factor;
                target = u;
            }
    } else {
        target = find_unit(q, to);
    }
    *unit = str_from(target ? target->name : q->standard);
    return v / (target ? target->factor : q->standard_factor);
}

double units_scale(int64_t value, struct str from, struct str to, struct str *unit)
{
    struct str ignored;
    if (!unit)
        unit = &ignored;
    if (value < 0 && value != INT64_MIN)
        return -units_scale(-value, from, to, unit);
    EACH_QUANTITY(q)
    {
        const struct unit *u = find_unit(q, from);
        if (u)
            return scale_known(q, (double)value * u->factor, to, unit);
    }
    bool says_nothing = is_automatic(to) || str_eq(to, STR("count")) || str_eq(to, STR("sample")) ||
                        str_eq(to, STR("unit"));
    *unit = says_nothing ? STR("") : to;
    return (double)value;
}

size_t units_label(char *text, size_t size, int64_t value, struct str from, struct str to)
{
    struct str unit;
    double v = units_scale(value, from, to, &unit);
    char number[64];
    size_t n;
    if (v == (double)(int32_t)units_truncate(v)) {
        n = (size_t)snprintf(number, sizeof number, "%d", (int32_t)v);
    } else {
        n = (size_t)snprintf(number, sizeof number, "%.2f", v);
        if (n > 3 && memcmp(number + n - 3, ".00", 3) == 0)
            n -= 3;
    }
    number[n] = '\0';
    if (strcmp(number, "0") == 0 || strcmp(number, "-0") == 0)
        unit.n = 0, n = 1, number[0] = '0';
    int length = snprintf(text, size, "%.*s%.*s", (int)n, number, (int)unit.n, unit.p);
    return (size_t)length < size ? (size_t)length : size - 1;
}

size_t units_percentage(char *text, size_t size, int64_t value, int64_t total)
{
    double ratio = total ? fabs((double)value / (double)total) * 100 : 0;
    const char *format = ratio >= 1.0 ? "%5.2f%%" : "%5.2g%%";
    int n = ratio >= 99.95 && ratio <= 100.05 ? snprintf(text, size, "  100%%")
                                              : snprintf(text, size, format, ratio);
    return (size_t)n < size ? (size_t)n : size - 1;
}

bool units_compatible(struct str a, struct str b)
{
    if (str_eq(a, b))
        return true;
    EACH_QUANTITY(q)
    {
        if (find_unit(q, a) && find_unit(q, b))
            return true;
    }
    return false;
}

size_t units_amount(char *text, size_t size, double value, struct str unit, bool sign)
{
    const char *plus = sign && value > 0 ? "+" : "";
    bool rate = str_ends(unit, STR("/s"));
    struct str base = rate ? str_from_to(unit, 0, unit.n - 2) : unit;
    char label[64];
    int n;
    if (str_eq(unit, STR("share"))) {
        n = snprintf(text, size, "%s%.3g%%", plus, value * 100);
    } else if (str_eq(unit, STR("cores"))) {
        n = snprintf(text, size, "%s%.3g cores", plus, value);
    } else {
        int64_t nearest = units_truncate(value + (value < 0 ? -0.5 : 0.5));
        units_label(label, sizeof label, nearest, base, STR("auto"));
        n = snprintf(text, size, "%s%s%s", plus, label, rate ? "/s" : "");
    }
    return (size_t)n < size ? (size_t)n : size - 1;
}
