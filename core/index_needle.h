/* core/index_needle.h - a text that is looked for in facts, whatever the case of its letters.
 *
 * What a search answers with when no word matches. Most facts are ruled out by their stored
 * document's bytes, without reading its JSON.
 */
#ifndef MEMSYNC_CORE_INDEX_NEEDLE_H
#define MEMSYNC_CORE_INDEX_NEEDLE_H

#include "core/status.h"

#include <stddef.h>

struct needle;

/* White space around the text is no part of it. STATUS_NO_MEMORY, STATUS_TOO_LARGE, or what folding
 * it fails with. */
MUST_CHECK enum status needle_create(const char *text, size_t size, struct needle **ret);
void needle_destroy(struct needle **needle);
#define AUTO_NEEDLE CLEANUP(needle_destroy)

/* Nothing is left of the text: it is in no fact. */
bool needle_is_empty(const struct needle *needle);

/* Whether the `content` of a document holds it. `document` is JSON text as core/json_text.h writes
 * it, and ends in a NUL. Returns a result code of SQLite, as the rest of the index does inside:
 * SQLITE_CORRUPT for what is no document. One thread at a time: the needle keeps room to work in.
 */
MUST_CHECK int needle_find(struct needle *needle, const char *document, size_t size, bool *ret);

#endif
