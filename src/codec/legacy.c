#include "codec/legacy.h"

#include <math.h>

#include "model/builder.h"
#include "codec/codec.h"

void legacy_begin(struct legacy *l, struct str period_type, struct str period_unit, int64_t period)
{
    model_build(&l->b, l->arena);
    l->b.p->period_type = (struct model_value_type){
        model_build_string(&l->b, period_type),
        model_build_string(&l->b, period_unit),
    };
    l->b.p->period = period;
    l->n_frames = 0;
}

void legacy_add_frame(struct legacy *l, uint64_t address)
{
    l->frames = arena_push(l->arena, l->frames, l->n_frames, &l->cap_frames, sizeof *l->frames);
    l->frames[l->n_frames++] = model_build_location(&l->b, MODEL_NONE, address, NULL, 0);
}

bool legacy_add_addresses(struct legacy *l, struct str text, uint64_t adjust, size_t line)
{
    uint64_t address;
    int found;
    while ((found = scan_address(&text, &address)) > 0)
        legacy_add_frame(l, address - adjust);
    if (found < 0)
        err_set(l->e, "malformed sample: line %zu: an address has more than 64 bits", line);
    return found == 0;
}

void legacy_add_sample(struct legacy *l, const int64_t *values)
{
    model_build_sample(&l->b, l->frames, l->n_frames, values);
    l->n_frames = 0;
}

// Removes the second frame of each sample for which drop returns true.
static void drop_second(struct legacy *l,
                        bool (*drop)(const struct model_profile *p, const uint32_t *stack,
                                     uint32_t location),
                        uint32_t location)
{
    struct model_profile *p = l->b.p;
    for (size_t i = 0; i < p->n_samples; i++) {
        uint32_t *stack = p->stacks[i];
        if (p->stack_len[i] > 1 && drop(p, stack, location))
            memmove(stack + 1, stack + 2, (--p->stack_len[i] - 1) * sizeof *stack);
    }
}

static bool is_location(const struct model_profile *p, const uint32_t *stack, uint32_t location)
{
    (void)p;
    return stack[1] == location;
}

static bool is_repeated(const struct model_profile *p, const uint32_t *stack, uint32_t location)
{
    (void)location;
    return p->locations[stack[0]].address == p->locations[stack[1]].address + 1;
}

void legacy_drop_second(struct legacy *l, uint32_t location)
{
    drop_second(l, is_location, location);
}

void legacy_drop_repeated_leaf(struct legacy *l)
{
    drop_second(l, is_repeated, 0);
}

bool legacy_is_map_start(struct str line)
{
    return scan_contains(line, STR("--- Memory map: ---")) ||
           scan_contains(line, STR("MAPPED_LIBRARIES:"));
}

void legacy_read_map(struct legacy *l, struct scan_lines *lines)
{
    while (!legacy_is_map_start(lines->line) && scan_next(lines))
        ;
    maps_read(&l->b, lines);
    maps_massage(&l->b);
    maps_renumber(&l->b);
    maps_assign(&l->b);
}

// e^x, equal to the last bit to Go's on processors with fused multiply-add, so that scaled values
// equal pprof's. Reduces x to r = (x - k ln 2) / 16, computes e^r - 1 as a Taylor polynomial of
// degree 8, and squares four times: e^(2r) - 1 from e^r - 1.
static double exp_like_go(double x)
{
    static const double inverse_factorials[] = {
        2.4801587301587301587e-5,
        1.9841269841269841270e-4,
        1.3888888888888888889e-3,
        8.3333333333333333333e-3,
        4.1666666666666666667e-2,
        1.6666666666666666667e-1,
        0.5,
        1.0,
    };
    const double log2_e = 1.4426950408889634073599246810018920;
    const double ln2_high = 0.69314718055966295651160180568695068359375;
    const double ln2_low = 0.28235290563031577122588448175013436025525412068e-12;
    if (isnan(x) || x > 7.09782712893384e+02)
        return isnan(x) ? x : INFINITY;
    if (x < -708) // the caller computes 1 - e^x; a smaller e^x cannot change that
        return 0;
    double k = nearbyint(x * log2_e);
    double r = fma(-k, ln2_low, fma(-k, ln2_high, x)) * 0.0625;
    double sum = inverse_factorials[0];
    for (size_t i = 1; i < sizeof inverse_factorials / sizeof *inverse_factorials; i++)
        sum = fma(sum, r, inverse_factorials[i]);
    r *= sum;
    for (int i = 0; i < 3; i++)
        r *= r + 2;
    return ldexp(fma(r, r + 2, 1), (int)k);
}

void legacy_unsample(int64_t *count, int64_t *size, int64_t rate)
{
    if (*count == 0 || *size == 0) {
        *count = *size = 0;
        return;
    }
    // Every block was sampled, or the rate is unknown.
    if (rate <= 1)
        return;
    double average = (double)*size / (double)*count;
    double scale = 1 / (1 - exp_like_go(-average / (double)rate));
    *count = scan_truncate((double)*count * scale);
    *size = scan_truncate((double)*size * scale);
}

