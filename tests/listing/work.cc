// Templates, overloads, lambdas and an anonymous namespace.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>
#include <string>
#include <vector>

namespace
{

struct Point {
    double x, y;
    double norm() const
    {
        return x * x + y * y;
    }
};

template <typename T> T clamp_to(T v, T lo, T hi)
{
    return v < lo ? lo : v > hi ? hi : v;
}

__attribute__((noinline)) double area(const Point &p)
{
    return clamp_to(p.norm(), 0.25, 4e9);
}

__attribute__((noinline)) double area(const std::vector<Point> &points)
{
    double sum = 0;
    for (const auto &p : points)
        sum += area(p);
    return sum;
}

} // namespace

template <typename Container> class Sorter
{
  public:
    __attribute__((noinline)) void run(Container &c)
    {
        std::sort(c.begin(), c.end(),
                  [](const auto &a, const auto &b) { return a.norm() < b.norm(); });
    }
};

__attribute__((noinline)) size_t count_words(const std::string &text)
{
    std::map<std::string, int> words;
    std::string word;
    for (char c : text) {
        if (c != ' ') {
            word += c;
        } else if (!word.empty()) {
            words[word]++;
            word.clear();
        }
    }
    return words.size();
}

int main(int argc, char **argv)
{
    double seconds = argc > 1 ? atof(argv[1]) : 0.3, sum = 0;
    std::string text;
    for (int i = 0; i < 500; i++)
        text += std::to_string(i % 37) + " ";
    Sorter<std::vector<Point>> sorter;
    while ((double)clock() / CLOCKS_PER_SEC < seconds) {
        std::vector<Point> points(2000);
        for (auto &p : points)
            p = {(double)rand(), (double)rand()};
        sorter.run(points);
        sum += area(points) + (double)count_words(text);
    }
    printf("%d\n", sum > 0);
}
