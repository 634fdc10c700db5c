// C++: exceptions, destructors, the standard library.
#include "harness.h"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace
{
volatile unsigned long sink;

struct guard {
    std::string name;
    explicit guard(int n) : name(std::to_string(n) + " is the number of this guard")
    {
    }
    ~guard()
    {
        sink = sink + name.size();
    }
};

__attribute__((noinline)) void thrower(int depth)
{
    guard g(depth);
    if (depth == 0)
        throw std::runtime_error("bottom");
    thrower(depth - 1);
    sink = sink + 1;
}

__attribute__((noinline)) void rethrower()
{
    try {
        thrower(3);
    } catch (const std::logic_error &) {
        sink = sink + 1;
    } catch (const std::exception &e) {
        sink = sink + std::string(e.what()).size();
        throw;
    }
}

void exceptions()
{
    try {
        rethrower();
    } catch (...) {
        sink = sink + 1;
    }
}

void containers()
{
    std::map<std::string, std::vector<int>> m;
    for (int i = 0; i < 12; i++)
        m["key" + std::to_string(i % 5)].push_back(i * 7919 % 13);
    for (auto &[key, values] : m)
        std::sort(values.begin(), values.end(), [](int a, int b) { return a > b; });
    std::ostringstream out;
    for (const auto &[key, values] : m)
        out << key << ' ' << values.size() << ' ' << 1.5 * values[0] << '\n';
    sink = sink + out.str().size();
}

struct shape {
    virtual ~shape() = default;
    virtual double area() const = 0;
};
struct square : shape {
    double side = 2;
    double area() const override
    {
        return side * side;
    }
};

void virtuals()
{
    std::vector<std::unique_ptr<shape>> shapes;
    for (int i = 0; i < 4; i++)
        shapes.push_back(std::make_unique<square>());
    std::function<double(size_t)> sum = [&](size_t i) {
        return i == shapes.size() ? 0 : shapes[i]->area() + sum(i + 1);
    };
    sink = sink + (unsigned long)sum(0);
}
} // namespace

extern "C" const struct work work_cxx_list[] = {
    {"C++ exceptions", exceptions, ORACLE_LIBGCC},
    {"C++ containers", containers, ORACLE_LIBGCC},
    {"C++ virtual calls", virtuals, ORACLE_LIBGCC},
    {nullptr, nullptr, ORACLE_LIBGCC},
};
