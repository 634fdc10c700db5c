#include "capture/signal_action.h"

#include <stdatomic.h>

enum { KEPT = 256, FREE = 0, BEING_WRITTEN, COMPLETE };

static struct {
    _Atomic uint32_t state;
    struct signal_action action;
} kept[KEPT + 1]; // from 1

static bool is_kept(uint32_t number, const struct signal_action *action)
{
    const struct signal_action *had = &kept[number].action;
    return atomic_load(&kept[number].state) == COMPLETE && had->function == action->function &&
           had->flags == action->flags && had->mask == action->mask;
}

uint32_t signal_action_keep(const struct signal_action *action, bool must)
{
    for (uint32_t i = 1; i < KEPT; i++) {
        uint32_t state = FREE;
        if (is_kept(i, action))
            return i;
        if (!atomic_compare_exchange_strong(&kept[i].state, &state, BEING_WRITTEN))
            continue;
        kept[i].action = *action;
        atomic_store(&kept[i].state, COMPLETE);
        return i;
    }
    if (!must)
        return 0;
    kept[KEPT].action = *action;
    return KEPT;
}

const struct signal_action *signal_action_get(uint32_t number)
{
    return &kept[number].action;
}
