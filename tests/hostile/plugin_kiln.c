// A plugin that contains libkiln.a and profiles the process it is loaded into.
#include <kiln/kiln.h>

int plugin_start(void)
{
    struct kiln_options options = {.size = sizeof options, .frequency = 1000};
    return kiln_start(&options, NULL);
}

void plugin_stop(void)
{
    kiln_stop();
}

// Touches what the library keeps for each thread.
void plugin_label(void)
{
    kiln_labels had = kiln_labels_push("key", "value");
    kiln_labels_pop(had);
}
