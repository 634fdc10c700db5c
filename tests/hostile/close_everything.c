// A daemon closes every descriptor that it does not know, then opens its own: listening sockets
// and pipes. The numbers that libkiln's threads had are the program's now. Clients must reach the
// program, and nobody else may read, write or close what is its own.
#include "hostile.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

enum { LISTENERS = 4, PIPES = 4 };

static int listeners[LISTENERS];
static struct sockaddr_un addresses[LISTENERS];

static socklen_t length_of(const struct sockaddr_un *address)
{
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(address->sun_path + 1));
}

static void *serve(void *context)
{
    int listener = *(int *)context;
    for (;;) {
        int client = accept(listener, NULL, NULL);
        if (client < 0)
            return NULL;
        if (write(client, "program\n", 8) != 8)
            say("write failed\n");
        close(client);
    }
}

static void open_listener(int i)
{
    // In the abstract namespace: no file to clean up.
    addresses[i].sun_family = AF_UNIX;
    snprintf(addresses[i].sun_path + 1, sizeof addresses[i].sun_path - 1, "hostile-%d-%d",
             (int)getpid(), i);
    listeners[i] = socket(AF_UNIX, SOCK_STREAM, 0);
    require(listeners[i] >= 0, "socket");
    require(bind(listeners[i], (void *)&addresses[i], length_of(&addresses[i])) == 0 &&
                listen(listeners[i], 10) == 0,
            "listen");
}

static bool answers(int i)
{
    char text[64] = "";
    struct timeval patience = {5, 0};
    int s = socket(AF_UNIX, SOCK_STREAM, 0);
    setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    bool good = connect(s, (void *)&addresses[i], length_of(&addresses[i])) == 0 &&
                read(s, text, sizeof text - 1) == 8 && is(text, "program\n");
    close(s);
    return good;
}

int main(int argc, char **argv)
{
    hostile_begin();
    require(argc == 2, "an argument");
    pause_ms(strtol(argv[1], NULL, 10));
    close_range(3, ~0U, 0);
    int pipes[PIPES][2];
    for (int i = 0; i < PIPES; i++)
        require(pipe(pipes[i]) == 0, "pipe");
    for (int i = 0; i < LISTENERS; i++) {
        pthread_t thread;
        open_listener(i);
        require(pthread_create(&thread, NULL, serve, &listeners[i]) == 0, "pthread_create");
    }
    bool good = true;
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < LISTENERS; i++)
            good = answers(i) && good;
        pause_ms(5);
    }
    burn(0.1);
    fact("every client got the program's answer", good);
    bool open = true, empty = true;
    for (int i = 0; i < PIPES; i++) {
        char byte;
        open = fcntl(pipes[i][0], F_GETFD) >= 0 && fcntl(pipes[i][1], F_GETFD) >= 0 && open;
        fcntl(pipes[i][0], F_SETFL, O_NONBLOCK);
        empty = read(pipes[i][0], &byte, 1) == -1 && errno == EAGAIN && empty;
    }
    fact("the pipes are still open", open);
    fact("nobody wrote to them", empty);
    return 0;
}
