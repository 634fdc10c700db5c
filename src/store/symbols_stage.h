// A profile's new symbols are collected in a stage first, whose ids continue those of its base.
// They are appended to the base only when all of them are known to fit.
#pragma once

#include "store/symbols.h"

static inline uint64_t hash_symbol_function(const struct symbols_function *f)
{
    return hash_mix(hash_mix(((uint64_t)f->name << 32) | f->system_name, f->filename),
                    (uint64_t)f->start_line);
}

static inline uint64_t hash_mapping(const struct symbols_mapping *m)
{
    uint64_t h = hash_mix(((uint64_t)m->file << 32) | m->build_id, m->size);
    return hash_mix(hash_mix(h, m->flags & SYMBOLS_FIXED ? m->start : 0) + m->flags, m->offset);
}

static inline uint64_t hash_location(const struct symbols_location *l,
                                     const struct symbols_line *lines)
{
    uint64_t h = hash_mix(l->address, ((uint64_t)l->mapping << 1) | l->is_folded);
    for (uint32_t i = 0; i < l->n_lines; i++)
        h = hash_mix(hash_mix(h, (uint64_t)lines[i].line) + lines[i].function,
                     (uint64_t)lines[i].column);
    return h;
}

static inline uint32_t node_slot(const struct symbols *s, uint32_t parent, uint32_t location)
{
    return (uint32_t)(hash_mix(parent, location) >> 32) & s->mask;
}

// Builds the hash tables; symbols that were read from disk have none.
void symbols_index(struct symbols *s);

// Return the id of an item in the base or in the stage; a new one is added to the stage. hash: as
// above, or of the bytes of a string.
uint32_t stage_string(struct symbols *stage, struct str text, uint64_t hash);
uint32_t stage_function(struct symbols *stage, const struct symbols_function *f, uint64_t hash);
uint32_t stage_mapping(struct symbols *stage, const struct symbols_mapping *m);
uint32_t stage_location(struct symbols *stage, const struct symbols_location *l,
                        const struct symbols_line *lines, uint64_t hash);
uint32_t stage_node(struct symbols *stage, uint32_t parent, uint32_t location);
// Whether base and stage together exceed the base's limit.
bool stage_is_over(const struct symbols *stage);
// Appends the stage to its base. All ids stay the same.
void stage_append(struct symbols *s, const struct symbols *stage);
