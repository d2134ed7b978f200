/* random.h -- keyed random numbers: a value is a function of what it is for.
 *
 *     value = hash(seed, domain, instance, ordinal)
 *
 * There is no shared stream, so that drawing one number more in one place moves no other.
 */
#ifndef SYNOD_BASE_RANDOM_H
#define SYNOD_BASE_RANDOM_H

#include <stddef.h>
#include <stdint.h>

uint64_t hash_bytes(uint64_t seed, const void *data, size_t n);

/* A generator of one domain: counts its own ordinals. */
struct random {
    uint64_t domain; /* the hash of seed, domain and instance */
    uint64_t ordinal;
};

void random_init(struct random *r, uint64_t seed, const char *domain, uint64_t instance);
double random_unit(struct random *r); /* [0, 1) */
void random_fill(struct random *r, void *out, size_t n);

#endif
