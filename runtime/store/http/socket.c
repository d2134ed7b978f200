#include "store/http/socket.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

enum { ROOM_FIRST = 64 };

struct http_socket {
    struct watch watch;
    struct http_sockets *all;
    int fd;
    int wanted;   /* by libcurl */
    int watching; /* by the world */
};

void sockets_init(struct http_sockets *all, struct world *w,
                  void (*ready)(struct http_sockets *all, int fd, int events)) {
    memset(all, 0, sizeof *all);
    all->world = w;
    all->ready = ready;
}

static struct http_socket *find(const struct http_sockets *all, int fd) {
    return fd < all->room ? all->by_fd[fd] : NULL;
}

static void watch_for(struct http_socket *s, int events) {
    if (s->watching == events) {
        return;
    }
    s->watching = events;
    if (events) {
        watch_start(s->all->world, &s->watch, s->fd, events);
    } else {
        watch_stop(s->all->world, &s->watch);
    }
}

static void on_ready(struct watch *watch, int events) {
    struct http_socket *s = container_of(watch, struct http_socket, watch);
    if (s->wanted) {
        s->all->ready(s->all, s->fd, events);
    } else {
        watch_for(s, 0);
    }
}

static void make_room(struct http_sockets *all, int fd) {
    int room = all->room ? all->room : ROOM_FIRST;
    while (room <= fd) {
        room *= 2;
    }
    if (room > all->room) {
        all->by_fd = xrealloc(all->by_fd, (size_t)room * sizeof *all->by_fd);
        memset(all->by_fd + all->room, 0, (size_t)(room - all->room) * sizeof *all->by_fd);
        all->room = room;
    }
}

static struct http_socket *add(struct http_sockets *all, int fd) {
    make_room(all, fd);
    struct http_socket *s = xcalloc(1, sizeof *s);
    s->watch.ready = on_ready;
    s->all = all;
    s->fd = fd;
    all->by_fd[fd] = s;
    return s;
}

/* When it had the number of one that was closed behind our back, libcurl takes it for the same and names
 * it no second time, while the kernel has forgotten to watch it. */
void sockets_opened(struct http_sockets *all, int fd) {
    struct http_socket *s = find(all, fd);
    if (s) {
        watch_for(s, 0);
        watch_for(s, s->wanted);
    }
}

void sockets_want(struct http_sockets *all, int fd, int events) {
    struct http_socket *s = find(all, fd);
    if (!s) {
        s = add(all, fd);
    }
    s->wanted = events;
    watch_for(s, events);
}

void sockets_forget(struct http_sockets *all, int fd, bool keep) {
    struct http_socket *s = find(all, fd);
    if (s && keep) {
        s->wanted = 0;
        watch_for(s, s->watching ? WATCH_READ : 0);
    } else {
        sockets_closed(all, fd);
    }
}

void sockets_closed(struct http_sockets *all, int fd) {
    struct http_socket *s = find(all, fd);
    if (s) {
        watch_for(s, 0);
        all->by_fd[fd] = NULL;
        free(s);
    }
}

void sockets_release(struct http_sockets *all) {
    for (int fd = 0; fd < all->room; fd++) {
        sockets_closed(all, fd);
    }
    free(all->by_fd);
}
