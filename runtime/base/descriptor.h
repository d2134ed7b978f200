/* descriptor.h -- keeping the places of the standard streams for the standard streams. */
#ifndef SYNOD_BASE_DESCRIPTOR_H
#define SYNOD_BASE_DESCRIPTOR_H

/* A standard stream that is closed would become the next file that is opened: something that refuses
 * every use takes its place. No effect when it is open. */
void descriptor_occupy(int fd);

/* Moves a descriptor above 2 (and closes the one given); -1 and errno when there is no room. */
int descriptor_lift(int fd);

#endif
