/* alarm.c -- the heap of alarms: four children a node, so that a level costs one cache line. */
#include <stdlib.h>

#include "base/alloc.h"
#include "world/world_impl.h"

enum { FIRST_CAPACITY = 16, CHILDREN = 4 };

static bool earlier(const struct alarm_entry *a, const struct alarm_entry *b) {
    return a->at < b->at || (a->at == b->at && a->order < b->order);
}

static void place(struct alarm_heap *h, uint32_t i, struct alarm_entry e) {
    h->entries[i] = e;
    e.alarm->pos = i + 1;
}

static void sift_up(struct alarm_heap *h, uint32_t i, struct alarm_entry e) {
    while (i > 0) {
        uint32_t parent = (i - 1) / CHILDREN;
        if (!earlier(&e, &h->entries[parent])) {
            break;
        }
        place(h, i, h->entries[parent]);
        i = parent;
    }
    place(h, i, e);
}

static void sift_down(struct alarm_heap *h, uint32_t i, struct alarm_entry e) {
    for (;;) {
        uint32_t child = i * CHILDREN + 1;
        if (child >= h->count) {
            break;
        }
        uint32_t end = child + CHILDREN < h->count ? child + CHILDREN : h->count;
        uint32_t least = child;
        for (uint32_t c = child + 1; c < end; c++) {
            if (earlier(&h->entries[c], &h->entries[least])) {
                least = c;
            }
        }
        if (!earlier(&h->entries[least], &e)) {
            break;
        }
        place(h, i, h->entries[least]);
        i = least;
    }
    place(h, i, e);
}

static void insert(struct alarm_heap *h, struct alarm_entry e) {
    if (h->count == h->capacity) {
        h->capacity = h->capacity ? h->capacity * 2 : FIRST_CAPACITY;
        h->entries = xrealloc(h->entries, h->capacity * sizeof *h->entries);
    }
    sift_up(h, h->count++, e);
}

static void take_out(struct alarm_heap *h, uint32_t i) {
    h->entries[i].alarm->pos = 0;
    struct alarm_entry last = h->entries[--h->count];
    if (i == h->count) {
        return;
    }
    if (i > 0 && earlier(&last, &h->entries[(i - 1) / CHILDREN])) {
        sift_up(h, i, last);
    } else {
        sift_down(h, i, last);
    }
}

void alarm_set(struct world *w, struct alarm *a, int64_t at) {
    struct alarm_heap *h = &w->alarms;
    alarm_clear(w, a);
    insert(h, (struct alarm_entry){.at = at, .order = h->next_order++, .alarm = a});
}

void alarm_clear(struct world *w, struct alarm *a) {
    if (a->pos) {
        take_out(&w->alarms, a->pos - 1);
    }
}

bool alarm_is_set(const struct alarm *a) {
    return a->pos != 0;
}

int64_t alarm_heap_first(const struct alarm_heap *h) {
    return h->count ? h->entries[0].at : NEVER;
}

void alarm_heap_ring(struct alarm_heap *h, int64_t now) {
    uint64_t before = h->next_order;
    while (h->count && h->entries[0].at <= now && h->entries[0].order < before) {
        struct alarm *a = h->entries[0].alarm;
        take_out(h, 0);
        a->ring(a);
    }
}

void alarm_heap_release(struct alarm_heap *h) {
    free(h->entries);
}
