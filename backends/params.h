/* backends/params.h - taking a call's parameters out of its JSON object, with errors that name
 * them.
 *
 * Each returns STATUS_INVALID with a message that tells the parameter and what it takes. A
 * parameter that is absent or null leaves `ret` at what it was.
 */
#ifndef MEMSYNC_BACKENDS_PARAMS_H
#define MEMSYNC_BACKENDS_PARAMS_H

#include "core/status.h"

#include <stdint.h>

/* A string; `ret_size` in bytes (it may hold NUL). Points into `params`. */
MUST_CHECK enum status params_string(const json_t *params, const char *name, bool required,
                                     const char **ret, size_t *ret_size, struct error *error);

/* A string that holds no NUL, so that what is compared is all of it. Points into `params`. */
MUST_CHECK enum status params_name(const json_t *params, const char *name, bool required,
                                   const char **ret, struct error *error);

/* An integer from `low` to `high`. */
MUST_CHECK enum status params_integer(const json_t *params, const char *name, int64_t low,
                                      int64_t high, int64_t *ret, struct error *error);

/* true or false. */
MUST_CHECK enum status params_boolean(const json_t *params, const char *name, bool *ret,
                                      struct error *error);

/* An object; borrowed. */
MUST_CHECK enum status params_object(const json_t *params, const char *name, const json_t **ret,
                                     struct error *error);

/* An array; borrowed. */
MUST_CHECK enum status params_array(const json_t *params, const char *name, const json_t **ret,
                                    struct error *error);

#endif
