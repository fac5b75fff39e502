#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#include "core/array.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdint.h>

Test(array, keeps_its_items_while_it_grows)
{
    AUTO_FREE uint32_t *items = NULL;
    size_t capacity = 0;

    for (uint32_t count = 0; count < 1000; count++) {
        cr_assert(array_make_room(&items, count, &capacity, sizeof *items));
        cr_assert(gt(sz, capacity, count));
        items[count] = count;
    }
    for (uint32_t i = 0; i < 1000; i++)
        cr_assert(eq(u32, items[i], i));
}

Test(array, is_left_alone_while_there_is_room)
{
    uint32_t items[4];
    uint32_t *at = items;
    size_t capacity = 4;

    cr_assert(array_make_room(&at, 3, &capacity, sizeof *items));
    cr_expect(eq(ptr, at, items));
    cr_expect(eq(sz, capacity, 4));
}

Test(array, is_as_before_when_memory_runs_out)
{
    AUTO_FREE char *items = malloc(1);
    char *before = items;
    size_t capacity = 1;

    cr_assert(not(array_make_room(&items, 1, &capacity, SIZE_MAX / 2 + 1)), "too large to count");
    cr_expect(eq(ptr, items, before));
    cr_expect(eq(sz, capacity, 1));
}
