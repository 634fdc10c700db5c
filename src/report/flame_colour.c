// Color palettes, designed in OKLCH. Hues also differ in lightness, for color-blind users; each hue
// has three shades, so that neighbors differ. Text contrast is at least 4.5:1 (#1b1f24 on light
// colors, #f2f4f7 on dark ones).
#include "report/flame_internal.h"

#include <math.h>

#include "report/flame_assets.h"

const uint32_t flame_palette[2][FLAME_COLOURS] = {
    {0xf3ad6d, 0xfdb677, 0xffc080, 0x86bae7, 0x8fc4f1, 0x99cefb, 0xeb9c96,
     0xf5a69f, 0xffafa8, 0x95d2a9, 0x9edbb2, 0xa8e5bc, 0xb9a5e0, 0xc3afea,
     0xccb8f4, 0xe1d380, 0xebdd8a, 0xf5e793, 0x90d6d9, 0x99dfe3, 0xa3e9ed,
     0xe6a8ca, 0xf0b1d4, 0xfabbde, 0xd2d8df, 0xd8dfe6, 0xdfe5ec, 0xebedef},
    {0x7b4b1a, 0x835223, 0x8b5a2b, 0x1b5884, 0x245f8c, 0x2d6795, 0x843835,
     0x8c403c, 0x954843, 0x336546, 0x3b6d4d, 0x427555, 0x5a4181, 0x614989,
     0x695092, 0x635a1e, 0x6b6126, 0x73692e, 0x186367, 0x226b6f, 0x2c7376,
     0x7e3e64, 0x86466c, 0x8e4e74, 0x32373d, 0x373c42, 0x3c4247, 0x292c2e},
};

const uint32_t flame_diff_palette[2][FLAME_DIFF_STEPS] = {
    {0x47c86e, 0x7cd591, 0xa7e2b2, 0xcfecd3, 0xebedef, 0xfed6d2, 0xfdb5af, 0xfc958d, 0xf7766f},
    {0x237c40, 0x296a3b, 0x2c5837, 0x2e4733, 0x343637, 0x593431, 0x773733, 0x943835, 0xb63b39},
};

const uint32_t flame_blue_palette[2][FLAME_BLUE_STEPS] = {
    {0x64aaf0, 0x83bdf8, 0xa9d2fe, 0xd0e6fd},
    {0x2172b9, 0x246099, 0x285077, 0x2b4259},
};

// Finer steps around "equal", where most frames are; core.js uses the same bounds.
static uint32_t diff_step(double change)
{
    static const double bounds[] = {0.02, 0.1, 0.25, 0.5};
    uint32_t step = 0;
    while (step < 4 && fabs(change) >= bounds[step])
        step++;
    return change < 0 ? 4 - step : 4 + step;
}

uint32_t flame_shade(struct str name)
{
    return (uint32_t)(hash_stable(name.p, name.n, 1) % FLAME_SHADES);
}

uint32_t flame_colour(const struct report_flame *flame, uint32_t node)
{
    if (flame->changed && !flame->changed[node])
        return diff_step(0);
    if (flame->diff)
        return diff_step(report_flame_change(flame, node));
    if (node == 0 || flame->flags[node] & REPORT_FLAME_OTHER)
        return FLAME_GREY;
    const struct report_flame_frame *frame = &flame->frames[flame->frame[node]];
    const struct report_flame_group *group = &flame->groups[frame->group];
    return (group->muted ? FLAME_MUTED : group->colour * FLAME_SHADES) + flame_shade(frame->name);
}

static void write_property(struct out *out, char prefix, int i, uint32_t colour)
{
    out_printf(out, "--%c%d:#%06x;", prefix, i, colour);
}

void flame_write_css_colours(struct out *out, int theme)
{
    for (int i = 0; i < FLAME_COLOURS; i++)
        write_property(out, 'c', i, flame_palette[theme][i]);
    for (int i = 0; i < FLAME_DIFF_STEPS; i++)
        write_property(out, 'd', i, flame_diff_palette[theme][i]);
    for (int i = 0; i < FLAME_BLUE_STEPS; i++)
        write_property(out, 'b', i, flame_blue_palette[theme][i]);
}

void report_flame_colours(struct out *out)
{
    const char *const selectors[] = {":root{color-scheme:light;",
                                     ":root[data-theme=dark]{color-scheme:dark;"};
    const char *const themes[] = {flame_theme_css, flame_theme_dark_css};
    for (int theme = 0; theme < 2; theme++) {
        out_text(out, selectors[theme]);
        out_text(out, themes[theme]);
        flame_write_css_colours(out, theme);
        out_text(out, "}\n");
    }
}
