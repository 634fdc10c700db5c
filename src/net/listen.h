// Addresses to listen on, and the sockets for them.
//
//   6060, :6060, localhost:6060   this machine only
//   127.0.0.1:6060, [::1]:6060    an address of this machine
//   0.0.0.0:6060, [::]:6060, *:6060   from everywhere
//   name:6060                     whatever the name resolves to
//   unix:/path                    a socket in the file system, for the process's user only
//
// Port 0 lets the kernel choose.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"

struct listener {
    int fd;
    bool loopback;     // only this machine can reach it, by TCP
    char host[256];    // that was asked for; "" for a unix socket
    char address[300]; // http://host:port or unix:/path, with the port that was chosen
    char path[108];    // of a unix socket
    dev_t device;      // of path, so that only our own socket is removed
    ino_t inode;
};

// The sockets are non-blocking and closed by exec. -1 with e filled.
int listener_open(struct listener *l, const char *address, struct err *e);
// Also removes the unix socket's file.
void listener_close(struct listener *l);
// Only that, unless another one has taken its place.
void listener_unlink(const struct listener *l);
