/* core/histogram.h: classes with inclusive upper bounds, and no observation that gets lost. */
#include "core/histogram.h"

#include "core/clock.h"

#include <criterion/criterion.h>
#include <pthread.h>

TestSuite(histogram, .timeout = 30);

Test(histogram, bounds_ascend)
{
    cr_expect(histogram_bounds_ns[0] > 0);
    for (unsigned i = 1; i < HISTOGRAM_BOUNDS; i++)
        cr_expect(histogram_bounds_ns[i] > histogram_bounds_ns[i - 1], "bound %u", i);
    cr_expect_eq(histogram_bounds_ns[HISTOGRAM_BOUNDS - 1], 60 * NS_PER_SECOND);
}

Test(histogram, is_empty_when_zeroed)
{
    struct histogram histogram = {0};
    struct histogram_reading reading;

    histogram_read(&histogram, &reading);
    for (unsigned i = 0; i <= HISTOGRAM_BOUNDS; i++)
        cr_expect_eq(reading.up_to[i], 0, "class %u", i);
    cr_expect_eq(reading.sum_ns, 0);
}

/* In which class a time is counted: the first whose count it raises. */
static unsigned class_of(uint64_t ns)
{
    struct histogram histogram = {0};
    struct histogram_reading reading;
    unsigned at = 0;

    histogram_observe(&histogram, ns);
    histogram_read(&histogram, &reading);
    while (reading.up_to[at] == 0)
        at++;
    for (unsigned i = at; i <= HISTOGRAM_BOUNDS; i++)
        cr_expect_eq(reading.up_to[i], 1, "%lu ns in class %u", (unsigned long) ns, i);
    cr_expect_eq(reading.sum_ns, ns);
    return at;
}

Test(histogram, an_upper_bound_belongs_to_its_class)
{
    cr_expect_eq(class_of(0), 0);
    for (unsigned i = 0; i < HISTOGRAM_BOUNDS; i++) {
        cr_expect_eq(class_of(histogram_bounds_ns[i] - 1), i, "below bound %u", i);
        cr_expect_eq(class_of(histogram_bounds_ns[i]), i, "bound %u", i);
        cr_expect_eq(class_of(histogram_bounds_ns[i] + 1), i + 1, "above bound %u", i);
    }
    cr_expect_eq(class_of(3600 * NS_PER_SECOND), HISTOGRAM_BOUNDS);
}

#define THREADS 4
#define ROUNDS 2000000

static pthread_barrier_t together;

static void *observe_often(void *context)
{
    (void) pthread_barrier_wait(&together);
    for (uint64_t i = 0; i < ROUNDS; i++)
        histogram_observe(context, i * NS_PER_US);
    return NULL;
}

Test(histogram, loses_nothing_with_many_threads)
{
    struct histogram histogram = {0};
    struct histogram_reading reading;
    pthread_t threads[THREADS];

    cr_assert_eq(pthread_barrier_init(&together, NULL, THREADS), 0);
    for (unsigned i = 0; i < THREADS; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, observe_often, &histogram), 0);
    for (unsigned i = 0; i < THREADS; i++)
        (void) pthread_join(threads[i], NULL);
    (void) pthread_barrier_destroy(&together);
    histogram_read(&histogram, &reading);
    cr_expect_eq(reading.up_to[HISTOGRAM_BOUNDS], THREADS * ROUNDS);
    cr_expect_eq(reading.up_to[0], THREADS * 26);
    cr_expect_eq(reading.sum_ns, THREADS * ((uint64_t) ROUNDS * (ROUNDS - 1) / 2) * NS_PER_US);
}
