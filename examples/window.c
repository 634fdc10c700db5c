/* Profiles this process for ten seconds and writes window.pb.gz.
 *
 *     cc examples/window.c -lkiln -o window && ./window && kiln top window.pb.gz
 */
#include <kiln/kiln.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static unsigned long checksum(unsigned long seed)
{
    unsigned long i;
    for (i = 0; i < 100000; i++)
        seed = seed * 6364136223846793005UL + i;
    return seed;
}

static unsigned long handle_request(const char *vehicle, unsigned long seed)
{
    kiln_labels before = kiln_labels_push("vehicle", vehicle);
    unsigned long result = checksum(seed);
    kiln_labels_pop(before);
    return result;
}

int main(int argc, char **argv)
{
    double seconds = argc > 1 ? strtod(argv[1], NULL) : 10;
    struct kiln_error error;
    unsigned long sum = 1, n = 0;
    time_t begin;
    int window, fd, failed;

    if (kiln_start(NULL, &error) || (window = kiln_window_begin(&error)) < 0) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    begin = time(NULL);
    while (difftime(time(NULL), begin) < seconds)
        sum = handle_request(n++ % 4 ? "car" : "bike", sum);

    fd = open("window.pb.gz", O_WRONLY | O_CREAT | O_TRUNC, 0666);
    failed = kiln_window_write_as(window, fd, NULL, &error);
    if (failed)
        fprintf(stderr, "%s\n", error.message);
    close(fd);
    kiln_stop();
    return failed ? 1 : sum == 0;
}
