// libkiln for C++17: RAII over <kiln/kiln.h>, in this header only. It has no ABI of its own:
// programs link the C functions.
//
//     kiln::profiler profiler;                      // samples until the end of the scope
//     kiln::endpoints endpoints("127.0.0.1:6060");  // /debug/pprof/
//     {
//         kiln::label vehicle("vehicle", "car");    // of this thread's samples, until }
//         order_car();
//     }
//     kiln::window window;
//     work();
//     std::string profile = window.take();          // gzipped pprof
//
// Contract
//   Errors      nothing throws unless the first argument is kiln::throwing. Every function that can
//               fail takes an optional kiln::error *, returns false or an empty result, and never
//               ends the process. Objects whose constructor can fail convert to bool.
//   Exceptions  with kiln::throwing, constructors and functions throw kiln::failure. Without
//               exceptions in the compiler (-fno-exceptions) that tag does not exist.
//   Threads     as in <kiln/kiln.h>. kiln::label and kiln::label_scope stay on their thread; they
//   can
//               be neither copied nor moved.
//   Fork        a guard that is destroyed in a child of fork stops nothing of the parent's.
#ifndef KILN_KILN_HPP
#define KILN_KILN_HPP

#include <kiln/kiln.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

#if defined(__cpp_exceptions)
#define KILN_HAS_EXCEPTIONS 1
#include <stdexcept>
#else
#define KILN_HAS_EXCEPTIONS 0
#endif

namespace kiln
{

// The message says what failed, why, and how to fix it. Empty: no error.
struct error {
    kiln_error raw{};

    const char *message() const noexcept
    {
        return raw.message;
    }
    explicit operator bool() const noexcept
    {
        return raw.message[0] != '\0';
    }
};

#if KILN_HAS_EXCEPTIONS
struct failure : std::runtime_error {
    using std::runtime_error::runtime_error;
};

struct throwing_t {
    explicit throwing_t() = default;
};
inline constexpr throwing_t throwing{};
#endif

namespace detail
{

inline kiln_error *raw(error *e) noexcept
{
    return e ? &e->raw : nullptr;
}

#if KILN_HAS_EXCEPTIONS
inline void require(bool succeeded, const error &e)
{
    if (!succeeded)
        throw failure(e.message());
}
#endif

inline const char *text_or_null(const std::string &text) noexcept
{
    return text.empty() ? nullptr : text.c_str();
}

// Names and values as a NULL-terminated C array, which points into pairs.
inline std::vector<const char *>
c_pairs(const std::vector<std::pair<std::string, std::string>> &pairs)
{
    std::vector<const char *> list;
    list.reserve(2 * pairs.size() + 1);
    for (const auto &pair : pairs) {
        list.push_back(pair.first.c_str());
        list.push_back(pair.second.c_str());
    }
    list.push_back(nullptr);
    return list;
}

// A file in memory, which needs no writable directory.
class memory_file
{
  public:
    memory_file() noexcept : fd_(memfd_create("kiln", MFD_CLOEXEC))
    {
    }
    memory_file(const memory_file &) = delete;
    memory_file &operator=(const memory_file &) = delete;
    ~memory_file()
    {
        if (fd_ >= 0)
            close(fd_);
    }
    int fd() const noexcept
    {
        return fd_;
    }
    bool read_into(std::string &bytes) const
    {
        char part[16384];
        for (::off_t at = 0;;) {
            const ::ssize_t n = pread(fd_, part, sizeof part, at);
            if (n <= 0)
                return n == 0;
            bytes.append(part, static_cast<std::size_t>(n));
            at += n;
        }
    }

