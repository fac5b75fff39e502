/* core/legacy_collect.h - gathers the facts and problems of one reading of earlier layouts. Pure.
 */
#ifndef MEMSYNC_CORE_LEGACY_COLLECT_H
#define MEMSYNC_CORE_LEGACY_COLLECT_H

#include "core/legacy.h"

struct legacy_collect {
    json_t *by_id; /* id -> document */
    json_t *problems;
    json_t *files; /* as in the view, and what follows too */
    struct file_image agent_file;
    json_t *agent_root;
    const json_t *current; /* as legacy_read() was given it */
    bool found;
    bool has_lead;
};

/* `current` is borrowed for as long as facts are collected; NULL: none. Release it whatever the
 * status is: STATUS_NO_MEMORY. */
MUST_CHECK enum status legacy_collect_start(struct legacy_collect *collect, const json_t *current);

/* Takes the document over (NULL: out of memory). A second one under its id is dropped when it says
 * the same, else it is a problem of `path`. */
MUST_CHECK enum status legacy_collect_fact(struct legacy_collect *collect, const char *path,
                                           json_t *document);

/* Notes what could not be read at `path`, and why; the rest of the reading goes on. */
MUST_CHECK enum status legacy_collect_problem(struct legacy_collect *collect, const char *path,
                                              const char *format, ...) PRINTF(3, 4);

/* Notes that a fact file was read and understood. */
MUST_CHECK enum status legacy_collect_file(struct legacy_collect *collect, const char *path,
                                           uint64_t digest);

/* Moves everything to `ret`, facts sorted by id. */
MUST_CHECK enum status legacy_collect_end(struct legacy_collect *collect, struct legacy_view *ret);

void legacy_collect_destroy(struct legacy_collect *collect);
#define AUTO_LEGACY_COLLECT CLEANUP(legacy_collect_destroy)

#endif
