/* core/yaml_number.h - integers and floats as YAML 1.1 spells them.
 *
 * By the peers' constructors: 012 is octal, 0b and 0x are known, underscores are ignored, 1:30 is
 * base sixty. Integers have any size up to the peers' limit of 4,300 digits. Pure; floats are read
 * by strtod(), so the process must be in the C locale for numbers.
 */
#ifndef MEMSYNC_CORE_YAML_NUMBER_H
#define MEMSYNC_CORE_YAML_NUMBER_H

#include "core/compiler.h"

#include <stdbool.h>
#include <stddef.h>

/* Both return NULL when the text is no such number (or memory ran out, which ends the same way).
 * The caller owns the result. */

/* An integer, or the disguised big integer of core/json_text.h. */
json_t *yaml_number_read_int(const char *text, size_t size);

/* A real, or {"$float": "inf" | "-inf" | "nan"}. */
json_t *yaml_number_read_float(const char *text, size_t size);

#endif
