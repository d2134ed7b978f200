/* descriptor.h -- descriptors that may be shared with others: the places of the standard streams, and looks that
 * do not wait. */
#ifndef SYNOD_BASE_DESCRIPTOR_H
#define SYNOD_BASE_DESCRIPTOR_H

#include <stdbool.h>

/* A standard stream that is closed would become the next file that is opened: something that refuses
 * every use takes its place. No effect when it is open. */
void descriptor_occupy(int fd);

/* Moves a descriptor above 2 (and closes the one given); -1 and errno when there is no room. */
int descriptor_lift(int fd);

/* Does one of these events (POLLIN, POLLOUT), or an error, wait there now? A signal in between changes nothing. */
bool descriptor_is_ready(int fd, short events);

#endif
