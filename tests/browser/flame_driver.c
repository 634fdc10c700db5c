// Writes flame graphs of made-up profiles into a directory, for the browser tests:
//     flame_driver DIR
// plain, diff and reverse as SVG and HTML, one with hostile names, one with 100,000 nodes.
#include "model/builder.h"
#include "report/flame.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

// A stack, root first. A '+' marks a call that was inlined into the one before it. now and
// before are milliseconds of CPU time.
struct stack {
    const char *frames;
    int now, before;
};

#define TOKIO                                                                  \
    "clone3;start_thread;std::sys::thread::unix::Thread::new::thread_start;"   \
    "+<alloc::boxed::Box<F> as core::ops::function::FnOnce<Args>>::call_once;" \
    "tokio::runtime::blocking::pool::Inner::run;"                              \
    "tokio::runtime::scheduler::multi_thread::worker::run;"                    \
    "tokio::runtime::scheduler::multi_thread::worker::Context::run;"
#define POLL                                                              \
    TOKIO                                                                 \
    "tokio::runtime::scheduler::multi_thread::worker::Context::run_task;" \
    "tokio::runtime::task::harness::Harness<T,S>::poll;"                  \
    "+<core::pin::Pin<P> as core::future::future::Future>::poll;"
#define SERVE                                                       \
    POLL "hyper_util::server::conn::auto::Connection<I,S,E>::poll;" \
         "hyper::proto::h1::dispatch::Dispatcher<D,Bs,I,T>::poll_catch;"
#define ROUTE                                                                            \
    SERVE "<axum::routing::Route<E> as tower_service::Service<http::Request<B>>>::call;" \
          "tower_http::trace::service::Trace<S,M>::call;"
#define ORDER ROUTE "rideshare::api::order_ride::{{closure}};"
#define SEARCH ORDER "rideshare::matching::find_nearest_driver;"

static const struct stack stacks[] = {
    {TOKIO "tokio::runtime::scheduler::multi_thread::park::Parker::park;mio::poll::Poll::poll;"
           "epoll_wait;[kernel.kallsyms]",
     310, 420},
    {TOKIO "tokio::runtime::time::Driver::park_internal;clock_gettime;[vdso]", 80, 85},
    {SERVE "hyper::proto::h1::conn::Conn<I,B,T>::poll_read_head;"
           "+hyper::proto::h1::role::Server::parse;httparse::Request::parse",
     260, 255},
    {SERVE "hyper::proto::h1::conn::Conn<I,B,T>::poll_read_head;"
           "hyper::proto::h1::io::Buffered<T,B>::poll_read_from_io;read;[kernel.kallsyms]",
     240, 250},
    {SERVE "hyper::proto::h1::conn::Conn<I,B,T>::poll_flush;writev;[kernel.kallsyms]", 330, 335},
    {ROUTE "rideshare::api::list_bikes::{{closure}};serde_json::ser::to_vec;"
           "+<serde_json::ser::Serializer<W,F> as serde::ser::Serializer>::serialize_seq;"
           "+alloc::vec::Vec<T,A>::reserve;malloc",
     210, 200},
    {ROUTE "rideshare::api::list_bikes::{{closure}};serde_json::ser::to_vec;"
           "+<serde_json::ser::Serializer<W,F> as serde::ser::Serializer>::serialize_seq;"
           "serde_json::ser::format_escaped_str_contents",
     420, 410},
    {ROUTE "rideshare::api::list_bikes::{{closure}};rideshare::store::Store::bikes_near;"
           "sqlite3_step;sqlite3VdbeExec;sqlite3BtreeTableMoveto",
     380, 375},
    {ROUTE "rideshare::api::list_bikes::{{closure}};rideshare::store::Store::bikes_near;"
           "sqlite3_step;sqlite3VdbeExec",
     290, 300},
    {SEARCH "+rideshare::geo::haversine;sin", 940, 380},
    {SEARCH "+rideshare::geo::haversine;cos", 860, 350},
    {SEARCH "+rideshare::geo::haversine", 520, 260},
    {SEARCH "+core::slice::sort::stable::driftsort_main;"
            "rideshare::matching::Candidate::cmp",
     410, 240},
    {SEARCH, 180, 160},
    {ORDER "rideshare::matching::lock_driver;parking_lot::raw_mutex::RawMutex::lock_slow;"
           "syscall;[kernel.kallsyms]",
     60, 310},
    {ORDER "rideshare::pricing::quote;rideshare::pricing::surge::factor;exp", 150, 155},
    {ORDER "rideshare::pricing::quote;regex_automata::meta::Regex::find;"
           "regex_automata::hybrid::search::find_fwd",
     0, 420},
    {ORDER "rideshare::audit::record;ring::digest::Context::update;sha256_block_data_order", 340,
     0},
    {ORDER "tracing::span::Span::record_all;tracing_subscriber::fmt::format::Format<F,T>::event;"
           "+core::fmt::write;alloc::fmt::format::format_inner;realloc;memmove",
     190, 185},
    {POLL
     "rideshare::jobs::rebalance::{{closure}};std::collections::hash::map::HashMap<K,V>::insert;"
     "hashbrown::raw::RawTable<T,A>::reserve_rehash;malloc;_int_malloc",
     170, 175},
    {POLL "rideshare::jobs::rebalance::{{closure}};"
          "<std::collections::hash::map::DefaultHasher as core::hash::Hasher>::write",
     120, 118},
    {"_start;__libc_start_main;main;std::rt::lang_start_internal;rideshare::main;"
     "tokio::runtime::Builder::build;mmap;[kernel.kallsyms]",
     25, 25},
    {"_start;__libc_start_main;main;std::rt::lang_start_internal;rideshare::main;"
     "rideshare::config::load;serde_yaml::from_reader;unsafe_libyaml::yaml_parser_parse",
     18, 20},
};

