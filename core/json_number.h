/* core/json_number.h - the finite number that a value stands for, as the peers convert it.
 *
 * Pure. The process must keep LC_NUMERIC at "C", as it starts.
 */
#ifndef MEMSYNC_CORE_JSON_NUMBER_H
#define MEMSYNC_CORE_JSON_NUMBER_H

#include "core/compiler.h"

#include <stdbool.h>

/* True for an integer of any size and a real that is finite as a double. Booleans are no numbers.
 * `value` may be NULL. */
bool json_number_read(const json_t *value, double *ret);

/* The same, and true for text that Python's float() reads: white space around it, one underscore
 * between two digits, an exponent. Texts of more than 300 bytes are refused. */
bool json_number_read_text(const json_t *value, double *ret);

#endif
