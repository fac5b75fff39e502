/* chaos/netvol/knobs.h - what can be set on a node while it runs: a table of names, units, bounds.
 *
 * Each node has values of its own. Any thread may set and read them; what is under way goes by the
 * values as it meets them.
 */
#ifndef MEMSYNC_CHAOS_KNOBS_H
#define MEMSYNC_CHAOS_KNOBS_H

#include "chaos/netvol/operations.h"
#include "core/text.h"

#include <stdatomic.h>

enum knob {
    KNOB_LATENCY_US,
    KNOB_ATTR_CACHE_S,
    KNOB_ENTRY_CACHE_S,
    KNOB_NEGATIVE_CACHE_S,
    KNOB_LISTING_CACHE_S,
    KNOB_DATA_CACHE_S,
    KNOB_ATTR_LAG_S,
    KNOB_LISTING_LAG_S,
    KNOB_NEGATIVE_LAG_S,
    KNOB_TIME_GRAIN_NS,
    KNOB_CLOCK_OFFSET_MS,
    KNOB_RENAME_GAP_MS,
    KNOB_SILLY_RENAME,
    KNOB_FLOCK,
    KNOB_COUNT
};

/* The values of KNOB_FLOCK. */
enum flock_mode { FLOCK_ACROSS, FLOCK_NODE, FLOCK_NONE };

struct knobs {
    _Atomic double values[KNOB_COUNT];
    _Atomic double latency_us[OPERATION_COUNT]; /* instead of that value */
};

void knobs_init(struct knobs *knobs);

/* False: there is none of that name. */
bool knob_of(const char *name, enum knob *ret);

/* Takes a number or one of the words that stand for it; only a latency has an operation, all others
 * OPERATION_ANY. False: that is no value for it, or no operation. */
bool knobs_set(struct knobs *knobs, enum knob knob, enum operation operation, const char *value);

double knobs_get(const struct knobs *knobs, enum knob knob);

/* A time of the table, by its unit, in nanoseconds. */
uint64_t knobs_ns(const struct knobs *knobs, enum knob knob);

uint64_t knobs_latency_ns(const struct knobs *knobs, enum operation operation);

/* Appends one value as JSON; a latency of all operations as an object. */
void knobs_append(const struct knobs *knobs, enum knob knob, struct text *text);

/* Appends the table or all values as JSON. */
void knobs_append_table(struct text *text);
void knobs_append_all(const struct knobs *knobs, struct text *text);

#endif
