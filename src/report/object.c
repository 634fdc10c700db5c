#include "report/object.h"

#include <errno.h>
#include <sys/stat.h>

struct report_objects {
    struct object **items; // one per mapping; NULL: not opened yet
    size_t n;
};

static void open_object_file(struct report *r, struct object *object)
{
    struct str name = model_str(r->p, object->name);
    const char *path = arena_copy(r->arena, name.p, name.n);
    struct stat st;
    if (stat(path, &st)) {
        err_set(&object->why, "stat %s: %s", path,
                errno == ENOENT ? "no such file or directory" : strerror(errno));
        return;
    }
    struct symbol_options options = r->o.binaries;
    options.demangle = DEMANGLE_NONE;
    object->file = symbol_open(path, &options, &object->why);
}

struct object *object_open(struct report *r, uint32_t mapping)
{
    if (!r->objects) {
        struct report_objects *objects = arena_alloc(r->arena, sizeof *objects);
        objects->n = r->p->n_mappings;
        objects->items = arena_array(r->arena, objects->n + 1, sizeof *objects->items);
        r->objects = objects;
    }
    struct object **object = &r->objects->items[mapping];
    if (*object)
        return *object;
    const struct model_mapping *m = &r->p->mappings[mapping];
    *object = arena_alloc(r->arena, sizeof **object);
    **object = (struct object){.name = m->file,
                               .start = m->start,
                               .limit = m->limit,
                               .offset = m->offset,
                               .starts_at_text = m->starts_at_text};
    open_object_file(r, *object);
    return *object;
}

int object_place(struct object *object, uint64_t addr, struct err *e)
{
    if (object->is_placed)
        return 0;
    uint64_t vaddr;
    struct elf_mapping place = {
        .start = object->start, .limit = object->limit, .offset = object->offset};
    struct elf *elf = symbol_elf(object->file);
    elf_mapping_kernel(elf, &place, object->starts_at_text ? "_text" : "_stext");
    if (elf_vaddr(elf, &place, addr, &vaddr, e))
        return -1;
    object->base = addr - vaddr;
    object->is_placed = true;
    return 0;
}

void objects_close(struct report *r)
{
    for (size_t i = 0; r->objects && i < r->objects->n; i++)
        if (r->objects->items[i])
            symbol_free(r->objects->items[i]->file);
    r->objects = NULL;
}
