#include "tests/bench/samples.h"

#include "core/array.h"
#include "tests/support/files.h"

#include <stdio.h>
#include <stdlib.h>

void samples_add(struct samples *samples, uint64_t ns)
{
    if (!array_make_room(&samples->ns, samples->count, &samples->capacity, sizeof *samples->ns))
        test_die("no memory for samples");
    samples->ns[samples->count++] = ns;
}

void samples_add_all(struct samples *samples, const struct samples *more)
{
    for (size_t i = 0; i < more->count; i++)
        samples_add(samples, more->ns[i]);
}

static int by_size(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *) left;
    uint64_t b = *(const uint64_t *) right;

    return (a > b) - (a < b);
}

static double percentile_us(const struct samples *samples, size_t percent)
{
    return samples->count ? (double) samples->ns[samples->count * percent / 100] / 1000.0 : 0.0;
}

void samples_print(struct samples *samples, const char *name)
{
    if (samples->count)
        qsort(samples->ns, samples->count, sizeof *samples->ns, by_size);
    (void) printf("\"%s\": {\"samples\": %zu, \"p50_us\": %.2f, \"p99_us\": %.2f}", name,
                  samples->count, percentile_us(samples, 50), percentile_us(samples, 99));
}

void samples_clear(struct samples *samples)
{
    free(samples->ns);
    *samples = (struct samples){0};
}

size_t bench_number(const char *text, size_t most)
{
    char *end = NULL;
    unsigned long value = strtoul(text, &end, 10);

    if (*end || value == 0 || value > most)
        test_die("no number up to %zu: %s", most, text);
    return value;
}
