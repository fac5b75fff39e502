/* core/fact_write.h - the bytes of a fact file.
 *
 * Pure. The layout is the peers': front matter in the document's order with user_id and agent_name
 * last, a title line, the text.
 */
#ifndef MEMSYNC_CORE_FACT_WRITE_H
#define MEMSYNC_CORE_FACT_WRITE_H

#include "core/fact.h"
#include "core/text.h"

/* Appends the file of `document`, which is complete as fact_parse() and fact_normalise() give it
 * (the user and the agent are those of its member `scope`). What is written has been read back for
 * `scope` (NULL: any) and was the same, but for blanks at a title's end. Else STATUS_INVALID: the
 * message tells what a reader would refuse or read otherwise. STATUS_TOO_LARGE beyond
 * FACT_FILE_BYTES_MAX. On failure `ret` is as it was. */
MUST_CHECK enum status fact_write(const json_t *document, const struct scope *scope,
                                  struct text *ret, struct error *error);

#endif
