/* core/manifest_revision.h - what the peers take a manifest's `revision` for.
 *
 * Their rule is int(value or 0) of Python, so text counts as a number too. Beyond int64_t we refuse
 * where they would not: a revision is never wrapped or rounded. Pure.
 */
#ifndef MEMSYNC_CORE_MANIFEST_REVISION_H
#define MEMSYNC_CORE_MANIFEST_REVISION_H

#include "core/json_text.h"

/* `value` may be NULL (no such key: 0). On false, `ret_problem` says why in a constant text. */
MUST_CHECK bool manifest_revision_of(const json_t *value, int64_t *ret, const char **ret_problem);

#endif
