// Rust's v0 mangling (RFC 2603). The output equals the alternate form of the crate rustc-demangle.
// A name is a tree in prefix order. A B refers back to an earlier part of the text.
#include "symbol/demangle_v0_internal.h"

static void print_lifetime(struct v0 *v, uint64_t lt)
{
    if (!v->out)
        return;
    v0_print(v, "'");
    if (lt == 0) {
        v0_print(v, "_");
    } else if (lt > v->lifetimes) {
        v0_fail(v, INVALID);
    } else if (v->lifetimes - lt < 26) {
        text_char(v->out, (uint32_t)('a' + (v->lifetimes - lt)));
    } else {
        v0_print(v, "_");
        v0_print_number(v, v->lifetimes - lt);
    }
}

// Parses and prints for<'a, 'b>. *bound is the number of lifetimes; the caller subtracts it
// afterwards.
static bool open_binder(struct v0 *v, uint64_t *bound)
{
    if (!v0_opt_integer_62(v, 'G', bound))
        return false;
    if (!v->out) {
        *bound = 0;
        return true;
    }
    if (*bound == 0)
        return true;
    v0_print(v, "for<");
    for (uint64_t i = 0; i < *bound && !v0_full(v); i++) {
        if (i)
            v0_print(v, ", ");
        v->lifetimes++;
        print_lifetime(v, 1);
    }
    v0_print(v, "> ");
    return true;
}

size_t v0_print_list(struct v0 *v, void (*item)(struct v0 *), const char *separator)
{
    size_t i = 0;
    for (; v->at.error == FINE && !v0_full(v) && !v0_eat(v, 'E'); i++) {
        if (i)
            v0_print(v, separator);
        item(v);
    }
    return i;
}

static void print_generic_arg(struct v0 *v)
{
    uint64_t lt;
    if (v0_eat(v, 'L')) {
        if (v0_integer_62(v, &lt))
            print_lifetime(v, lt);
    } else if (v0_eat(v, 'K')) {
        v0_print_const(v, false);
    } else {
        v0_print_type(v);
    }
}

static void print_nested(struct v0 *v, bool in_value)
{
    char ns;
    if (!v0_next(v, &ns))
        return;
    bool special = ns >= 'A' && ns <= 'Z';
    if (!special && !(ns >= 'a' && ns <= 'z')) {
        v0_fail(v, INVALID);
        return;
    }
    v0_print_path(v, in_value);
    if (v->at.error != FINE)
        v0_print(v, "::");
    uint64_t dis;
    struct ident name;
    if (!v0_opt_integer_62(v, 's', &dis) || !v0_ident(v, &name))
        return;
    bool named = name.n_ascii || name.n_punycode;
    if (!special) {
        if (named) {
            v0_print(v, "::");
            v0_print_ident(v, &name);
        }
        return;
    }
    v0_print(v, "::{");
    if (ns == 'C')
        v0_print(v, "closure");
    else if (ns == 'S')
        v0_print(v, "shim");
    else if (v->out)
        text_char(v->out, (unsigned char)ns);
    if (named) {
        v0_print(v, ":");
        v0_print_ident(v, &name);
    }
    v0_print(v, "#");
    v0_print_number(v, dis);
    v0_print(v, "}");
}

