/* core/migration.h - a memory of an earlier layout becomes one of today, before the first write.
 *
 * What is found is what core/legacy.h tells, and what comes of it is what reading it shows: facts
 * become files of their own, the manifest gets its present version and loses its facts, summaries
 * of an agent's own file fill the user's empty ones. First everything is read and checked; what
 * cannot be taken over stops the migration with nothing changed. Then a copy of each old file is
 * kept as NAME.v1.bak, durably, then the change is committed with a journal like any other (one
 * commit an agent that gets facts), and last the old files that no commit replaces are removed.
 * Killed anywhere, the next one finishes it.
 *
 * Runs under the user's lock, in a session (core/write_session.h).
 */
#ifndef MEMSYNC_CORE_MIGRATION_H
#define MEMSYNC_CORE_MIGRATION_H

#include "core/write_session.h"

struct migration_request {
    const struct scope *scope; /* with the agent that is going to be written */
    bool has_agent;            /* false: its own old files do not matter, the manifest's facts do */
    bool without_summaries;    /* those in the agent's own file do not matter */
    bool without_problems;     /* what cannot be taken over from an old file is left behind in its
                                  copy; what lies in agents/lead-agent still stops it */
    bool force_agent;          /* the manifest's facts become this agent's, not the default one's */
};

struct migration_result {
    bool migrated;        /* false: there was nothing to migrate */
    json_t *from_version; /* what the old file, or else the manifest, says; NULL: nothing */
    uint64_t facts;       /* that became files */
    int64_t revision;     /* of the manifest, now */
};
void migration_result_destroy(struct migration_result *result);
#define AUTO_MIGRATION_RESULT CLEANUP(migration_result_destroy)

/* Migrates what concerns the scope, if there is anything; the session's manifest is loaded, before
 * and afterwards. STATUS_CONFLICT with the member `reason` "migration": something cannot be taken
 * over, the path and the message tell what. STATUS_CORRUPT: a fact file that is in the way cannot
 * be understood. Else as writes. Scopes of the user whose rows may be behind are forgotten by the
 * index, also when it stopped half way. */
MUST_CHECK enum status migration_run(struct write_session *session,
                                     const struct migration_request *request,
                                     struct migration_result *ret, struct error *error);

/* Whether agents/lead-agent is the earlier default agent's. Nothing may be added there then: the
 * peers refuse to migrate it with anything but facts in it. */
MUST_CHECK enum status migration_awaits_lead(const struct write_session *session, bool *ret,
                                             struct error *error);

#endif
