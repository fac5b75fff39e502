#include "core/condition.h"

#include <time.h>

void condition_init(pthread_cond_t *condition)
{
    pthread_condattr_t monotonic;

    (void) pthread_condattr_init(&monotonic);
    (void) pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void) pthread_cond_init(condition, &monotonic);
    (void) pthread_condattr_destroy(&monotonic);
}
