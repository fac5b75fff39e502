/* backends/deermem_write.h - what the writing methods share: running a write, and telling of it.
 */
#ifndef MEMSYNC_BACKENDS_DEERMEM_WRITE_H
#define MEMSYNC_BACKENDS_DEERMEM_WRITE_H

#include "backends/deermem.h"

/* A write of one call, before its build is known. */
struct deermem_write {
    struct backend *backend;
    const struct backend_call *call;
};

/* Runs `build` with `write` as the beginning of its context. STATUS_WOULD_BLOCK on a thread that
 * must not wait. */
MUST_CHECK enum status deermem_write_run(const struct deermem_write *write,
                                         const struct write_request *how, struct write_result *ret,
                                         struct error *error);

/* Tells what `build` would come to, and writes nothing; as writer_try(). */
MUST_CHECK enum status deermem_write_try(const struct deermem_write *write,
                                         const struct write_request *how, struct write_result *ret,
                                         bool *ret_unmigrated, struct error *error);

/* Appends "revision":..,"changed":..,"last_updated":..,"index":..,"attempts":.. */
void deermem_write_common(struct text *result, const struct write_result *write);

/* Appends the members that another method answers with, e.g. `,"memory":{...},"scope":{...}`. */
MUST_CHECK enum status deermem_append_answer(struct backend *backend,
                                             const struct backend_call *call, backend_method method,
                                             struct text *result, struct error *error);

/* The same with deermem_get_memory(), if the call's parameter `memory` is true. */
MUST_CHECK enum status deermem_append_memory(struct backend *backend,
                                             const struct backend_call *call, struct text *result,
                                             struct error *error);

/* Ends the answer of a write, of which `status` says whether all of it could be told. Where it
 * could not although something was changed, the error says that the change may be there. `written`
 * NULL: nothing was. */
MUST_CHECK enum status deermem_end_answer(struct text *result, enum status status,
                                          const struct write_result *written, struct error *error);

/* Appends `,"kept":[...]`: fact files of these agents (an array of names) that a write left where
 * they are, since they cannot be understood: nobody has seen what is in them. */
MUST_CHECK enum status deermem_append_kept(struct backend *backend, const struct backend_call *call,
                                           const json_t *agents, struct text *result,
                                           struct error *error);

/* STATUS_INVALID when `memory` is no truth value: asked before anything is written. */
MUST_CHECK enum status deermem_check_memory(const struct backend_call *call, struct error *error);

/* The parameter `expected_revision`, of the manifest. */
MUST_CHECK enum status deermem_take_revision(const json_t *params, bool *ret_given, int64_t *ret,
                                             struct error *error);

/* A fact_id parameter that a fact can have. */
MUST_CHECK enum status deermem_take_id(const json_t *params, const char **ret, struct error *error);

/* Copies what a request gives for a fact into a document: `content`, `category`, `confidence`,
 * `topics`, `source`, `source_error`; what is missing or null is left as it is. */
MUST_CHECK enum status deermem_copy_fields(const json_t *params, json_t *fact, struct error *error);

/* Adds removals of these facts (documents), each at the revision that it has. */
MUST_CHECK enum status deermem_add_deletes(struct change_set *set, const json_t *facts,
                                           struct error *error);

/* STATUS_INVALID, naming `param`.`group`.`name`, unless a section of summaries is an object whose
 * `summary`, if it has one, is text. Readers look for nothing else, so that anything else would put
 * an end to the text that was stored. A section of another program's may be text itself, as some
 * write it. */
MUST_CHECK enum status deermem_check_section(const json_t *section, const char *param,
                                             const char *group, const char *name,
                                             struct error *error);

#endif
