/* chaos/faults/places.h - which operations of a run come from places of their own.
 *
 * A run makes a thousand allocations and more, at a few hundred places in the code: a loop's body
 * is one place however often it is passed. What leads to a place belongs to it, for what has to
 * deal with the failure is further up. So two operations are of one place when all return addresses
 * in the program itself are equal. What a library does on its way is the library's to get right:
 * the first of its operations stands for all of that call.
 *
 * One process at a time notes places; its threads may do it at once.
 */
#ifndef MEMSYNC_CHAOS_FAULTS_PLACES_H
#define MEMSYNC_CHAOS_FAULTS_PLACES_H

#include <stddef.h>
#include <stdint.h>

#define PLACES_MAX 8192

/* In the order in which a run came to them. */
struct places {
    size_t count;
    uint64_t first[PLACES_MAX];  /* the number of the first operation of each */
    uint64_t stacks[PLACES_MAX]; /* a hash of how it was come by */
};

/* Before the first note: what finds return addresses is loaded. */
void places_set_up(void);

/* The operation of this number is made by whoever calls. */
void places_note(struct places *places, uint64_t number);

#endif
