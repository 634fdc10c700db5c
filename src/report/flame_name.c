// Derives a function's package from its name, and the part to show in narrow boxes.
#include "report/flame_internal.h"

// Maximum nesting of types and closures, because each level scans the whole name.
enum { MOST_NESTED = 16 };

struct str flame_basename(struct str path)
{
    for (size_t i = path.n; i-- > 0;)
        if (path.p[i] == '/' && i + 1 < path.n)
            return str_from_to(path, i + 1, path.n);
    return path;
}

static size_t find_char(struct str s, char c)
{
    const char *p = s.n ? memchr(s.p, c, s.n) : NULL;
    return p ? (size_t)(p - s.p) : SIZE_MAX;
}

static bool starts_upper(struct str s)
{
    return s.n && s.p[0] >= 'A' && s.p[0] <= 'Z';
}

static bool name_is_one_of(struct str s, const char *const *list)
{
    for (; *list; list++)
        if (str_eq(s, str_from(*list)))
            return true;
    return false;
}

static bool starts_with_one_of(struct str s, const char *const *list)
{
    for (; *list; list++)
        if (str_starts(s, str_from(*list)))
            return true;
    return false;
}

static bool is_system_module(struct str module)
{
    static const char *const prefixes[] = {
        "libc.so",   "libc-",     "libc.musl", "ld-linux", "ld-musl",  "ld-2.",      "libpthread",
        "libm.so",   "libm-",     "libdl.so",  "libdl-",   "librt.so", "librt-",     "libgcc_s",
        "libstdc++", "libc++",    "libunwind", "[vdso]",   "[kernel",  "[vsyscall]", "vmlinux",
        "libjvm.so", "libsystem", "dyld",      NULL};
    return starts_with_one_of(module, prefixes);
}

static bool is_system_package(struct str package)
{
    static const char *const exact[] = {// Rust, C++
                                        "std", "core", "alloc", "compiler_builtins", "panic_unwind",
                                        "panic_abort", "rustc_demangle", "__gnu_cxx", "__cxxabiv1",
                                        "abi", "__1",
                                        // Go
                                        "runtime", "syscall", "sync", "reflect", "sync/atomic",
                                        // Java, .NET
                                        "java", "javax", "jdk", "sun", "System", NULL};
    static const char *const prefixes[] = {"runtime/", "internal/", "java/",   "java.", "javax.",
                                           "jdk/",     "jdk.",      "sun/",    "sun.",  "System.",
                                           "com/sun/", "com.sun.",  "vendor/", NULL};
    return name_is_one_of(package, exact) || starts_with_one_of(package, prefixes);
}

// The position of the first or last "::" of s outside of brackets; SIZE_MAX: none. Arrows and
// operators with angle brackets may confuse the count; then the name has no package.
static size_t find_colons(struct str s, bool last)
{
    int depth = 0;
    size_t found = SIZE_MAX;
    for (size_t i = 0; i + 1 < s.n; i++) {
        char c = s.p[i];
        if (c == '<' || c == '(' || c == '[' || c == '{')
            depth++;
        else if (c == ')' || c == ']' || c == '}' || (c == '>' && (i == 0 || s.p[i - 1] != '-')))
            depth--;
        else if (c == ':' && s.p[i + 1] == ':' && depth <= 0) {
            if (!last)
                return i;
            found = i++;
        }
    }
    return found;
}

// Removes the return type that C++ templates have in front, and the arguments.
static struct str strip_signature(struct str s)
{
    int depth = 0;
    size_t from = 0, to = s.n;
    static const char anonymous[] = "(anonymous namespace)";
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        if (c == '(' && str_starts(str_from_to(s, i, s.n), STR(anonymous))) {
            i += sizeof anonymous - 2;
        } else if (c == '<' || c == '[' || c == '{') {
            depth++;
        } else if (c == ']' || c == '}' || (c == '>' && (i == 0 || s.p[i - 1] != '-'))) {
            depth--;
        } else if (depth <= 0 && c == '(' && i > from) {
            to = i;
            break;
        } else if (depth <= 0 && c == ' ') {
            // "operator new" is one word.
            if (i < 8 || memcmp(s.p + i - 8, "operator", 8) != 0)
                from = i + 1;
        }
    }
    return str_from_to(s, from, to);
}

// Rust and C++: the crate or namespace. `<a::B as c::D>::f` belongs to a or, if the type has no
// path (`<T as c::D>::f`), to c.
static struct str colon_package(struct str name)
{
    name = strip_signature(name);
    for (int i = 0; i < MOST_NESTED && name.n && strchr("<&*", name.p[0]); i++) {
        size_t as = str_find(name, STR(" as "), 0);
        struct str inner = str_from_to(name, 1, name.n);
        struct str type = as == SIZE_MAX ? inner : str_from_to(name, 1, as);
        static const char *const words[] = {"&", "*", "mut ", "const ", "dyn ", NULL};
        for (const char *const *w = words; *w; w++)
            if (str_starts(type, str_from(*w)))
                type = str_from_to(type, strlen(*w), type.n);
        if (as != SIZE_MAX && str_find(type, STR("::"), 0) == SIZE_MAX)
            type = str_from_to(name, as + 4, name.n);
        if (type.n >= name.n)
            break;
        name = type;
    }
    size_t end = 0;
    while (end < name.n && !strchr(":<>(&* ", name.p[end]))
        end++;
    return str_from_to(name, 0, end);
}

