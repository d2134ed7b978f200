/* port.c -- ports of the loopback, for servers that cannot choose one themselves.
 *
 *   port free                  prints one that nobody listens on
 *   port wait PORT SECONDS     returns when somebody does; exit code 1 when nobody did in time
 */
#include "peer.h"

static const double LOOK_S = 0.02;

static void print_free(void) {
    struct sockaddr_in a = peer_address(0);
    socklen_t size = sizeof a;
    int s = socket(AF_INET, SOCK_STREAM, 0);
    if (s < 0 || bind(s, (struct sockaddr *)&a, size) != 0 ||
        getsockname(s, (struct sockaddr *)&a, &size) != 0) {
        peer_fail("port");
    }
    printf("%d\n", ntohs(a.sin_port));
    close(s);
}

static int is_open(int port) {
    struct sockaddr_in a = peer_address(port);
    int s = socket(AF_INET, SOCK_STREAM, 0);
    int open = s >= 0 && connect(s, (struct sockaddr *)&a, sizeof a) == 0;
    close(s);
    return open;
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "free") == 0) {
        print_free();
        return 0;
    }
    if (argc != 4 || strcmp(argv[1], "wait") != 0) {
        fprintf(stderr, "port free | port wait PORT SECONDS\n");
        return 2;
    }
    double finish = boot_time() + atof(argv[3]);
    while (!is_open(atoi(argv[2]))) {
        if (boot_time() > finish) {
            return 1;
        }
        pause_s(LOOK_S);
    }
    return 0;
}