void v0_print_path(struct v0 *v, bool in_value)
{
    char tag;
    struct place back;
    if (v0_full(v) || !v0_push_depth(v) || !v0_next(v, &tag))
        return;
    switch (tag) {
    case 'C': {
        uint64_t dis;
        struct ident name;
        if (!v0_opt_integer_62(v, 's', &dis) || !v0_ident(v, &name))
            return;
        v0_print_ident(v, &name);
        break;
    }
    case 'N':
        print_nested(v, in_value);
        break;
    case 'M':
    case 'X':
    case 'Y':
        if (tag != 'Y') {
            // The path of the impl is not printed.
            uint64_t dis;
            if (!v0_opt_integer_62(v, 's', &dis))
                return;
            struct text *out = v->out;
            v->out = NULL;
            v0_print_path(v, false);
            v->out = out;
        }
        v0_print(v, "<");
        v0_print_type(v);
        if (tag != 'M') {
            v0_print(v, " as ");
            v0_print_path(v, false);
        }
        v0_print(v, ">");
        break;
    case 'I':
        v0_print_path(v, in_value);
        if (in_value)
            v0_print(v, "::");
        v0_print(v, "<");
        v0_print_list(v, print_generic_arg, ", ");
        v0_print(v, ">");
        break;
    case 'B':
        if (v0_backref(v, &back)) {
            v0_print_path(v, in_value);
            v->at = back;
        }
        break;
    default:
        v0_fail(v, INVALID);
    }
    v0_pop_depth(v);
}

static const char *basic_type(char tag)
{
    static const char *const names[] = {
        ['a' - 'a'] = "i8",    ['b' - 'a'] = "bool", ['c' - 'a'] = "char", ['d' - 'a'] = "f64",
        ['e' - 'a'] = "str",   ['f' - 'a'] = "f32",  ['h' - 'a'] = "u8",   ['i' - 'a'] = "isize",
        ['j' - 'a'] = "usize", ['l' - 'a'] = "i32",  ['m' - 'a'] = "u32",  ['n' - 'a'] = "i128",
        ['o' - 'a'] = "u128",  ['p' - 'a'] = "_",    ['s' - 'a'] = "i16",  ['t' - 'a'] = "u16",
        ['u' - 'a'] = "()",    ['v' - 'a'] = "...",  ['x' - 'a'] = "i64",  ['y' - 'a'] = "u64",
        ['z' - 'a'] = "!",
    };
    return tag >= 'a' && tag <= 'z' ? names[tag - 'a'] : NULL;
}

static void print_fn(struct v0 *v)
{
    uint64_t bound;
    if (!open_binder(v, &bound))
        return;
    bool is_unsafe = v0_eat(v, 'U');
    struct ident abi = {0};
    if (v0_eat(v, 'K')) {
        if (v0_eat(v, 'C')) {
            abi = (struct ident){.ascii = "C", .n_ascii = 1};
        } else {
            if (!v0_ident(v, &abi))
                goto out;
            if (!abi.n_ascii || abi.n_punycode) {
                v0_fail(v, INVALID);
                goto out;
            }
        }
    }
    if (is_unsafe)
        v0_print(v, "unsafe ");
    if (abi.n_ascii) {
        v0_print(v, "extern \"");
        for (size_t i = 0; v->out && i < abi.n_ascii; i++)
            text_char(v->out, abi.ascii[i] == '_' ? '-' : (unsigned char)abi.ascii[i]);
        v0_print(v, "\" ");
    }
    v0_print(v, "fn(");
    v0_print_list(v, v0_print_type, ", ");
    v0_print(v, ")");
    if (!v0_eat(v, 'u')) {
        v0_print(v, " -> ");
        v0_print_type(v);
    }
out:
    v->lifetimes -= bound;
}

// Leaves the generic arguments of a trait open, so that associated types go into the same <>.
static bool print_path_open(struct v0 *v)
{
    struct place back;
    bool open = false;
    if (v0_full(v))
        return false;
    if (v0_eat(v, 'B')) {
        if (v0_backref(v, &back)) {
            open = print_path_open(v);
            v->at = back;
        }
        return open;
    }
    open = v0_eat(v, 'I');
    v0_print_path(v, false);
    if (open) {
        v0_print(v, "<");
        v0_print_list(v, print_generic_arg, ", ");
    }
    return open;
}

static void print_dyn_trait(struct v0 *v)
{
    bool open = print_path_open(v);
    while (v0_eat(v, 'p')) {
        v0_print(v, open ? ", " : "<");
        open = true;
        struct ident name;
        if (!v0_ident(v, &name))
            return;
        v0_print_ident(v, &name);
        v0_print(v, " = ");
        if (v0_eat(v, 'K'))
            v0_print_const(v, false);
        else
            v0_print_type(v);
    }
    if (open)
        v0_print(v, ">");
}

