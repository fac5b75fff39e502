/* chaos/support/dice.h - chance that comes out the same every time. Plain data, one thread at a
 * time.
 */
#ifndef MEMSYNC_CHAOS_DICE_H
#define MEMSYNC_CHAOS_DICE_H

#include <stdbool.h>
#include <stdint.h>

struct dice {
    uint64_t state; /* a seed, to begin with */
};

/* The next number below `sides` (which is not 0). */
static inline unsigned dice_roll(struct dice *dice, unsigned sides)
{
    uint64_t mixed = dice->state += UINT64_C(0x9e3779b97f4a7c15);

    mixed = (mixed ^ (mixed >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    mixed = (mixed ^ (mixed >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (unsigned) ((mixed ^ (mixed >> 31)) % sides);
}

/* True once in `sides` times. */
static inline bool dice_hit(struct dice *dice, unsigned sides)
{
    return dice_roll(dice, sides) == 0;
}

#endif
