/* core/legacy_reading.h - the steps of one reading of earlier layouts; private to core/legacy*.c.
 *
 * Each adds to `collect`. A status other than OK ends the reading: something listed could not be
 * read, or memory ran out.
 */
#ifndef MEMSYNC_CORE_LEGACY_READING_H
#define MEMSYNC_CORE_LEGACY_READING_H

#include "core/legacy_collect.h"
#include "core/legacy_fact.h"
#include "core/legacy_files.h"

struct legacy_reading {
    const struct scope *scope;
    unsigned sources; /* of enum legacy_source */
    struct legacy_files *files;
    struct legacy_collect *collect;
    struct error *error;
    char bucket[SCOPE_PATH_MAX];
};

/* Who owns what is read. The date of `root` (may be NULL) stands in for missing ones, or else
 * `file_date`. */
struct legacy_owner legacy_owner_of(const struct scope *scope, const json_t *root,
                                    const char *file_date);

/* Reads one fact file that a listing has shown. `hash` is what the manifest announces of its bytes,
 * or NULL. The agent that the file names is not looked at, since it is about to change. */
MUST_CHECK enum status legacy_read_fact_file(struct legacy_reading *reading, const char *path,
                                             const char *id, const char *hash);

/* Reads the files that a mapping from id to {path, contentHash} names. `path` is the manifest's. */
MUST_CHECK enum status legacy_read_mapping(struct legacy_reading *reading, const char *path,
                                           json_t *facts);

/* Looks for the directory of an agent; `ret` is NULL when there is none, `path` its path. */
MUST_CHECK enum status legacy_list_agent(struct legacy_reading *reading, const char *agent,
                                         char path[SCOPE_PATH_MAX], const struct listing **ret);

/* Reads the facts below agents/lead-agent. */
MUST_CHECK enum status legacy_read_lead(struct legacy_reading *reading);

#endif
