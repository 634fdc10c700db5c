// The HTML page of /debug/pprof/.
#include <errno.h>
#include <stdio.h>
#include <sys/random.h>
#include <unistd.h>

#include "agent/endpoints/endpoint.h"
#include "agent/heap/heap_source.h"
#include "agent_assets.h"

static void write_escaped_html(struct out *out, struct str text)
{
    for (size_t i = 0; i < text.n; i++) {
        switch (text.p[i]) {
        case '<':
            out_text(out, "&lt;");
            break;
        case '>':
            out_text(out, "&gt;");
            break;
        case '&':
            out_text(out, "&amp;");
            break;
        case '"':
            out_text(out, "&quot;");
            break;
        default:
            out_char(out, text.p[i]);
        }
    }
}

// Groups digits in threes: 12 345 678.
static void write_count(struct out *out, uint64_t n)
{
    char text[32];
    int digits = snprintf(text, sizeof text, "%llu", (unsigned long long)n);
    for (int i = 0; i < digits; i++) {
        if (i && (digits - i) % 3 == 0)
            out_text(out, "\u202f");
        out_char(out, text[i]);
    }
}

static void write_tile(struct out *out, const char *name, uint64_t value, const char *unit)
{
    out_printf(out, "<div><dt>%s</dt><dd>", name);
    write_count(out, value);
    out_printf(out, " <small>%s</small></dd></div>\n", unit);
}

static void write_lost(struct out *out, const struct agent_counts *c)
{
    const struct {
        uint64_t ticks;
        const char *cause;
    } causes[] = {
        {c->capture.ring_full, "ring full"}, {c->capture.no_snapshot, "not ready"},
        {c->capture.blocked, "blocked"},     {c->capture.unticked, "thread ended"},
        {c->dropped, "out of memory"},
    };
    uint64_t lost = 0;
    for (size_t i = 0; i < sizeof causes / sizeof *causes; i++)
        lost += causes[i].ticks;
    out_printf(out, "<div><dt>Without a stack</dt><dd><span class=\"%s\">",
               lost * 100 > c->capture.ticks ? "bad" : "good");
    write_count(out, lost);
    out_text(out, "</span> <small>ticks");
    for (size_t i = 0; i < sizeof causes / sizeof *causes; i++)
        if (causes[i].ticks)
            out_printf(out, "<br>%s: %llu", causes[i].cause, (unsigned long long)causes[i].ticks);
    out_text(out, "</small></dd></div>\n");
}

static const struct heap_source *active_heap(void)
{
    const struct heap_source *source = heap_source();
    return source && source->active() ? source : NULL;
}

static void write_heap_state(struct out *out)
{
    const struct heap_source *source = active_heap();
    struct heap_counts c = {0};
    if (!source) {
        out_text(out, "<div><dt>Heap profiler</dt><dd class=\"faint\">off</dd></div>\n");
        return;
    }
    out_printf(out,
               "<div><dt>Heap profiler</dt><dd class=\"good\">on <small>%s</small></dd></div>\n",
               source->name);
    write_tile(out, "Heap interval", source->interval(), "bytes");
    if (source->counts)
        source->counts(&c);
    if (c.knows_samples)
        write_tile(out, "Heap samples", c.samples, "allocations");
    if (c.knows_live)
        write_tile(out, "Memory in use", c.live_bytes, "bytes");
}

static void write_state(struct out *out)
{
    struct agent_settings s;
    struct agent_counts c;
    agent_get_settings(&s);
    agent_get_counts(&c);
    out_printf(out, "<dl>\n<div><dt>CPU profiler</dt><dd class=\"%s\">%s</dd></div>\n",
               s.running ? "good" : "bad", s.running ? "running" : "stopped");
    write_heap_state(out);
    write_tile(out, "Rate", s.hz, "per CPU-second");
    write_tile(out, "Samples", c.capture.samples, "stacks");
    write_lost(out, &c);
    write_tile(out, "Threads", c.capture.threads, "sampled");
    write_tile(out, "In progress", s.windows, s.windows == 1 ? "profile" : "profiles");
    out_text(out, "<div><dt>Memory</dt><dd>");
    out_printf(out, "%.1f <small>of %.0f MiB</small></dd></div>\n</dl>\n",
               (double)c.memory / (1 << 20), (double)s.memory / (1 << 20));
}

static const char cpu[] =
    "<h2>CPU time</h2>\n"
    "<ul class=\"links\">\n"
    "<li><a href=\"profile?last=60&amp;format=html\">Flame graph of the last "
    "minute</a>\n"
    "<li><a href=\"profile?seconds=10&amp;format=html\">Flame graph of the next 10 "
    "seconds</a>\n"
    "<li><a href=\"profile/flamegraph?last=60\">SVG, last minute</a>\n"
    "<li><a href=\"profile?seconds=30\">pprof, next 30 s</a>\n"
    "</ul>\n"
    "<form action=\"profile\">\n"
    "<label>The coming seconds<input name=\"seconds\" type=\"number\" min=\"1\" max=\"3600\" "
    "value=\"30\"></label>\n"
    "<label>Frequency in hertz<input name=\"frequency\" type=\"number\" min=\"1\" max=\"10000\" "
    "placeholder=\"as it is\"></label>\n"
    "<label>Format<select name=\"format\"><option value=\"html\">flame graph (HTML)"
    "<option value=\"svg\">flame graph (SVG)<option value=\"pprof\">pprof"
    "<option value=\"folded\">folded stacks<option value=\"json\">JSON</select></label>\n"
    "<button>Profile</button>\n"
    "</form>\n";

