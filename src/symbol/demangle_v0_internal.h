// Shared by the demangle_v0*.c files: the parser state and its primitives.
#pragma once

#include "symbol/demangle_v0.h"

enum { V0_DEPTH_MAX = 500 };
enum v0_error { FINE, INVALID, TOO_DEEP };

struct place {
    size_t next;
    unsigned depth;
    int error;
};

struct v0 {
    const char *sym;
    size_t n;
    struct place at;
    struct text *out; // NULL: only check the syntax
    uint64_t lifetimes;
};

struct ident {
    const char *ascii, *punycode;
    size_t n_ascii, n_punycode;
};

// The print functions write nothing if v->out is NULL.
void v0_print(struct v0 *v, const char *s);
void v0_print_number(struct v0 *v, uint64_t x);
void v0_print_ident(struct v0 *v, const struct ident *id);

// Records the error and prints it, once. Returns false.
bool v0_fail(struct v0 *v, int error);
// Whether parsing has failed. Then prints a question mark for the missing item.
bool v0_gone(struct v0 *v);
bool v0_full(const struct v0 *v);
int v0_peek(const struct v0 *v);
bool v0_eat(struct v0 *v, char c);

// Each parses one item. If it is missing, they print the error and return false.
bool v0_next(struct v0 *v, char *c);
bool v0_push_depth(struct v0 *v);
void v0_pop_depth(struct v0 *v);
bool v0_integer_62(struct v0 *v, uint64_t *x);
bool v0_opt_integer_62(struct v0 *v, char tag, uint64_t *x);
bool v0_ident(struct v0 *v, struct ident *id);
// Follows a back reference. If it returns true, the caller must restore v->at from *back
// afterwards. If false, there is nothing to print.
bool v0_backref(struct v0 *v, struct place *back);

// Parses and prints items up to an E. Returns their number.
size_t v0_print_list(struct v0 *v, void (*item)(struct v0 *), const char *separator);
void v0_print_path(struct v0 *v, bool in_value);
void v0_print_type(struct v0 *v);
void v0_print_const(struct v0 *v, bool in_value);
