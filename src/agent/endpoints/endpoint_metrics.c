// /metrics in the Prometheus text format.
#include "agent/endpoints/endpoint.h"
#include "agent/heap/heap_source.h"

static void write_metric_header(struct out *out, const char *name, const char *type,
                                const char *help)
{
    out_printf(out, "# HELP kiln_%s %s\n# TYPE kiln_%s %s\n", name, help, name, type);
}

static void write_gauge(struct out *out, const char *name, const char *help, uint64_t value)
{
    write_metric_header(out, name, "gauge", help);
    out_printf(out, "kiln_%s %llu\n", name, (unsigned long long)value);
}

static void write_counter(struct out *out, const char *name, const char *help, uint64_t value)
{
    write_metric_header(out, name, "counter", help);
    out_printf(out, "kiln_%s %llu\n", name, (unsigned long long)value);
}

static void write_labeled(struct out *out, const char *name, const char *label, const char *value,
                          uint64_t count)
{
    out_printf(out, "kiln_%s{%s=\"%s\"} %llu\n", name, label, value, (unsigned long long)count);
}

static void write_profiler_metrics(struct out *out)
{
    struct agent_settings s;
    struct agent_counts c;
    agent_get_settings(&s);
    agent_get_counts(&c);
    write_metric_header(out, "build_info", "gauge", "The version, as a label.");
    out_text(out, "kiln_build_info{version=\"" KILN_VERSION "\"} 1\n");
    write_gauge(out, "running", "Whether CPU time is being sampled.", s.running);
    write_gauge(out, "frequency_hertz", "Samples per CPU-second.", s.hz);
    write_gauge(out, "depth_frames", "Maximum frames per stack.", s.depth);
    write_gauge(out, "threads", "Threads that are being sampled.", c.capture.threads);
    write_gauge(out, "windows", "Open windows: profiles in progress.", s.windows);
    write_gauge(out, "stacks", "Distinct stacks held.", c.stacks);
    write_gauge(out, "memory_bytes", "Memory of stacks and their counts.", c.memory);
    write_gauge(out, "memory_limit_bytes", "Limit of the memory of stacks and their counts.",
                s.memory);
    write_counter(out, "ticks_total", "Periods of CPU time seen.", c.capture.ticks);
    write_counter(out, "samples_total", "Stacks recorded.", c.capture.samples);
    uint64_t truncated = 0;
    for (int i = UNWIND_END_TRUNCATED; i < UNWIND_END_COUNT; i++)
        truncated += c.capture.ended[i];
    write_counter(out, "truncated_samples_total", "Stacks that do not reach the thread's root.",
                  truncated);
    write_metric_header(out, "dropped_ticks_total", "counter",
                        "Periods of CPU time without a stack, by cause.");
    write_labeled(out, "dropped_ticks_total", "cause", "ring_full", c.capture.ring_full);
    write_labeled(out, "dropped_ticks_total", "cause", "not_ready", c.capture.no_snapshot);
    write_labeled(out, "dropped_ticks_total", "cause", "blocked", c.capture.blocked);
    write_labeled(out, "dropped_ticks_total", "cause", "unticked", c.capture.unticked);
    write_labeled(out, "dropped_ticks_total", "cause", "out_of_memory", c.dropped);
    write_counter(out, "filtered_ticks_total",
                  "Periods of CPU time of threads that are not profiled.", c.filtered);
    write_gauge(out, "label_sets", "Label sets held.", c.labels.sets);
    write_gauge(out, "label_memory_bytes", "Memory of label sets.", c.labels.memory);
    write_gauge(out, "name_memory_bytes", "Memory of the cache of names.", c.name_memory);
    write_counter(out, "dropped_labels_total",
                  "Labels that were not set because the table was full.", c.labels.dropped);
    write_counter(out, "unsampled_threads_total", "Threads that could not be sampled.",
                  c.capture.no_slot);
}

static void write_heap_metrics(struct out *out)
{
    const struct heap_source *source = heap_source();
    bool active = source && source->active();
    struct heap_counts c = {0};
    if (active && source->counts)
        source->counts(&c);
    write_gauge(out, "heap_profiling", "Whether heap profiling is activated.", active);
    write_gauge(out, "heap_interval_bytes",
                "Mean bytes between samples of allocations; 0: no sampling.",
                active ? source->interval() : 0);
    if (c.knows_samples)
        write_counter(out, "heap_samples_total", "Samples of allocations.", c.samples);
    if (c.knows_live)
        write_gauge(out, "heap_live_bytes", "Memory in use.", c.live_bytes);
}

static void write_server_metrics(struct out *out, const struct http_server *server)
{
    static const char *const classes[] = {NULL, NULL, "2xx", "3xx", "4xx", "5xx"};
    struct http_server_counts c;
    http_server_get_counts(server, &c);
    write_gauge(out, "http_connections", "Open connections to this server.", c.connections);
    write_counter(out, "http_connections_total", "Connections that were accepted.", c.accepted);
    write_counter(out, "http_connections_refused_total",
                  "Connections refused because of the limit.", c.refused);
    write_metric_header(out, "http_responses_total", "counter", "Responses by status.");
    for (int i = 2; i < 6; i++)
        write_labeled(out, "http_responses_total", "code", classes[i], c.answers[i]);
    write_counter(out, "http_sent_bytes_total", "Bytes of responses.", c.bytes);
}

bool endpoint_metrics(struct exchange *x)
{
    x->a->type = "text/plain; version=0.0.4; charset=utf-8";
    write_profiler_metrics(&x->a->body);
    write_heap_metrics(&x->a->body);
    if (x->server)
        write_server_metrics(&x->a->body, x->server);
    endpoint_compress(x->q, x->a);
    return true;
}
