#include "base/random.h"

#include <string.h>

/* The finaliser of MurmurHash3: every bit of the input moves every bit of the output. */
static uint64_t mix(uint64_t x) {
    x ^= x >> 33;
    x *= UINT64_C(0xff51afd7ed558ccd);
    x ^= x >> 33;
    x *= UINT64_C(0xc4ceb9fe1a85ec53);
    x ^= x >> 33;
    return x;
}

uint64_t hash_bytes(uint64_t seed, const void *data, size_t n) {
    const unsigned char *p = data;
    uint64_t h = seed ^ UINT64_C(0xcbf29ce484222325); /* FNV-1a, then mixed */
    for (size_t i = 0; i < n; i++) {
        h = (h ^ p[i]) * UINT64_C(0x100000001b3);
    }
    return mix(h);
}

void random_init(struct random *r, uint64_t seed, const char *domain, uint64_t instance) {
    r->domain = mix(hash_bytes(seed, domain, strlen(domain)) ^ instance);
    r->ordinal = 0;
}

static uint64_t random_next(struct random *r) {
    return mix(r->domain + r->ordinal++ * UINT64_C(0x9e3779b97f4a7c15));
}

double random_unit(struct random *r) {
    return (double)(random_next(r) >> 11) * 0x1.0p-53;
}

void random_fill(struct random *r, void *out, size_t n) {
    unsigned char *p = out;
    while (n) {
        uint64_t x = random_next(r);
        size_t k = n < sizeof x ? n : sizeof x;
        memcpy(p, &x, k);
        p += k;
        n -= k;
    }
}
