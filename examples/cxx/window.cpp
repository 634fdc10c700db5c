// Profiles this process for some seconds and writes window.pb.gz.
//
// With CMake:      cmake -B build && cmake --build build && build/window
// With pkg-config: make && ./window
#include <kiln/kiln.hpp>

#include <cstdlib>
#include <ctime>
#include <fstream>
#include <iostream>

static unsigned long checksum(unsigned long seed)
{
    for (unsigned long i = 0; i < 100000; i++)
        seed = seed * 6364136223846793005UL + i;
    return seed;
}

static unsigned long handle_request(const char *vehicle, unsigned long seed)
{
    kiln::label label("vehicle", vehicle);
    return checksum(seed);
}

int main(int argc, char **argv)
{
    const double seconds = argc > 1 ? std::strtod(argv[1], nullptr) : 10;
    kiln::error error;
    kiln::profiler profiler({}, &error);
    kiln::window window(&error);
    if (!profiler || !window) {
        std::cerr << error.message() << '\n';
        return 1;
    }

    unsigned long sum = 1, n = 0;
    for (const std::time_t begin = std::time(nullptr);
         std::difftime(std::time(nullptr), begin) < seconds;)
        sum = handle_request(n++ % 4 ? "car" : "bike", sum);

    const std::string profile = window.take({}, &error);
    std::ofstream("window.pb.gz", std::ios::binary) << profile;
    if (error)
        std::cerr << error.message() << '\n';
    return profile.empty() || sum == 0;
}
