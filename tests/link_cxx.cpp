// Every function of kiln.hpp, for tests/link: compiled with each compiler and standard, and run
// once.
#include <kiln/kiln.hpp>

#include <cstdlib>
#include <cstring>
#include <ctime>
#include <iostream>
#include <type_traits>

static int failures;

static void check(bool good, const char *what)
{
    if (!good) {
        std::cerr << "not ok - " << what << '\n';
        failures++;
    }
}

__attribute__((noinline)) static unsigned long spend()
{
    const std::clock_t begin = std::clock();
    unsigned long sum = 1;
    while (std::clock() - begin < CLOCKS_PER_SEC / 4)
        for (unsigned long i = 0; i < 10000; i++)
            sum = sum * 6364136223846793005UL + i;
    return sum;
}

static bool contains(const std::string &text, const char *part)
{
    return text.find(part) != std::string::npos;
}

// Values that refer to the thread cannot leave it; values that own something have one owner.
static_assert(!std::is_copy_constructible_v<kiln::label> &&
              !std::is_move_constructible_v<kiln::label>);
static_assert(!std::is_move_constructible_v<kiln::label_scope>);
static_assert(!std::is_copy_constructible_v<kiln::window> &&
              std::is_nothrow_move_constructible_v<kiln::window>);
static_assert(std::is_nothrow_move_assignable_v<kiln::profiler>);
static_assert(std::is_copy_constructible_v<kiln::label_set>);

static void check_labels()
{
    const kiln_labels before = kiln_labels_current();
    {
        kiln::label outer("vehicle", "car");
        kiln::label inner(std::string("region"), std::string("eu"));
        check(kiln_labels_current() != before, "a label is entered");
    }
    check(kiln_labels_current() == before, "the previous labels are restored");

    const kiln::label_set car = kiln::label_set().with("vehicle", "car");
    const kiln::label_set copy = car;
    check(copy.id() == car.id() && car.id() != 0, "a copy is the same set");
    check(car.without("vehicle").id() == 0, "a set without its label is empty");
    {
        kiln::label_scope scope(copy);
        check(kiln_labels_current() == car.id(), "a set is entered");
        check(kiln::label_set::current().id() == car.id(), "the current set");
    }
    check(kiln_labels_current() == before, "the previous set is restored");
}

static void check_windows()
{
    kiln::error error;
    kiln::profiler second({}, &error);
    check(!second && error, "a second profiler does not start, and says why");

    kiln::window window(&error), moved(std::move(window));
    check(!window && moved, "a moved window has one owner");
    {
        kiln::label label("vehicle", "boat");
        check(spend() != 0, "work");
    }
    kiln::output folded;
    folded.format = kiln::format::folded;
    check(contains(moved.peek(folded), "spend"), "the samples so far");
    kiln::output json;
    json.format = kiln::format::json;
    check(contains(moved.take(json), "boat"), "a profile with labels");
    check(!moved, "a written window is closed");
    error = {};
    check(moved.take({}, &error).empty() && error, "a closed window cannot be written");
    check(!kiln::last(2).empty(), "the last seconds");

    kiln::window slow(100, true, &error), fast(1000, false, &error);
    check(slow && fast.number() == KILN_CONFLICT, "windows with different frequencies conflict");
    slow.cancel();
    check(!slow, "a canceled window is closed");
}

static void check_others()
{
    kiln::error error;
    kiln::endpoints endpoints("127.0.0.1:0", "secret", &error);
    check(contains(endpoints.address(), "http://127.0.0.1:"), "endpoints are served");
    kiln::heap_profiler heap(&error);
    kiln::heap_window heap_window(&error);
    check(!!heap == !!heap_window || !heap, "heap windows need a heap profiler");
    if (heap_window)
        check(!heap_window.take({}, &error).empty(), "a heap profile");
    (void)kiln::heap_profile({}, &error);

    kiln::push_options to;
    to.url = "no URL";
    to.tags = {{"region", "eu"}};
    error = {};
    kiln::push push(to, &error);
    check(!push && error, "push needs a URL");
}

#if KILN_HAS_EXCEPTIONS
template <typename Call> static void check_throws(Call call, const char *what)
{
    try {
        call();
        check(false, what);
    } catch (const kiln::failure &e) {
        check(std::strlen(e.what()) > 0, what);
    }
}

static void check_exceptions()
{
    check_throws([] { kiln::profiler second(kiln::throwing); }, "a second profiler throws");
    check_throws([] { kiln::endpoints nowhere(kiln::throwing, "no address"); },
                 "an invalid address throws");
    check_throws([] { kiln::push nowhere(kiln::throwing, {}); }, "push without a URL throws");
    kiln::window window(kiln::throwing);
    check(!window.take(kiln::throwing).empty(), "a profile, or an exception");
    check_throws([&] { (void)window.take(kiln::throwing); }, "a closed window throws");
}
#endif

int main()
{
    {
        kiln::options options;
        options.frequency = 250;
        options.threads = "*";
        kiln::error error;
        kiln::profiler profiler(options, &error);
        check(!!profiler, error.message());
        check_labels();
        check_windows();
        check_others();
#if KILN_HAS_EXCEPTIONS
        check_exceptions();
#endif
    }
    kiln_statistics statistics{};
    statistics.size = sizeof statistics;
    kiln_get_statistics(&statistics);
    check(statistics.frequency == 0, "the profiler stops at the end of its scope");
    return failures != 0;
}
