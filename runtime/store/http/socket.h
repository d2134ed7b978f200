/* socket.h -- the descriptors that libcurl wants watched.
 *
 * libcurl forgets the descriptor of a connection at the end of each request and names it again at the
 * next. Those of established connections stay watched in between, which saves two calls to the kernel a
 * request; only when one becomes readable while nothing is asked of it, because the server closed it,
 * does the watching stop.
 *
 * libcurl tells us when it closes an established connection, but not when it closes one that is still
 * being made, or its name resolver's descriptor: those are let go as soon as it forgets them.
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
/* libcurl opened one. */
void sockets_opened(struct http_sockets *all, int fd);
void sockets_want(struct http_sockets *all, int fd, int events);
/* Nothing is wanted of it at present; `keep`: it is an established connection. */
void sockets_forget(struct http_sockets *all, int fd, bool keep);
void sockets_closed(struct http_sockets *all, int fd); /* call it before closing */

#endif
