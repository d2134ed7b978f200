/* output.c -- see output.h.
 *
 *     empty -output_put-> due (the alarm `soon` is set) -output_flush-> empty
 *                                                       -output_flush-> stuck (`watch` is started)
 *     stuck -output_ready-> empty, or still stuck
 *     any -a write fails-> failed: nothing is pending any more
 */
#include "world/output.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"

static void output_ready(struct watch *watch, int events) {
    (void)events;
    output_flush(container_of(watch, struct output, watch));
}

static void output_soon(struct alarm *a) {
    output_flush(container_of(a, struct output, soon));
}

static void stall_set(struct output *o) {
    o->seen = o->writer.total;
    alarm_set(o->world, &o->stall, instant_add(world_now(o->world), OUTPUT_STALL_S * NS_PER_S));
}

static void output_stall(struct alarm *a) {
    struct output *o = container_of(a, struct output, stall);
    if (o->writer.total != o->seen) {
        stall_set(o);
    } else if (!o->warned) {
        o->warned = true;
        o->stalled(o);
    }
}

void output_init(struct output *o, int fd, bool prompt) {
    memset(o, 0, sizeof *o);
    writer_open(&o->writer, fd);
    o->prompt = prompt;
    o->watch.ready = output_ready;
    o->soon.ring = output_soon;
    o->stall.ring = output_stall;
}

void output_release(struct output *o) {
    output_detach(o);
    writer_close(&o->writer);
}

void output_attach(struct output *o, struct world *w) {
    o->world = w;
}

/* Nobody reads it at the moment: go on when they do. That takes no virtual time. */
static void output_stick(struct output *o) {
    int fd = writer_ready_fd(&o->writer);
    if (o->watch.impl) {
        return;
    }
    if (fd < 0 || watch_start(o->world, &o->watch, fd, WATCH_READ) != 0) {
        writer_drain(&o->writer, -1); /* a device that cannot be watched */
        return;
    }
    o->holds = true;
    world_hold(o->world);
    if (!o->warned && !world_is_virtual(o->world)) {
        stall_set(o);
    }
}

static void output_unstick(struct output *o) {
    watch_stop(o->world, &o->watch);
    alarm_clear(o->world, &o->stall);
    if (o->holds) {
        o->holds = false;
        world_release(o->world);
    }
}

void output_flush(struct output *o) {
    if (!o->world) {
        writer_drain(&o->writer, -1);
        return;
    }
    alarm_clear(o->world, &o->soon);
    if (writer_flush(&o->writer) == -EAGAIN) {
        output_stick(o);
    } else {
        output_unstick(o);
    }
    if (writer_pending(&o->writer) <= WRITER_ROOM && o->room) {
        o->room(o);
    }
}

bool output_put(struct output *o, const void *data, size_t n) {
    if (!writer_put(&o->writer, data, n)) {
        return false;
    }
    if (o->watch.impl) {
        return true; /* stuck: the watch goes on with it */
    }
    if (o->prompt || !o->world || writer_pending(&o->writer) >= WRITER_BATCH) {
        output_flush(o);
    } else if (!alarm_is_set(&o->soon)) {
        alarm_set(o->world, &o->soon, world_now(o->world));
    }
    return true;
}

bool output_is_full(const struct output *o) {
    return writer_pending(&o->writer) >= WRITER_FULL;
}

int output_error(const struct output *o) {
    return o->writer.error;
}

void output_detach(struct output *o) {
    if (!o->world) {
        return;
    }
    alarm_clear(o->world, &o->soon);
    output_unstick(o);
    o->world = NULL;
    if (writer_drain(&o->writer, OUTPUT_STALL_S * 1000) == -EAGAIN) {
        if (!o->warned) {
            o->warned = true;
            o->stalled(o);
        }
        writer_drain(&o->writer, -1);
    }
}