static const char *module_of(struct str name)
{
    static const char *const libc[] = {
        "clone3",      "start_thread",      "epoll_wait", "read",    "writev",
        "malloc",      "realloc",           "memmove",    "syscall", "mmap",
        "_int_malloc", "__libc_start_main", NULL};
    static const char *const libm[] = {"sin", "cos", "exp", NULL};
    for (const char *const *p = libc; *p; p++)
        if (str_eq(name, str_from(*p)))
            return "/usr/lib/x86_64-linux-gnu/libc.so.6";
    for (const char *const *p = libm; *p; p++)
        if (str_eq(name, str_from(*p)))
            return "/usr/lib/x86_64-linux-gnu/libm.so.6";
    if (str_starts(name, STR("sqlite3")))
        return "/usr/lib/x86_64-linux-gnu/libsqlite3.so.0.8.6";
    if (name.n && name.p[0] == '[')
        return name.p[1] == 'v' ? "[vdso]" : "[kernel.kallsyms]";
    return "/srv/rideshare/rideshare";
}

static uint32_t mapping_for(struct model_builder *b, struct str name)
{
    uint32_t file = model_build_string(b, str_from(module_of(name)));
    for (uint32_t i = 0; i < b->p->n_mappings; i++)
        if (b->p->mappings[i].file == file)
            return i;
    return model_build_mapping(b, (struct model_mapping){.file = file});
}

static struct model_line line_for(struct model_builder *b, struct str name)
{
    uint32_t id = model_build_string(b, name);
    uint32_t sum = 0;
    for (size_t i = 0; i < name.n; i++)
        sum = sum * 31 + (unsigned char)name.p[i];
    char file[96] = "";
    if (str_starts(name, STR("rideshare::")))
        snprintf(file, sizeof file, "src/%.*s.rs", (int)strcspn(name.p + 11, ":;"), name.p + 11);
    return (struct model_line){
        .function = model_build_function(b, id, id, model_build_string(b, str_from(file)),
                                         file[0] ? 10 + sum % 300 : 0),
        .line = 10 + sum % 300,
    };
}

static void add_stack(struct model_builder *b, const char *text, const int64_t *values)
{
    uint32_t frames[256];
    struct model_line lines[256];
    uint32_t n = 0, n_lines = 0, mapping = MODEL_NONE;
    struct str names[256];
    bool inlined[256];
    size_t n_names = 0;
    while (*text) {
        size_t len = strcspn(text, ";");
        inlined[n_names] = *text == '+';
        names[n_names] = (struct str){text + inlined[n_names], len - inlined[n_names]};
        n_names++;
        text += len + (text[len] == ';');
    }
    // Leaf first; the innermost inlined call is a location's first line.
    for (size_t i = n_names; i-- > 0;) {
        lines[n_lines++] = line_for(b, names[i]);
        if (inlined[i])
            continue;
        mapping = mapping_for(b, names[i]);
        frames[n++] = model_build_location(b, mapping, 0, lines, n_lines);
        n_lines = 0;
    }
    model_build_sample(b, frames, n, values);
}

