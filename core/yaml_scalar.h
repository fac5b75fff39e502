/* core/yaml_scalar.h - the value of a scalar whose type is known.
 *
 * Pure; see core/yaml_value.h for what the values look like.
 */
#ifndef MEMSYNC_CORE_YAML_SCALAR_H
#define MEMSYNC_CORE_YAML_SCALAR_H

#include "core/status.h"
#include "core/yaml_tag.h"

/* Gives the value. STATUS_CORRUPT when the text is none of that type or the type is not a scalar's,
 * STATUS_NO_MEMORY. The caller owns the result. */
MUST_CHECK enum status yaml_scalar_value(enum yaml_tag tag, const char *text, size_t size,
                                         json_t **ret);

/* A text that is the same for two keys exactly when the peers' dictionaries hold them for one key
 * (1, 1.0 and true are one). `value` is what yaml_scalar_value() gave. Freed by the caller; NULL
 * when memory ran out. */
char *yaml_scalar_identity(enum yaml_tag tag, const char *text, size_t size, const json_t *value);

#endif
