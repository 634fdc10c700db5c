// Exceptions from the depth: through frames with clean-ups, over threads' own stacks, rethrown,
// and carried by exception_ptr.
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

struct counted {
    unsigned &n;
    explicit counted(unsigned &c) : n(c) { n++; }
    ~counted() { n--; }
};

struct special : std::runtime_error {
    unsigned value;
    explicit special(unsigned v) : std::runtime_error("special"), value(v) {}
};

volatile unsigned sink;

__attribute__((noinline)) void dive(unsigned depth, unsigned value, unsigned &alive)
{
    counted here(alive);
    std::vector<int> some(depth % 7 + 1);
    for (unsigned i = 0; i < 50; i++)
        sink = sink + i;
    if (depth > 0)
        dive(depth - 1, value, alive);
    else if (value % 2)
        throw special(value);
    else
        throw std::string(value, 'x');
    sink = sink + 1;
}

__attribute__((noinline)) unsigned again(unsigned depth, unsigned value, unsigned &alive)
{
    try {
        dive(depth, value, alive);
    } catch (const special &) {
        throw;
    } catch (...) {
        std::exception_ptr held = std::current_exception();
        std::rethrow_exception(held);
    }
    return 0;
}

} // namespace

extern "C" unsigned throw_round(unsigned n)
{
    unsigned caught = 0, alive = 0;
    for (unsigned i = 0; i < n; i++) {
        try {
            again(i % 60, i, alive);
        } catch (const special &s) {
            caught += s.value == i && alive == 0;
        } catch (const std::string &s) {
            caught += s.size() == i && alive == 0;
        }
    }
    return caught;
}
