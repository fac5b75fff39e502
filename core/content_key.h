/* core/content_key.h - when two facts say the same: the key by which a new fact is a duplicate.
 *
 * The content trimmed and case-folded in full, as the peers do it. Nothing is normalised: composed
 * and decomposed letters differ, and so does white space between words. Line ends must already be
 * the newlines that a fact file has. Pure, thread-safe.
 */
#ifndef MEMSYNC_CORE_CONTENT_KEY_H
#define MEMSYNC_CORE_CONTENT_KEY_H

#include "core/status.h"
#include "core/text.h"

#define CONTENT_KEY_BYTES_MAX (64u << 20)

/* Appends the key of a content to `ret`. The bytes are UTF-8, NUL among them or not.
 * STATUS_TOO_LARGE above CONTENT_KEY_BYTES_MAX, STATUS_NO_MEMORY. */
MUST_CHECK enum status content_key_fold(const char *bytes, size_t size, struct text *ret);

/* A hash of the key: contents with different hashes are no duplicates, those with equal ones must
 * be compared. It is stored, and differs between versions of ICU like the key itself. */
MUST_CHECK enum status content_key_hash(const char *bytes, size_t size, uint64_t *ret);

/* Whether two contents have one key. */
MUST_CHECK enum status content_key_equal(const char *a, size_t a_size, const char *b, size_t b_size,
                                         bool *ret);

#endif
