/* chaos/support/numbers.h - numbers of command lines. A text is one when it is that and nothing
 * else, and lies between the bounds. No state.
 */
#ifndef MEMSYNC_CHAOS_NUMBERS_H
#define MEMSYNC_CHAOS_NUMBERS_H

#include <stdbool.h>
#include <stdint.h>

bool number_count(const char *text, uint64_t least, uint64_t most, uint64_t *ret);
bool number_real(const char *text, double least, double most, double *ret);

#endif
