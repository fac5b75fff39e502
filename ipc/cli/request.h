/* request.h - a command's request to the agent. */
#ifndef MEMSYNC_IPC_CLI_REQUEST_H
#define MEMSYNC_IPC_CLI_REQUEST_H

#include "ipc/cli/commands.h"

/* The parameters that the options stand for: whose memory, where the command takes that, and how
 * fresh. NULL after a complaint, e.g. because no user was given; the caller owns it. */
json_t *request_params(const struct cli *cli);

/* Adds text to the parameters; false, after a complaint, when it is not UTF-8. */
MUST_CHECK bool request_add_text(const struct cli *cli, json_t *params, const char *name,
                                 const char *text);

/* The same with bytes, among which may be a NUL. */
MUST_CHECK bool request_add_bytes(const struct cli *cli, json_t *params, const char *name,
                                  const char *bytes, size_t size);

/* Calls a method and reads its result, which the caller owns. With --json it is printed as it came.
 * Says on standard error what went wrong (with --json as one line of JSON, the error object), and
 * when the answer may be out of date. */
enum exit_code request_run(struct cli *cli, const char *method, const json_t *params, json_t **ret);

/* The same, silent: nothing is printed; `*ret_text` gets the result as it came, to be freed. */
enum exit_code request_run_quietly(struct cli *cli, const char *method, const json_t *params,
                                   json_t **ret, char **ret_text);

/* One line on standard error about all scopes of a result that did not answer with the full,
 * current truth; nothing when all did. */
void request_note_scopes(const struct cli *cli, const json_t *result);

/* Says on standard error that a scope has nothing, if that is so: its revision is 0, `things` (what
 * the answer has of it) too, and no file of it waits to be read or migrated. */
MUST_CHECK bool request_note_nothing(const struct cli *cli, const json_t *result,
                                     json_int_t revision, size_t things);

/* "memsync -u u1 COMMAND ARGUMENT": what to type for another command on the same scope, quoted for
 * a shell and harmless; to be freed. `argument` may be NULL. */
char *request_command_line(const struct cli *cli, const char *command, const char *argument);

/* Calls a method without parameters and says nothing: a code of memsync.h, with
 * memsync_last_error() for its words. The caller owns the result. */
MUST_CHECK int request_try(struct cli *cli, const char *method, json_t **ret);

/* Complains about a call that failed with this code and message, with --json as an error object:
 * `error`, the agent's own, or one of the client's when that is NULL. Tells the exit code. */
enum exit_code request_fail(const struct cli *cli, int code, const char *message,
                            const char *error);

/* Opens the client unless it is open. */
enum exit_code request_open(struct cli *cli);

/* The same about the last call of the client library. */
enum exit_code request_complain(const struct cli *cli, int code);

/* The text of a section of a memory's summaries: the entry itself in some files, or its member. */
const json_t *request_summary_text(const json_t *entry);

/* "user/agent" of an object with user_id and agent_name, harmless, to be freed. */
char *request_scope_name(const json_t *scope);

#endif