static struct model_profile *service(struct arena *arena, bool before)
{
    struct model_builder b;
    model_build(&b, arena);
    model_build_type(&b, STR("samples"), STR("count"));
    model_build_type(&b, STR("cpu"), STR("nanoseconds"));
    for (size_t i = 0; i < sizeof stacks / sizeof *stacks; i++) {
        int64_t ms = before ? stacks[i].before : stacks[i].now;
        if (ms)
            add_stack(&b, stacks[i].frames, (int64_t[]){ms / 10 + 1, ms * 1000000});
    }
    return b.p;
}

static struct model_profile *hostile(struct arena *arena)
{
    struct model_builder b;
    model_build(&b, arena);
    model_build_type(&b, STR("cpu</script><script>alert(1)</script>"), STR("<b>"));
    add_stack(&b, "main;</script><script>window.hacked=1</script>;a\"b'c&d", (int64_t[]){10});
    add_stack(&b, "main;<img src=x onerror=window.hacked=1>;]]>&lt;", (int64_t[]){10});
    add_stack(&b, "main;bad\xff\xc3(utf8;ctrl\x01\x1b[31m", (int64_t[]){10});
    add_stack(&b,
              "main;\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e::\xe9\x96\xa2\xe6\x95\xb0;"
              "emoji\xf0\x9f\x94\xa5;\xe2\x80\xa8line",
              (int64_t[]){10});
    return b.p;
}

// A full tree: fanout 10, five deep, with a long spine.
static struct model_profile *large(struct arena *arena)
{
    struct model_builder b;
    char text[512];
    model_build(&b, arena);
    model_build_type(&b, STR("cpu"), STR("nanoseconds"));
    for (int i = 0; i < 100000; i++) {
        snprintf(text, sizeof text,
                 "main;pkg%d::outer;mod%d::step_%d;lib%d::work;x::leaf_%d;y::tail_%d", i % 10,
                 i / 10 % 10, i % 100, i / 100 % 10, i / 1000 % 10, i / 10000);
        add_stack(&b, text, (int64_t[]){1000000 + i % 7 * 1000});
    }
    return b.p;
}

static void write_to(const char *dir, const char *name, const struct report_flame *f,
                     const struct report_flame_style *style,
                     void (*writer)(const struct report_flame *, const struct report_flame_style *,
                                    struct out *))
{
    char path[4096];
    struct err e;
    struct out out;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (fd < 0) {
        perror(path);
        exit(1);
    }
    out_init_fd(&out, fd);
    writer(f, style, &out);
    if (out_finish(&out, &e) < 0) {
        fprintf(stderr, "%s: %s\n", path, e.message);
        exit(1);
    }
    out_fini(&out);
    close(fd);
}

static void both(const char *dir, const char *name, struct arena *arena,
                 const struct model_profile *p, struct report_flame_options options,
                 struct report_flame_style style)
{
    char file[64];
    struct err e;
    for (int html = 0; html < 2; html++) {
        options.max_nodes = options.max_nodes ? options.max_nodes
                            : html            ? REPORT_FLAME_HTML_NODES
                                              : REPORT_FLAME_SVG_NODES;
        options.functions = options.all_types = html;
        struct report_flame *f = report_flame_new(arena, p, &options, &e);
        if (!f) {
            fprintf(stderr, "%s: %s\n", name, e.message);
            exit(1);
        }
        snprintf(file, sizeof file, "%s.%s", name, html ? "html" : "svg");
        write_to(dir, file, f, &style, html ? report_flame_html : report_flame_svg);
    }
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: flame_driver DIR\n");
        return 2;
    }
    struct arena *arena = arena_new(0);
    struct model_profile *now = service(arena, false), *before = service(arena, true);
    struct report_flame_style style = {.title = "rideshare", .subtitle = "cpu.pb.gz"};
    both(argv[1], "plain", arena, now, (struct report_flame_options){.type = 1}, style);
    both(argv[1], "reverse", arena, now, (struct report_flame_options){.type = 1, .reverse = true},
         style);
    style.subtitle = "before.pb.gz \xe2\x86\x92 after.pb.gz";
    both(argv[1], "diff", arena, now,
         (struct report_flame_options){.type = 1, .base = before, .normalize = true}, style);
    both(argv[1], "hostile", arena, hostile(arena), (struct report_flame_options){0},
         (struct report_flame_style){.title = "</title><script>window.hacked=1</script>"});
    both(argv[1], "large", arena, large(arena),
         (struct report_flame_options){.min_share = 1e-9, .max_nodes = 200000},
         (struct report_flame_style){.title = "A large one"});
    arena_free(arena);
    return 0;
}
