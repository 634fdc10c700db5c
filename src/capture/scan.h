// Between the files of the room: what /proc tells of the threads.
#pragma once

// Arms threads that came, disarms those that went, and credits those that block the signal.
void scan_threads(void);
// Where threads have their stacks: reads there need no check.
void scan_stacks(void);
