// Addresses to listen on, and sockets for them.
//
//   6060, :6060, localhost:6060   this machine only
//   127.0.0.1:6060, [::1]:6060    an address of this machine
//   0.0.0.0:6060, [::]:6060, *:6060   all interfaces
//   name:6060                     the address of the name
//   unix:/path                    a unix socket, only for the process's user
//
// Port 0 lets the kernel choose.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"

struct listener {
    int fd;
    bool loopback;     // reachable only from this machine, by TCP
    char host[256];    // as requested; "" for a unix socket
    char address[300]; // http://host:port or unix:/path, with the actual port
    char path[108];    // of a unix socket
    dev_t device;      // of path, so that only this process's socket is removed
    ino_t inode;
};

// Opens a nonblocking, close-on-exec socket. Returns -1 with e filled on failure.
int listener_open(struct listener *l, const char *address, struct err *e);
// Closes the socket and removes the unix socket's file.
void listener_close(struct listener *l);
// Removes the unix socket's file, unless another socket has replaced it.
void listener_unlink(const struct listener *l);