  private:
    int fd_;
};

inline void set_error(error *e, const char *what, int number) noexcept
{
    if (e)
        std::snprintf(e->raw.message, sizeof e->raw.message, "%s: %s", what, std::strerror(number));
}

// Lets write(fd) fill a file in memory and returns its contents; empty on failure.
template <typename Write> std::string collect(Write write, error *e)
{
    const memory_file file;
    std::string bytes;
    if (file.fd() < 0) {
        set_error(e, "cannot create a file in memory (memfd_create)", errno);
    } else if (write(file.fd()) && !file.read_into(bytes)) {
        set_error(e, "cannot read a file in memory", errno);
        bytes.clear();
    }
    return bytes;
}

} // namespace detail

// ---- CPU profiler ----

struct options {
    std::uint32_t frequency = 0; // samples per CPU-second; 0: 100
    std::uint32_t depth = 0;     // maximum frames per stack; 0: 128
    std::size_t memory = 0;      // limit for samples in bytes; 0: 32 MiB
    std::size_t symbol_memory = 0;
    std::string threads; // patterns, see kiln_options
    std::uint32_t clock = KILN_CLOCK_TIMER;
};

inline bool start(const options &o = {}, error *e = nullptr) noexcept
{
    kiln_options c{};
    c.size = sizeof c;
    c.frequency = o.frequency;
    c.depth = o.depth;
    c.memory = o.memory;
    c.symbol_memory = o.symbol_memory;
    c.threads = detail::text_or_null(o.threads);
    c.clock = o.clock;
    return kiln_start(&c, detail::raw(e)) == 0;
}

inline void stop() noexcept
{
    kiln_stop();
}

// Samples from its construction to its destruction. False if it could not start, for instance
// because the profiler was running; then its destruction does not stop it.
class profiler
{
  public:
    explicit profiler(const options &o = {}, error *e = nullptr) noexcept : started_(start(o, e))
    {
    }
#if KILN_HAS_EXCEPTIONS
    explicit profiler(throwing_t, const options &o = {})
    {
        error e;
        started_ = start(o, &e);
        detail::require(started_, e);
    }
#endif
    profiler(profiler &&other) noexcept : started_(std::exchange(other.started_, false))
    {
    }
    profiler &operator=(profiler &&other) noexcept
    {
        std::swap(started_, other.started_);
        return *this;
    }
    ~profiler()
    {
        if (started_)
            kiln_stop();
    }
    explicit operator bool() const noexcept
    {
        return started_;
    }

  private:
    bool started_ = false;
};

// ---- Windows ----

enum class format : std::uint32_t {
    pprof = KILN_PPROF,
    pprof_plain = KILN_PPROF_PLAIN,
    folded = KILN_FOLDED,
    svg = KILN_SVG,
    html = KILN_HTML,
    json = KILN_JSON,
};

struct output {
    kiln::format format = kiln::format::pprof;
    std::uint32_t flags = 0; // KILN_ADDRESSES, KILN_NO_LABELS
    std::uint32_t width = 0; // of an SVG, in pixels
    std::string title;       // of a flame graph

    kiln_output raw() const noexcept
    {
        kiln_output c{};
        c.size = sizeof c;
        c.format = static_cast<std::uint32_t>(format);
        c.flags = flags;
        c.width = width;
        c.title = detail::text_or_null(title);
        return c;
    }
};

// A period of CPU time. Needs a running profiler to have samples. Its destruction closes the window
// without writing it.
class window
{
  public:
    explicit window(error *e = nullptr) noexcept : number_(kiln_window_begin(detail::raw(e)))
    {
    }
#if KILN_HAS_EXCEPTIONS
    explicit window(throwing_t)
    {
        error e;
        number_ = kiln_window_begin(&e.raw);
        detail::require(number_ >= 0, e);
    }
#endif
    // At this frequency while it is open. number() is KILN_CONFLICT if another window asked for
    // another one and force is false.
    window(std::uint32_t frequency, bool force, error *e = nullptr) noexcept
    {
        kiln_window_options c{};
        c.size = sizeof c;
        c.frequency = frequency;
        c.flags = force ? KILN_FORCE : 0;
        number_ = kiln_window_begin_with(&c, detail::raw(e));
    }
    window(window &&other) noexcept : number_(std::exchange(other.number_, -1))
    {
    }
    window &operator=(window &&other) noexcept
    {
        std::swap(number_, other.number_);
        return *this;
    }
    ~window()
    {
        cancel();
    }

    explicit operator bool() const noexcept
    {
        return number_ >= 0;
    }
    int number() const noexcept
    {
        return number_;
    }
    // Closes the window, even if writing fails, and writes it to a file descriptor.
    bool write(int fd, const output &o = {}, error *e = nullptr) noexcept
    {
        const kiln_output c = o.raw();
        return kiln_window_write_as(std::exchange(number_, -1), fd, &c, detail::raw(e)) == 0;
    }
    // The same, but returns the profile; empty on failure.
    std::string take(const output &o = {}, error *e = nullptr)
    {
        return detail::collect([&](int fd) { return write(fd, o, e); }, e);
    }
    // Returns the samples so far; the window stays open.
    std::string peek(output o = {}, error *e = nullptr) const
    {
        o.flags |= KILN_STAY;
        const kiln_output c = o.raw();
        return detail::collect(
            [&](int fd) { return kiln_window_write_as(number_, fd, &c, detail::raw(e)) == 0; }, e);
    }
#if KILN_HAS_EXCEPTIONS
    std::string take(throwing_t, const output &o = {})
    {
        error e;
        std::string profile = take(o, &e);
        detail::require(!e, e);
        return profile;
    }
#endif
    void cancel() noexcept
    {
        if (number_ >= 0)
            kiln_window_cancel(std::exchange(number_, -1));
    }