// Frames of the measurement itself, which reports omit. Each is a regular expression that must
// match a whole name.
static const char allocation_frames[] =
    "calloc|cfree|malloc|free|memalign|do_memalign|(__)?posix_memalign|pvalloc|valloc|realloc"
    "|tcmalloc::.*|tc_calloc|tc_cfree|tc_malloc|tc_free|tc_memalign|tc_posix_memalign|tc_pvalloc"
    "|tc_valloc|tc_realloc|tc_new|tc_delete|tc_newarray|tc_deletearray|tc_new_nothrow"
    "|tc_newarray_nothrow"
    "|malloc_zone_malloc|malloc_zone_calloc|malloc_zone_valloc|malloc_zone_realloc"
    "|malloc_zone_memalign|malloc_zone_free"
    "|runtime\\..*"
    "|BaseArena::.*|(::)?do_malloc_no_errno|(::)?do_malloc_pages|(::)?do_malloc"
    "|DoSampledAllocation|MallocedMemBlock::MallocedMemBlock|_M_allocate|__builtin_(vec_)?delete"
    "|__builtin_(vec_)?new|__gnu_cxx::new_allocator::allocate|__libc_malloc"
    "|__malloc_alloc_template::allocate|allocate|cpp_alloc|operator new(\\[\\])?"
    "|simple_alloc::allocate";
static const char allocation_frames_kept[] =
    "runtime\\.panic|runtime\\.reflectcall|runtime\\.call[0-9]*";
static const char lock_frames[] =
    "RecordLockProfileData|(base::)?RecordLockProfileData.*|(base::)?SubmitMutexProfileData.*"
    "|(base::)?SubmitSpinLockProfileData.*|(base::Mutex::)?AwaitCommon.*|(base::Mutex::)?Unlock.*"
    "|(base::Mutex::)?UnlockSlow.*|(base::Mutex::)?ReaderUnlock.*|(base::MutexLock::)?~MutexLock.*"
    "|(Mutex::)?AwaitCommon.*|(Mutex::)?Unlock.*|(Mutex::)?UnlockSlow.*|(Mutex::)?ReaderUnlock.*"
    "|(MutexLock::)?~MutexLock.*|(SpinLock::)?Unlock.*|(SpinLock::)?SlowUnlock.*"
    "|(SpinLockHolder::)?~SpinLockHolder.*";
static const char profiler_frames[] = "ProfileData::Add|ProfileData::prof_handler"
                                      "|CpuProfiler::prof_handler|__pthread_sighandler|__restore";

static bool has_types(const struct model_profile *p, const char *const *types, uint32_t n)
{
    if (p->n_types != n)
        return false;
    for (uint32_t i = 0; i < n; i++)
        if (!str_eq(model_str(p, p->types[i].type), str_from(types[i])))
            return false;
    return true;
}

static void add_frame_rules(struct legacy *l)
{
    static const char *const heap[][2] = {
        {"objects", "space"},
        {"inuse_objects", "inuse_space"},
    };
    static const char *const heap_and_allocations[] = {"alloc_objects", "alloc_space",
                                                       "inuse_objects", "inuse_space"};
    static const char *const contention[] = {"contentions", "delay"};
    struct model_profile *p = l->b.p;
    const char *drop = profiler_frames, *keep = "";
    if (has_types(p, heap[0], 2) || has_types(p, heap[1], 2) ||
        has_types(p, heap_and_allocations, 4)) {
        drop = allocation_frames;
        keep = allocation_frames_kept;
    } else if (has_types(p, contention, 2)) {
        drop = lock_frames;
    }
    p->drop_frames = model_build_string(&l->b, str_from(drop));
    p->keep_frames = model_build_string(&l->b, str_from(keep));
}

enum legacy_result legacy_read(struct arena *arena, const uint8_t *data, size_t n,
                               struct model_profile **profile, struct err *e)
{
    static enum legacy_result (*const parsers[])(struct legacy *) = {
        legacy_read_cpu,    legacy_read_heap,       legacy_read_count,
        legacy_read_thread, legacy_read_contention, legacy_read_java,
    };
    struct legacy l = {
        .arena = arena,
        .input = n ? (struct str){(const char *)data, n} : STR(""),
        .e = e,
    };
    for (size_t i = 0; i < sizeof parsers / sizeof *parsers; i++) {
        enum legacy_result result = parsers[i](&l);
        if (result == LEGACY_BAD)
            return LEGACY_BAD;
        if (result == LEGACY_OK) {
            add_frame_rules(&l);
            *profile = l.b.p;
            return LEGACY_OK;
        }
    }
    err_set(e, "unrecognized profile format");
    return LEGACY_NOT;
}

struct model_profile *codec_read_legacy(struct arena *arena, const uint8_t *data, size_t n,
                                        struct err *e)
{
    struct arena_trap trap;
    if (ARENA_TRY(arena, trap)) {
        arena_caught(arena, e);
        return NULL;
    }
    struct model_profile *profile = NULL;
    enum legacy_result result = legacy_read(arena, data, n, &profile, e);
    arena_try_end(arena);
    return result == LEGACY_OK ? profile : NULL;
}
