#include "capture/signal_action.h"

#include <stdatomic.h>

enum { MAX_ACTIONS = 256, FREE = 0, BEING_WRITTEN, COMPLETE };

static struct {
    _Atomic uint32_t state;
    struct signal_action action;
} stored_actions[MAX_ACTIONS + 1]; // number 0 stays empty

static bool is_stored_action(uint32_t number, const struct signal_action *action)
{
    const struct signal_action *stored = &stored_actions[number].action;
    return atomic_load(&stored_actions[number].state) == COMPLETE &&
           stored->function == action->function && stored->flags == action->flags &&
           stored->mask == action->mask;
}

uint32_t signal_action_keep(const struct signal_action *action, bool must)
{
    for (uint32_t i = 1; i < MAX_ACTIONS; i++) {
        uint32_t state = FREE;
        if (is_stored_action(i, action))
            return i;
        if (!atomic_compare_exchange_strong(&stored_actions[i].state, &state, BEING_WRITTEN))
            continue;
        stored_actions[i].action = *action;
        atomic_store(&stored_actions[i].state, COMPLETE);
        return i;
    }
    if (!must)
        return 0;
    stored_actions[MAX_ACTIONS].action = *action;
    return MAX_ACTIONS;
}

const struct signal_action *signal_action_get(uint32_t number)
{
    return &stored_actions[number].action;
}