  private:
    int number_ = -1;
};

// Returns the samples of the last 1 to 120 seconds, without a window; empty on failure.
inline std::string last(std::uint32_t seconds, const output &o = {}, error *e = nullptr)
{
    const kiln_output c = o.raw();
    return detail::collect(
        [&](int fd) { return kiln_last_write(seconds, fd, &c, detail::raw(e)) == 0; }, e);
}

// ---- Heap ----

// Samples allocations from its construction to its destruction. Needs an allocator that reports
// them, such as libkiln_malloc.so or jemalloc with its profiler.
class heap_profiler
{
  public:
    explicit heap_profiler(error *e = nullptr) noexcept
        : started_(kiln_heap_activate(detail::raw(e)) == 0)
    {
    }
#if KILN_HAS_EXCEPTIONS
    explicit heap_profiler(throwing_t)
    {
        error e;
        started_ = kiln_heap_activate(&e.raw) == 0;
        detail::require(started_, e);
    }
#endif
    heap_profiler(heap_profiler &&other) noexcept : started_(std::exchange(other.started_, false))
    {
    }
    heap_profiler &operator=(heap_profiler &&other) noexcept
    {
        std::swap(started_, other.started_);
        return *this;
    }
    ~heap_profiler()
    {
        if (started_)
            kiln_heap_deactivate(nullptr);
    }
    explicit operator bool() const noexcept
    {
        return started_;
    }

  private:
    bool started_ = false;
};

// Returns everything since heap sampling began; empty on failure.
inline std::string heap_profile(const output &o = {}, error *e = nullptr)
{
    const kiln_output c = o.raw();
    return detail::collect([&](int fd) { return kiln_heap_write(fd, &c, detail::raw(e)) == 0; }, e);
}

// What is allocated and freed between two points in time.
class heap_window
{
  public:
    explicit heap_window(error *e = nullptr) noexcept
        : number_(kiln_heap_window_begin(detail::raw(e)))
    {
    }
    heap_window(heap_window &&other) noexcept : number_(std::exchange(other.number_, -1))
    {
    }
    heap_window &operator=(heap_window &&other) noexcept
    {
        std::swap(number_, other.number_);
        return *this;
    }
    ~heap_window()
    {
        if (number_ >= 0)
            kiln_heap_window_cancel(number_);
    }
    explicit operator bool() const noexcept
    {
        return number_ >= 0;
    }
    // Closes the window, even if writing fails.
    bool write(int fd, const output &o = {}, error *e = nullptr) noexcept
    {
        const kiln_output c = o.raw();
        return kiln_heap_window_write(std::exchange(number_, -1), fd, &c, detail::raw(e)) == 0;
    }
    std::string take(const output &o = {}, error *e = nullptr)
    {
        return detail::collect([&](int fd) { return write(fd, o, e); }, e);
    }

  private:
    int number_ = -1;
};

// ---- Labels ----

// An immutable set of labels. Copies share it.
class label_set
{
  public:
    label_set() noexcept = default;
    label_set(const label_set &other) noexcept : id_(other.id_)
    {
        if (id_)
            kiln_labels_hold(id_);
    }
    label_set(label_set &&other) noexcept : id_(std::exchange(other.id_, 0))
    {
    }
    label_set &operator=(label_set other) noexcept
    {
        std::swap(id_, other.id_);
        return *this;
    }
    ~label_set()
    {
        if (id_)
            kiln_labels_release(id_);
    }

    // The calling thread's labels.
    static label_set current() noexcept
    {
        label_set set;
        set.id_ = kiln_labels_current();
        if (set.id_)
            kiln_labels_hold(set.id_);
        return set;
    }
    label_set with(const char *key, const char *value) const noexcept
    {
        return label_set(kiln_labels_with(id_, key, value));
    }
    label_set with(const std::string &key, const std::string &value) const noexcept
    {
        return with(key.c_str(), value.c_str());
    }
    label_set without(const char *key) const noexcept
    {
        return label_set(kiln_labels_without(id_, key));
    }
    kiln_labels id() const noexcept
    {
        return id_;
    }

  private:
    explicit label_set(kiln_labels id) noexcept : id_(id)
    {
    }

