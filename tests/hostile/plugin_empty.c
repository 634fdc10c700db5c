// A library with nothing to do when it is loaded: its constructors take no lock and start nothing.
int plugin_value = 1;
