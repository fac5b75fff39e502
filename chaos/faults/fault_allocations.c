/* Faults of memory. */
#include "chaos/faults/fault.h"
#include "tests/support/wrapped/allocations.h"

static bool refuses(const char *what)
{
    return fault_next(FAULT_ALLOCATION, false, what) != NULL;
}

void fault_allocations_set_up(void)
{
    allocations_ask(refuses);
}
