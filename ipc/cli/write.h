/* write.h - requests that change memory.
 *
 * What sets them apart: the agent is greeted first, so that a later silence means "it may have been
 * done"; they get more time; errors come with what to do about them.
 */
#ifndef MEMSYNC_IPC_CLI_WRITE_H
#define MEMSYNC_IPC_CLI_WRITE_H

#include "ipc/cli/request.h"

/* Unless --timeout says otherwise. The agent gives no request more than the longer one. */
#define WRITE_TIMEOUT_MS 30000
#define WRITE_LONG_TIMEOUT_MS 600000

/* Calls a method that writes, and reads its result, which the caller owns. With --json it is
 * printed as it came. Notes on standard error say when nothing had to change, and when the index
 * does not have the change yet. After a failure that has been explained as well. */
enum exit_code write_run(struct cli *cli, const char *method, const json_t *params, long timeout_ms,
                         json_t **ret);

/* The same with the parameters as the text of an object, whose values are sent as they are spelt.
 */
enum exit_code write_run_text(struct cli *cli, const char *method, const char *params,
                              long timeout_ms, json_t **ret);

/* The same for a request that changes nothing but is refused as the change would be; it prints
 * nothing. `ret_text` gets the answer as it came, to be freed. */
enum exit_code write_try_text(struct cli *cli, const char *method, const char *params,
                              long timeout_ms, json_t **ret, char **ret_text);

/* What --expect-revision says, if it was given. */
void write_add_expected_revision(const struct cli *cli, json_t *params);

/* Names on standard error the files that were left, since they cannot be read: EXIT_NOTHING when
 * there are any, else EXIT_DONE. */
enum exit_code write_tell_kept(const struct cli *cli, const json_t *result);

/* Makes a write conditional on the memory being as it was shown before the question: `document` (as
 * get_memory or get_summaries gives it) tells the revision, `result` whether the memory has to be
 * migrated first, which would move it. False when out of memory. */
MUST_CHECK bool write_expect(json_t *params, const json_t *document, const json_t *result);

/* ", revision 18" of a result, or "" where it has none, in `text`. */
#define WRITE_REVISION_BYTES 40
const char *write_revision(const json_t *result, char text[WRITE_REVISION_BYTES]);

/* write_error.c: complains about a write that failed. `error` is the agent's error object as text,
 * or NULL; `is_trial`: nothing can have been done. Tells the exit code. */
enum exit_code write_complain(const struct cli *cli, int code, const char *error, bool is_trial);

#endif
