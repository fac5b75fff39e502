/* core/fact_field.h - the fields that a fact's document has by rule: checks and defaults.
 *
 * Pure.
 */
#ifndef MEMSYNC_CORE_FACT_FIELD_H
#define MEMSYNC_CORE_FACT_FIELD_H

#include "core/status.h"

#include <stdint.h>

/* Checks all known fields of `document` (an object that already has id, title, content and scope)
 * and adds what is missing, in the peers' order. `file_time_ns` stands in for a missing createdAt.
 * STATUS_CORRUPT names the field. */
MUST_CHECK enum status fact_field_complete(json_t *document, uint64_t file_time_ns,
                                           struct error *error);

/* Tells whether an `id` of any type counts as `text`: a number, a date and true are taken as what
 * the peers' str() makes of them. */
bool fact_field_is_id(const json_t *value, const char *text);

#endif
