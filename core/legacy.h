/* core/legacy.h - what lies on a volume in earlier layouts, shown as it will be after migration.
 *
 * The peers migrate when they read, we do before the first write (core/migration.h). Nothing here
 * writes. Four things are known:
 *
 *   - a manifest of layout 1 with a list of facts, or with a mapping from id to file: these belong
 *     to the default agent
 *   - such a manifest without facts: there is nothing to show, it only waits for its new version
 *   - agents/<agent>/memory.json, a version 1 file of one agent: its facts belong to that agent
 *   - agents/lead-agent without a config.yaml, the earlier place of the default agent's facts
 *
 * What cannot be taken over is told as a problem and left out; the rest is shown. Dates and ids
 * that old facts lack are made up from what is there, so that two readings agree. The sections of
 * an agent's file (user, history) are not shown; a migration finds them in the file's tree.
 *
 * Thread-safe, as the volume is. Names are opened only after a listing has shown them.
 */
#ifndef MEMSYNC_CORE_LEGACY_H
#define MEMSYNC_CORE_LEGACY_H

#include "core/manifest.h"
#include "core/scope.h"
#include "core/volume.h"

#define LEGACY_AGENT_FILE "memory.json"

struct legacy_view {
    bool found;       /* something that concerns the scope waits for migration */
    json_t *facts;    /* an array of documents, sorted by id */
    json_t *problems; /* an array of {"path": relative to the volume, "problem": text} */
    bool has_lead;    /* agents/lead-agent is there, and no real agent's; perhaps empty inside */
    json_t *files;    /* the fact files that were read: path -> signature_digest() as an integer */
    struct file_image agent_file; /* the agent's own old file; empty without one */
    json_t *agent_root;           /* what it says; NULL unless it could be understood */
};

/* Where to look. */
enum legacy_source {
    LEGACY_FROM_LIST = 1, /* the manifest's list or mapping; it becomes the scope's, whichever */
    LEGACY_FROM_AGENT_FILE = 2, /* agents/<agent>/memory.json */
    LEGACY_FROM_LEAD = 4,       /* agents/lead-agent */
};

struct legacy_request {
    const struct volume *volume;
    const struct scope *scope;
    unsigned sources; /* of enum legacy_source */
    const char *manifest_name;
    const struct manifest *manifest; /* the bucket's, by that name; NULL when there is none */
    const json_t *current;           /* as legacy_read() takes it */
};

/* True when legacy_read() would find something, as far as listings tell: no I/O, for marking a
 * scope unmigrated. `manifest` is NULL when the bucket has none. `agent_directory` lists
 * agents/<agent> and `lead_directory` agents/lead-agent; NULL for one that is not there. A
 * lead-agent directory that is not empty counts, though it may turn out to hold only empty
 * directories. */
bool legacy_is_possible(const struct scope *scope, const struct manifest *manifest,
                        const struct listing *agent_directory,
                        const struct listing *lead_directory);

/* Reads what waits for migration. A listing must have shown the scope's bucket before.
 *
 * `manifest` is the bucket's, by the name `manifest_name`, or NULL when there is none. `current`
 * (may be NULL) maps the ids that the scope has already, in files of its own, to their documents:
 * those facts are not shown again, and told as a problem where they differ.
 *
 * The caller clears `ret` with legacy_view_destroy(). STATUS_STALE, STATUS_IO and the like mean
 * that something listed could not be read; then nothing is known. */
MUST_CHECK enum status legacy_read(const struct volume *volume, const struct scope *scope,
                                   const char *manifest_name, const struct manifest *manifest,
                                   const json_t *current, struct legacy_view *ret,
                                   struct error *error);

/* The same from some sources only. */
MUST_CHECK enum status legacy_read_sources(const struct legacy_request *request,
                                           struct legacy_view *ret, struct error *error);

void legacy_view_destroy(struct legacy_view *view);
#define AUTO_LEGACY_VIEW CLEANUP(legacy_view_destroy)

#endif
