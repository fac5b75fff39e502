/* core/array.h - arrays that grow: a pointer, a count and a capacity in the caller's hands.
 */
#ifndef MEMSYNC_CORE_ARRAY_H
#define MEMSYNC_CORE_ARRAY_H

#include "core/compiler.h"

#include <stdbool.h>
#include <stddef.h>

/* Makes room for one more item than `count`: doubles the array when it is full. `items` is the
 * address of its pointer (NULL while there is no item). False: out of memory, nothing changed. */
MUST_CHECK bool array_make_room(void *items, size_t count, size_t *capacity, size_t item_size);

#endif
