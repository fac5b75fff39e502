/* core/yaml_number.h - integers and floats as YAML 1.1 spells them.
 *
 * By the peers' constructors: 012 is octal, 0b and 0x are known, underscores are ignored, 1:30 is
 * base sixty. Integers have any size up to the peers' limit of 4,300 digits. Pure; floats are read
 * by strtod(), so the process must be in the C locale for numbers.
 */
#ifndef MEMSYNC_CORE_YAML_NUMBER_H
#define MEMSYNC_CORE_YAML_NUMBER_H

#include "core/status.h"

#include <stddef.h>

/* Both give STATUS_CORRUPT when the text is no such number, STATUS_NO_MEMORY. The caller owns the
 * result. */

/* An integer, or the disguised big integer of core/json_text.h. */
MUST_CHECK enum status yaml_number_read_int(const char *text, size_t size, json_t **ret);

/* A real, or {"$float": "inf" | "-inf" | "nan"}. */
MUST_CHECK enum status yaml_number_read_float(const char *text, size_t size, json_t **ret);

#endif
