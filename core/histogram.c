#include "core/histogram.h"

#include "core/clock.h"

/* From a search that finds everything in step on a local disk to a call that hangs. The low ones
 * come first, since most of what is observed belongs there. */
const uint64_t histogram_bounds_ns[HISTOGRAM_BOUNDS] = {
    25 * NS_PER_US,    50 * NS_PER_US,     100 * NS_PER_US,    250 * NS_PER_US,
    500 * NS_PER_US,   NS_PER_MS,          5 * NS_PER_MS / 2,  5 * NS_PER_MS,
    10 * NS_PER_MS,    25 * NS_PER_MS,     50 * NS_PER_MS,     100 * NS_PER_MS,
    250 * NS_PER_MS,   500 * NS_PER_MS,    NS_PER_SECOND,      5 * NS_PER_SECOND / 2,
    5 * NS_PER_SECOND, 10 * NS_PER_SECOND, 30 * NS_PER_SECOND, 60 * NS_PER_SECOND,
};

void histogram_observe(struct histogram *histogram, uint64_t ns)
{
    unsigned at = 0;

    while (at < HISTOGRAM_BOUNDS && ns > histogram_bounds_ns[at])
        at++;
    atomic_fetch_add_explicit(&histogram->classes[at], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&histogram->sum_ns, ns, memory_order_relaxed);
}

void histogram_read(const struct histogram *histogram, struct histogram_reading *ret)
{
    uint64_t count = 0;

    for (unsigned i = 0; i <= HISTOGRAM_BOUNDS; i++) {
        count += atomic_load_explicit(&histogram->classes[i], memory_order_relaxed);
        ret->up_to[i] = count;
    }
    ret->sum_ns = atomic_load_explicit(&histogram->sum_ns, memory_order_relaxed);
}
