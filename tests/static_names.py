"""Names of static functions in C files, which appear in stack traces and in searches."""
import re

# A definition at the beginning of a line: static, a type, a name, parameters, and { on the next line.
DEFINITION = re.compile(r'^static\b(?![^\n;]*=)[^;{}]*?\)[^;{}()]*\n\{', re.M)
ATTRIBUTE = re.compile(r'__attribute__\s*\(\(.*?\)\)')


def static_functions(text):
    """[(line, name)] of the static functions that a C file defines."""
    found = []
    for m in DEFINITION.finditer(text):
        name = re.search(r'(\w+)\s*\(', ATTRIBUTE.sub('', m[0]))
        found.append((text.count('\n', 0, m.start()) + 1, name[1]))
    return found


def repeats(files):
    """{name: [path:line, ...]} of each name that several files define. files: {path: text}."""
    where = {}
    for path, text in files.items():
        for line, name in static_functions(text):
            where.setdefault(name, []).append((path, line))
    return {name: [f'{path}:{line}' for path, line in places] for name, places in sorted(where.items())
            if len({path for path, _ in places}) > 1}


def single_words(files):
    """[(path:line, name)] of each name that is a single word, which says little in a stack trace."""
    return [(f'{path}:{line}', name) for path, text in files.items()
            for line, name in static_functions(text) if '_' not in name]


assert static_functions('static int a_b(int c)\n{\n}\nstatic int d;\nstatic struct x *\ne_f(void)\n{\n') == \
    [(1, 'a_b'), (5, 'e_f')]
assert repeats({'a.c': 'static int f(void)\n{\n}\n', 'b.c': 'static int f(void)\n{\n}\n'}) == {'f': ['a.c:1', 'b.c:1']}