static void print_pattern(struct v0 *v)
{
    char tag;
    if (v0_full(v) || !v0_next(v, &tag))
        return;
    switch (tag) {
    case 'R':
        v0_print_const(v, false);
        v0_print(v, "..=");
        v0_print_const(v, false);
        break;
    case 'O':
        if (!v0_push_depth(v))
            return;
        print_pattern(v);
        while (!v0_eat(v, 'E')) {
            if (v->at.error != FINE || v0_full(v)) {
                v0_print(v, "{invalid syntax}");
                v->at.error = INVALID;
                return;
            }
            v0_print(v, " | ");
            print_pattern(v);
        }
        v0_pop_depth(v);
        break;
    case 'N':
        v0_print(v, "!null");
        break;
    default:
        v0_fail(v, INVALID);
    }
}

static void print_dyn(struct v0 *v)
{
    uint64_t bound, lt;
    v0_print(v, "dyn ");
    if (open_binder(v, &bound)) {
        v0_print_list(v, print_dyn_trait, " + ");
        v->lifetimes -= bound;
    }
    if (!v0_eat(v, 'L')) {
        // Printed even after an earlier error.
        v0_print(v, "{invalid syntax}");
        v->at.error = INVALID;
        return;
    }
    if (v0_integer_62(v, &lt) && lt != 0) {
        v0_print(v, " + ");
        print_lifetime(v, lt);
    }
}

void v0_print_type(struct v0 *v)
{
    char tag;
    struct place back;
    if (v0_full(v))
        return;
    if (v0_eat(v, 'w'))
        v0_print(v, "#[splat] ");
    if (!v0_next(v, &tag))
        return;
    const char *basic = basic_type(tag);
    if (basic) {
        v0_print(v, basic);
        return;
    }
    if (!v0_push_depth(v))
        return;
    switch (tag) {
    case 'R':
    case 'Q':
        v0_print(v, "&");
        if (v0_eat(v, 'L')) {
            uint64_t lt;
            if (!v0_integer_62(v, &lt))
                return;
            if (lt != 0) {
                print_lifetime(v, lt);
                v0_print(v, " ");
            }
        }
        if (tag == 'Q')
            v0_print(v, "mut ");
        v0_print_type(v);
        break;
    case 'P':
    case 'O':
        v0_print(v, tag == 'P' ? "*const " : "*mut ");
        v0_print_type(v);
        break;
    case 'A':
    case 'S':
        v0_print(v, "[");
        v0_print_type(v);
        if (tag == 'A') {
            v0_print(v, "; ");
            v0_print_const(v, true);
        }
        v0_print(v, "]");
        break;
    case 'T':
        v0_print(v, "(");
        v0_print(v, v0_print_list(v, v0_print_type, ", ") == 1 ? ",)" : ")");
        break;
    case 'F':
        print_fn(v);
        break;
    case 'D':
        print_dyn(v);
        break;
    case 'B':
        if (v0_backref(v, &back)) {
            v0_print_type(v);
            v->at = back;
        }
        break;
    case 'W':
        v0_print_type(v);
        v0_print(v, " is ");
        print_pattern(v);
        break;
    default:
        v->at.next--;
        v0_print_path(v, false);
    }
    v0_pop_depth(v);
}

bool demangle_v0_check(const char *sym, size_t n, size_t *used)
{
    struct v0 v = {.sym = sym, .n = n};
    v0_print_path(&v, false);
    // The crate in which a generic function was instantiated.
    if (v.at.error == FINE && v.at.next < n && sym[v.at.next] >= 'A' && sym[v.at.next] <= 'Z')
        v0_print_path(&v, false);
    *used = v.at.next;
    return v.at.error == FINE;
}

void demangle_v0_print(const char *sym, size_t n, struct text *out)
{
    struct v0 v = {.sym = sym, .n = n, .out = out};
    v0_print_path(&v, true);
}
