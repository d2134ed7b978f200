/* http_socket.h -- the descriptors that libcurl wants watched.
 *
 * libcurl forgets the descriptor of a connection at the end of each request and names it again at the
 * next. Those of its own connections (`kept`) stay watched in between; only when one becomes readable
 * while nothing is asked of it, because the server closed it, does the watching stop. Descriptors that
 * libcurl opened behind our back (its name resolver's) are closed behind our back, too, and are let go at
 * once.
 */
#ifndef SYNOD_STORE_HTTP_SOCKET_H
#define SYNOD_STORE_HTTP_SOCKET_H

#include "world/world.h"

struct http_socket;

struct http_sockets {
    struct world *world;
    void (*ready)(struct http_sockets *all, int fd, int events); /* WATCH_READ, WATCH_WRITE */
    struct http_socket **by_fd;
    int room;
};

void sockets_init(struct http_sockets *all, struct world *w,
                  void (*ready)(struct http_sockets *all, int fd, int events));
void sockets_release(struct http_sockets *all);
void sockets_opened(struct http_sockets *all, int fd); /* one that sockets_closed will be told of */
void sockets_want(struct http_sockets *all, int fd, int events); /* 0: nothing, for now */
void sockets_closed(struct http_sockets *all, int fd);           /* call it before closing */

#endif
