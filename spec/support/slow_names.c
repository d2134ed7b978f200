/* slow_names.c -- preloaded: a name server that does not answer for half a minute. */
#include <netdb.h>
#include <unistd.h>

enum { HANGS_S = 30 };

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
                struct addrinfo **out) {
    (void)node;
    (void)service;
    (void)hints;
    (void)out;
    sleep(HANGS_S);
    return EAI_AGAIN;
}
