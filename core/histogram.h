/* core/histogram.h - how long something took, counted into fixed classes.
 *
 * A zeroed struct histogram is empty and valid. Observing costs two additions and a few
 * comparisons: no lock, no memory. Thread-safe; who reads while others observe may see a count
 * without its time.
 */
#ifndef MEMSYNC_CORE_HISTOGRAM_H
#define MEMSYNC_CORE_HISTOGRAM_H

#include <stdatomic.h>
#include <stdint.h>

#define HISTOGRAM_BOUNDS 20

/* The upper bounds of the classes, which belong to them, ascending; one more class is above all. */
extern const uint64_t histogram_bounds_ns[HISTOGRAM_BOUNDS];

struct histogram {
    _Atomic uint64_t classes[HISTOGRAM_BOUNDS + 1];
    _Atomic uint64_t sum_ns;
};

/* Something took `ns`. */
void histogram_observe(struct histogram *histogram, uint64_t ns);

struct histogram_reading {
    uint64_t
        up_to[HISTOGRAM_BOUNDS + 1]; /* how many took no longer than the bound; the last: all */
    uint64_t sum_ns;
};
void histogram_read(const struct histogram *histogram, struct histogram_reading *ret);

#endif
