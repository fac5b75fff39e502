#include "core/array.h"

#include <string.h>

#define CAPACITY_MIN 64

bool array_make_room(void *items, size_t count, size_t *capacity, size_t item_size)
{
    size_t wanted = *capacity ? 2 * *capacity : CAPACITY_MIN;
    void *old;

    if (count < *capacity)
        return true;
    memcpy(&old, items, sizeof old); /* whatever type of pointer it is */
    void *grown = reallocarray(old, wanted, item_size);
    if (!grown)
        return false;
    memcpy(items, &grown, sizeof grown);
    *capacity = wanted;
    return true;
}