    kiln_labels id_ = 0;
};

// Gives the calling thread one more label until the end of the scope. Scopes nest.
class label
{
  public:
    label(const char *key, const char *value) noexcept : had_(kiln_labels_push(key, value))
    {
    }
    label(const std::string &key, const std::string &value) noexcept
        : label(key.c_str(), value.c_str())
    {
    }
    label(const label &) = delete;
    label &operator=(const label &) = delete;
    ~label()
    {
        kiln_labels_pop(had_);
    }

  private:
    kiln_labels had_;
};

// Replaces the calling thread's labels until the end of the scope: for executors and for sets that
// are used again and again.
class label_scope
{
  public:
    explicit label_scope(label_set set) noexcept : set_(std::move(set)), had_(label_set::current())
    {
        kiln_labels_enter(set_.id());
    }
    label_scope(const label_scope &) = delete;
    label_scope &operator=(const label_scope &) = delete;
    ~label_scope()
    {
        kiln_labels_enter(had_.id());
    }

  private:
    label_set set_, had_;
};

// ---- Endpoints and push ----

// Serves /debug/pprof/ until its destruction. Does not start the profiler.
class endpoints
{
  public:
    explicit endpoints(const std::string &address = {}, const std::string &token = {},
                       error *e = nullptr) noexcept
    {
        serve(address, token, e);
    }
#if KILN_HAS_EXCEPTIONS
    explicit endpoints(throwing_t, const std::string &address = {}, const std::string &token = {})
    {
        error e;
        serve(address, token, &e);
        detail::require(serving_, e);
    }
#endif
    endpoints(endpoints &&other) noexcept : serving_(std::exchange(other.serving_, false))
    {
    }
    endpoints &operator=(endpoints &&other) noexcept
    {
        std::swap(serving_, other.serving_);
        return *this;
    }
    ~endpoints()
    {
        if (serving_)
            kiln_serve_stop();
    }
    explicit operator bool() const noexcept
    {
        return serving_;
    }
    // http://HOST:PORT or unix:/PATH; empty if nothing is served.
    std::string address() const
    {
        char text[512];
        return serving_ && kiln_serve_address(text, sizeof text) == 0 ? text : "";
    }

  private:
    void serve(const std::string &address, const std::string &token, error *e) noexcept
    {
        kiln_serve_options c{};
        c.size = sizeof c;
        c.address = detail::text_or_null(address);
        c.token = detail::text_or_null(token);
        serving_ = kiln_serve(&c, detail::raw(e)) == 0;
    }

    bool serving_ = false;
};

struct push_options {
    std::string url;
    std::string application; // service_name; empty: the program's name
    std::vector<std::pair<std::string, std::string>> tags, headers;
    std::string user, password, token, tenant;
    std::uint32_t interval = 0; // seconds per profile; 0: 10
    std::uint32_t flags = 0;    // KILN_PUSH_NO_CPU, ...
    std::size_t queue = 0;      // maximum bytes queued; 0: 8 MiB
};

// Pushes profiles until its destruction, which sends the rest for at most five seconds.
class push
{
  public:
    explicit push(const push_options &o, error *e = nullptr) : pushing_(begin(o, e))
    {
    }
#if KILN_HAS_EXCEPTIONS
    push(throwing_t, const push_options &o)
    {
        error e;
        pushing_ = begin(o, &e);
        detail::require(pushing_, e);
    }
#endif
    push(push &&other) noexcept : pushing_(std::exchange(other.pushing_, false))
    {
    }
    push &operator=(push &&other) noexcept
    {
        std::swap(pushing_, other.pushing_);
        return *this;
    }
    ~push()
    {
        if (pushing_)
            kiln_push_stop();
    }
    explicit operator bool() const noexcept
    {
        return pushing_;
    }

  private:
    static bool begin(const push_options &o, error *e)
    {
        const auto tags = detail::c_pairs(o.tags), headers = detail::c_pairs(o.headers);
        kiln_push_options c{};
        c.size = sizeof c;
        c.url = detail::text_or_null(o.url);
        c.application = detail::text_or_null(o.application);
        c.tags = tags.data();
        c.headers = headers.data();
        c.user = detail::text_or_null(o.user);
        c.password = detail::text_or_null(o.password);
        c.token = detail::text_or_null(o.token);
        c.tenant = detail::text_or_null(o.tenant);
        c.interval = o.interval;
        c.flags = o.flags;
        c.queue = o.queue;
        return kiln_push_start(&c, detail::raw(e)) == 0;
    }

    bool pushing_ = false;
};

} // namespace kiln

#endif