static const char heap[] = "<h2>Heap</h2>\n"
                           "<ul class=\"links\">\n"
                           "<li><a href=\"heap?format=html\">Flame graph of memory in use</a>\n"
                           "<li><a href=\"allocs?format=html\">Flame graph of all allocations</a>\n"
                           "<li><a href=\"allocs?seconds=10&amp;format=html\">Flame graph of the "
                           "allocations of the next 10 seconds</a>\n"
                           "<li><a href=\"heap\">pprof</a>\n"
                           "<li><a href=\"heap?debug=1\">text</a>\n"
                           "</ul>\n";

static const char no_heap[] =
    "<h2>Heap</h2>\n<p class=\"faint\">Heap profiling is not activated; /debug/pprof/heap tells "
    "how.</p>\n";

static const char endpoints[] =
    "<h2>Endpoints</h2>\n"
    "<table>\n<thead><tr><th>Path<th>What comes back<th>Parameters</thead>\n<tbody>\n"
    "<tr><td><a href=\"profile\">/debug/pprof/profile</a><td>CPU profile of the "
    "coming 30 seconds, gzipped pprof<td><code>seconds</code> 1 to 3600, or <code>last</code> 1 to "
    "120; <code>frequency</code> 1 to 10000, <code>force</code>; <code>format</code> pprof, svg, "
    "folded, html, json; <code>symbolize</code> 0, 1; <code>labels</code> 0, 1; "
    "<code>image_width</code> 200 to 20000\n"
    "<tr><td><a "
    "href=\"profile/flamegraph\">/debug/pprof/profile/flamegraph</a><td>the "
    "same as a flame graph (SVG)<td>as above\n"
    "<tr><td>/pprof/profile/report<br>/pprof/profile/flamegraph<td>the same, of 10 seconds<td>as "
    "above\n"
    "<tr><td>/debug/pprof/heap<br>/debug/pprof/allocs<td>memory in use and allocated, gzipped "
    "pprof<td><code>seconds</code> 1 to 3600: what changes meanwhile; <code>debug</code> 1: text; "
    "<code>format</code>, <code>symbolize</code>, <code>labels</code>, <code>image_width</code> as "
    "above\n"
    "<tr><td>/debug/pprof/heap/flamegraph<br>/debug/pprof/allocs/flamegraph<td>the same as flame "
    "graphs (SVG)<td>as above\n"
    "<tr><td>/pprof/heap/report<br>/pprof/heap/flamegraph<td>the same as /debug/pprof/heap<td>as "
    "above\n"
    "<tr><td><a href=\"cmdline\">/debug/pprof/cmdline</a><td>the program's "
    "arguments\n"
    "<tr><td><a href=\"symbol\">/debug/pprof/symbol</a><td>names of "
    "addresses<td>addresses, joined by +\n"
    "<tr><td><a href=\"../../metrics\">/metrics</a><td>counts, for Prometheus\n"
    "<tr><td><a href=\"../../health\">/health</a><td>ok\n"
    "</tbody>\n</table>\n";

// The command lines use the address that the page was requested from.
static void write_commands(struct out *out, const struct exchange *x)
{
    struct str host = x->q->host.n ? x->q->host : STR("localhost");
    struct str prefix = str_from(x->prefix ? x->prefix : "");
    const char *curl_token = x->with_token ? "-H \"Authorization: Bearer $KILN_TOKEN\" " : "";
    const char *token = x->with_token ? ":$KILN_TOKEN@" : "";
    out_text(out, "<h2>From a terminal</h2>\n<pre>");
    out_printf(out, "pprof -top \"http://%s", token);
    write_escaped_html(out, host);
    write_escaped_html(out, prefix);
    out_printf(out, "/debug/pprof/profile?seconds=10\"\ngo tool pprof \"http://%s", token);
    write_escaped_html(out, host);
    write_escaped_html(out, prefix);
    out_printf(out, "/debug/pprof/profile?seconds=10\"\ncurl %s-o flame.html \"http://",
               curl_token);
    write_escaped_html(out, host);
    write_escaped_html(out, prefix);
    out_text(out, "/debug/pprof/profile?seconds=10&amp;format=html\"</pre>\n");
}

bool endpoint_index(struct exchange *x)
{
    struct out *out = &x->a->body;
    uint64_t random[2] = {0};
    char nonce[40], policy[200];
    if (getrandom(random, sizeof random, GRND_NONBLOCK) < 0)
        random[0] = (uintptr_t)out;
    snprintf(nonce, sizeof nonce, "%016llx%016llx", (unsigned long long)random[0],
             (unsigned long long)random[1]);
    snprintf(policy, sizeof policy,
             "default-src 'none'; style-src 'nonce-%s'; form-action 'self'; base-uri 'none'; "
             "frame-ancestors 'none'",
             nonce);
    http_answer_header(x->a, "Content-Security-Policy", policy);
    http_answer_header(x->a, "Referrer-Policy", "no-referrer");
    x->a->type = "text/html; charset=utf-8";
    struct str program = str_from(program_invocation_short_name);
    out_text(out,
             "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n"
             "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<title>");
    write_escaped_html(out, program);
    out_printf(out, ": kiln</title>\n<style nonce=\"%s\">\n%s</style>\n<h1>", nonce, index_css);
    write_escaped_html(out, program);
    out_printf(out, "</h1>\n<p class=\"faint\">process %d, profiled by kiln " KILN_VERSION "</p>\n",
               (int)getpid());
    write_state(out);
    out_text(out, cpu);
    out_text(out, active_heap() ? heap : no_heap);
    out_text(out, endpoints);
    write_commands(out, x);
    endpoint_compress(x->q, x->a);
    return true;
}
