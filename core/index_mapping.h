/* core/index_mapping.h - what becomes of mapped pages that are not on disk any more.
 *
 * SQLite maps the index into memory, and always its shared-memory file. When somebody shortens such
 * a file in place, or the disk cannot read it, the kernel answers the next look at a lost page with
 * SIGBUS, which ends a program. Here the page becomes one of zeros instead, which is no page of a
 * database: SQLite finds the index damaged, or does not and is asked no further, and the index is
 * built anew as after any other damage.
 *
 * Per thread: who reads is who meets the lost page. */
#ifndef MEMSYNC_CORE_INDEX_MAPPING_H
#define MEMSYNC_CORE_INDEX_MAPPING_H

#include <stdbool.h>

/* Takes SIGBUS, once for the process. What is not about a lost page of a file ends the process as
 * before. */
void index_mapping_guard(void);

/* Whether this thread has met a lost page since index_mapping_forget(): nothing that it has read
 * since is good. */
bool index_mapping_has_lost(void);
void index_mapping_forget(void);

#endif
