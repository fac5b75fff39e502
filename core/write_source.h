/* core/write_source.h - what a draft asks for, from the volume and the index, under the user's
 * lock.
 *
 * Single facts are read from their files. What concerns all facts of the agent comes from the
 * index, which is brought in step first: with the lock held nobody moves either.
 */
#ifndef MEMSYNC_CORE_WRITE_SOURCE_H
#define MEMSYNC_CORE_WRITE_SOURCE_H

#include "core/write_session.h"

struct write_source {
    struct write_session *session;
    struct scope scope; /* with the agent */
    bool is_open;       /* a snapshot of the index is */
    bool in_index;
    struct index_scope row;
    bool is_empty; /* known, and not only by the index: the agent has no facts */
    bool was_listed;
    bool is_misled; /* a fact of the list cannot be read from its file: somebody broke that without
                       touching the manifest, so the index counts as in step and still shows it; or
                       what has the wanted content by the index has not by its file */
    bool contradicts; /* the same of a fact that was looked at by its id, and that is another one in
                         its file, or not there, or only there */
};

/* Which facts a draft asks for. */
enum write_source_need {
    WRITE_SOURCE_SOME,     /* by id */
    WRITE_SOURCE_ALL,      /* so the index has to be in step */
    WRITE_SOURCE_RELISTED, /* also those that somebody put there without the manifest: every
                              directory is listed first */
};

/* Opens the index for a draft of `scope`. The session must outlive it. */
MUST_CHECK enum status write_source_open(struct write_session *session, const struct scope *scope,
                                         enum write_source_need need, struct write_source *ret,
                                         struct error *error);
void write_source_close(struct write_source *source);
#define AUTO_WRITE_SOURCE CLEANUP(write_source_close)

/* For a source that was misled, once it is closed: has every file of the scope read anew, so that
 * another source does not list what is broken. Once is enough; if it fails, that one finds the same
 * fault again. */
void write_source_reread(struct write_session *session, const struct scope *scope);

/* Compares with the index what the draft found and leaves as it is, and notes in `contradicts` what
 * differs; for an index that counts as in step, before the source is closed. What the draft changes
 * is put right by its own commit. */
void write_source_check(struct write_source *source, const struct draft *draft);

/* The functions for draft_create(); `source` must stay where it is. */
struct draft_source write_source_functions(struct write_source *source);

#endif
