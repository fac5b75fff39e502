/* tests/bench/samples.h - how long something took, many times. Not thread-safe. */
#ifndef MEMSYNC_BENCH_SAMPLES_H
#define MEMSYNC_BENCH_SAMPLES_H

#include "core/compiler.h"

#include <stddef.h>
#include <stdint.h>

struct samples {
    uint64_t *ns; /* owned */
    size_t count, capacity;
};

/* Ends the program when there is no memory. */
void samples_add(struct samples *samples, uint64_t ns);

/* Adds all of another. */
void samples_add_all(struct samples *samples, const struct samples *more);

/* Prints "name": {"samples": N, "p50_us": X, "p99_us": X} on standard output; sorts them. */
void samples_print(struct samples *samples, const char *name);

void samples_clear(struct samples *samples);
#define AUTO_SAMPLES CLEANUP(samples_clear)

/* A number on the command line from 1 to `most`; ends the program when it is none. */
size_t bench_number(const char *text, size_t most);

#endif
