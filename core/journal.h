/* core/journal.h - .memory.journal.json: what a commit is about to do, so that it can be undone.
 *
 * Pure: no I/O. Every name in a parsed journal has passed its grammar, so it may form a path. A
 * journal that cannot be trusted in every part is STATUS_CORRUPT and must be left alone: an
 * operation id that is no plain name (`..`!), an unknown state, an agent that is no agent name, ids
 * outside their grammar, old paths that are not the fact's own place below agents/<agent>/facts, a
 * missing list or revision. Of a committed journal only operation id and state must be
 * sound, since it is just cleaned up: with anything odd in the rest it comes without agent, facts
 * and revisions.
 */
#ifndef MEMSYNC_CORE_JOURNAL_H
#define MEMSYNC_CORE_JOURNAL_H

#include "core/scope.h"
#include "core/text.h"

#define JOURNAL_NAME ".memory.journal.json"
#define JOURNAL_LOCK_NAME ".memory.lock"
#define JOURNAL_RECOVERY_DIR ".recovery"
#define JOURNAL_BYTES_MAX (64u << 20)

enum journal_state { JOURNAL_PREPARED, JOURNAL_COMMITTED };

struct journal_old_entry {
    char *fact_id;
    char *path; /* relative to the bucket, e.g. agents/a/facts/99/f_old.md */
};

struct journal {
    char *operation_id; /* [A-Za-z0-9_-]+, the name of its directory below .recovery/ */
    enum journal_state state;
    bool has_agent; /* false: summaries only, no facts */
    char agent[SCOPE_NAME_MAX + 1];
    int64_t expected_revision; /* 0: there was no manifest before */
    int64_t next_revision;
    char **fact_ids; /* every fact that the commit writes or deletes */
    size_t fact_count;
    struct journal_old_entry *old_entries; /* the facts that existed before, each with a backup;
                                              sorted by id */
    size_t old_count;
};

/* True for a plain name that an operation may have. */
bool journal_operation_id_is_valid(const char *text);

/* STATUS_CORRUPT with the reason in the error's message; its path is left alone. The caller owns
 * `ret`. */
MUST_CHECK enum status journal_parse(const char *bytes, size_t size, struct journal **ret,
                                     struct error *error);
void journal_destroy(struct journal **journal);

static inline void cleanup_journal(struct journal **journal)
{
    journal_destroy(journal);
}
#define AUTO_JOURNAL CLEANUP(cleanup_journal)

/* The old entry of a fact (then a backup must exist), or NULL. Borrowed; by binary search. */
const struct journal_old_entry *journal_find_old(const struct journal *journal,
                                                 const char *fact_id);

/* Appends the journal as the peers lay it out (no final newline); text_ok() tells whether memory
 * ran out. All names in it must keep their grammars; then journal_parse() gives it back. */
void journal_write(const struct journal *journal, struct text *text);

#endif