// Go `a/b.(*T).F` is a/b; Java `a.b.C.m` is a.b and `a/b/C.m` is a/b; SIZE_MAX: neither.
static size_t dotted_package(struct str name)
{
    size_t limit = 0;
    while (limit < name.n && !strchr("[(<", name.p[limit]))
        limit++;
    struct str head = str_from_to(name, 0, limit);
    size_t slash = SIZE_MAX;
    for (size_t i = 0; i < head.n; i++)
        if (head.p[i] == '/')
            slash = i;
    size_t from = slash == SIZE_MAX ? 0 : slash + 1;
    size_t dot = find_char(str_from_to(head, from, head.n), '.');
    if (dot == SIZE_MAX || dot == 0)
        return SIZE_MAX;
    if (slash != SIZE_MAX && slash > 0)
        return starts_upper(str_from_to(head, from, head.n)) ? slash : from + dot;
    // The parts before the first class, if there are at least two.
    for (size_t at = dot + 1, parts = 1; at < head.n; parts++) {
        if (starts_upper(str_from_to(head, at, head.n)) && parts >= 2)
            return at - 1;
        size_t next = find_char(str_from_to(head, at, head.n), '.');
        if (next == SIZE_MAX)
            break;
        at += next + 1;
    }
    return dot;
}

struct flame_group_name flame_group_of(struct str function, struct str module, bool by_module)
{
    struct flame_group_name of_module = {module, is_system_module(module)};
    bool kernel = str_ends(function, STR("_[k]"));
    if (kernel)
        return (struct flame_group_name){STR("[kernel]"), true};
    if (function.n && function.p[0] == '[') {
        // [dropped], [signals blocked], [libfoo.so] +0x12
        return module.n ? of_module : (struct flame_group_name){STR(""), true};
    }
    if (by_module || !function.n)
        return of_module;
    if (str_find(function, STR("::"), 0) != SIZE_MAX) {
        struct str package = colon_package(function);
        if (package.n)
            return (struct flame_group_name){package,
                                             is_system_package(package) || of_module.muted};
        return of_module;
    }
    // C compilers also create names with dots: f.part.0, f.cold, f.constprop.0.
    static const char *const compiler[] = {".part.",  ".cold", ".constprop.", ".isra.", ".llvm.",
                                           ".lto_pr", "@@",    "@plt",        NULL};
    for (const char *const *c = compiler; *c; c++)
        if (str_find(function, str_from(*c), 0) != SIZE_MAX)
            return of_module;
    size_t end = dotted_package(function);
    if (end == SIZE_MAX || find_char(function, ' ') < end)
        return of_module;
    struct str package = str_from_to(function, 0, end);
    return (struct flame_group_name){package, is_system_package(package)};
}

// The last two parts: `worker::run`, `pkg.(*T).F`, `Class.method`.
uint32_t flame_short_name(struct str name)
{
    if (!name.n || name.p[0] == '[' || name.n > UINT32_MAX)
        return 0;
    if (str_find(name, STR("::"), 0) != SIZE_MAX) {
        struct str plain = strip_signature(name);
        size_t offset = (size_t)(plain.p - name.p), last;
        // A closure needs the name of its function.
        struct str head = plain;
        for (int i = 0;; i++) {
            last = find_colons(head, true);
            if (last == SIZE_MAX || i == MOST_NESTED ||
                !str_starts(str_from_to(plain, last + 2, plain.n), STR("{{")))
                break;
            head = str_from_to(plain, 0, last);
        }
        if (last == SIZE_MAX)
            return (uint32_t)offset;
        size_t before = find_colons(str_from_to(plain, 0, last), true);
        size_t from = before == SIZE_MAX ? 0 : before + 2;
        if (from < plain.n && plain.p[from] == '<')
            from = last + 2;
        return (uint32_t)(offset + from);
    }
    size_t end = dotted_package(name);
    if (end == SIZE_MAX)
        return 0;
    size_t slash = SIZE_MAX;
    for (size_t i = 0; i < end; i++)
        if (name.p[i] == '/')
            slash = i;
    // Java shows the class, Go the last element of the package.
    if (starts_upper(str_from_to(name, end + 1, name.n)))
        return (uint32_t)(slash != SIZE_MAX && name.p[end] != '/' ? slash + 1 : end + 1);
    return slash == SIZE_MAX ? 0 : (uint32_t)(slash + 1);
}
