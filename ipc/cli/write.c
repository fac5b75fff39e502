/* write.c - asks for a change. */
#include "ipc/cli/write.h"

#include "ipc/cli/facts.h"
#include "ipc/cli/json_text.h"
#include "ipc/cli/progress.h"

#include <stdio.h>
#include <string.h>

#define REQUEST_BYTES_SAFE 4096 /* no agent's limit is below */

/* Whether somebody is there who speaks our protocol. Nothing has been written when not. */
static enum exit_code greet(struct cli *cli)
{
    AUTO_JSON json_t *hello = NULL;

    int code = request_try(cli, "ping", &hello);
    if (code != MEMSYNC_OK)
        return request_complain(cli, code);
    json_int_t protocol = json_integer_value(json_object_get(hello, "protocol"));
    if (protocol == MEMSYNC_PROTOCOL)
        return EXIT_DONE;
    complain(cli->command, "the agent speaks protocol %" JSON_INTEGER_FORMAT ", this command %d",
             protocol, MEMSYNC_PROTOCOL);
    return EXIT_REFUSED;
}

/* An agent answers a request that is a little too large, and drops the connection at one that is
 * much too large; so it is asked before. One that does not tell its limit judges by itself. */
static enum exit_code check_size(struct cli *cli, size_t size)
{
    AUTO_JSON json_t *status = NULL;
    char message[200];

    if (size <= REQUEST_BYTES_SAFE || request_try(cli, "status", &status) != MEMSYNC_OK)
        return EXIT_DONE;
    json_int_t limit =
        json_integer_value(json_object_get(json_object_get(status, "ipc"), "max_message_bytes"));
    if (limit <= 0 || size <= (size_t) limit)
        return EXIT_DONE;
    (void) snprintf(message, sizeof message,
                    "the request has %zu bytes, and the agent takes %" JSON_INTEGER_FORMAT
                    " (ipc.max_message_bytes in its configuration); nothing was changed",
                    size, limit);
    return request_fail(cli, MEMSYNC_TOO_LARGE, message, NULL);
}

/* A fact that found no room, and a user without a memory to clear: the commands say what that is.
 */
static bool is_told_elsewhere(const json_t *result)
{
    return json_is_null(json_object_get(result, "fact_id")) ||
           (json_object_get(result, "cleared") &&
            json_integer_value(json_object_get(result, "revision")) == 0);
}

static void note_outcome(const struct cli *cli, const json_t *result)
{
    const char *index = json_string_value(json_object_get(result, "index"));

    if (is_told_elsewhere(result))
        return;
    if (json_is_false(json_object_get(result, "changed")))
        complain(cli->command, "nothing had to be changed");
    else if (index && strcmp(index, "behind") == 0)
        complain(cli->command, "done; the agent's index does not have it yet, and searches will "
                               "wait for it");
}

static int call(struct cli *cli, const char *method, const char *params, long timeout_ms,
                char **ret)
{
    struct progress *progress = progress_begin(cli, "waiting for the agent");
    long wait_ms = cli->options.given & OPTION_TIMEOUT ? cli->options.timeout_ms : timeout_ms;

    int code = memsync_call(cli->client, method, params, (int) wait_ms, ret);
    progress_end(&progress);
    return code;
}

static enum exit_code request(struct cli *cli, const char *method, const char *params,
                              long timeout_ms, bool is_trial, json_t **ret, char **ret_text)
{
    AUTO_FREE char *reply = NULL;

    enum exit_code checked = greet(cli);
    if (checked == EXIT_DONE)
        checked = check_size(cli, strlen(params));
    if (checked != EXIT_DONE)
        return checked;
    int code = call(cli, method, params, timeout_ms, &reply);
    if (code != MEMSYNC_OK)
        return write_complain(cli, code, reply, is_trial);
    *ret = json_text_load(reply);
    if (!*ret)
        return write_complain(cli, MEMSYNC_BAD_REPLY, NULL, is_trial);
    *ret_text = TAKE_PTR(reply);
    return EXIT_DONE;
}

enum exit_code write_run_text(struct cli *cli, const char *method, const char *params,
                              long timeout_ms, json_t **ret)
{
    AUTO_FREE char *text = NULL;

    enum exit_code code = request(cli, method, params, timeout_ms, false, ret, &text);
    if (code != EXIT_DONE)
        return code;
    if (cli->options.given & OPTION_JSON)
        (void) puts(text);
    note_outcome(cli, *ret);
    return EXIT_DONE;
}

enum exit_code write_try_text(struct cli *cli, const char *method, const char *params,
                              long timeout_ms, json_t **ret, char **ret_text)
{
    return request(cli, method, params, timeout_ms, true, ret, ret_text);
}

enum exit_code write_run(struct cli *cli, const char *method, const json_t *params, long timeout_ms,
                         json_t **ret)
{
    AUTO_FREE char *text = json_dumps(params, JSON_COMPACT);

    if (!text) {
        complain(cli->command, "out of memory");
        return EXIT_REFUSED;
    }
    return write_run_text(cli, method, text, timeout_ms, ret);
}

bool write_expect(json_t *params, const json_t *document, const json_t *result)
{
    json_t *revision = json_object_get(document, "revision");

    if (!json_is_integer(revision) ||
        json_is_true(json_object_get(json_object_get(result, "scope"), "unmigrated")))
        return true;
    return json_object_set(params, "expected_revision", revision) == 0;
}

const char *write_revision(const json_t *result, char text[WRITE_REVISION_BYTES])
{
    const json_t *revision = json_object_get(result, "revision");

    text[0] = '\0';
    if (json_is_integer(revision))
        (void) snprintf(text, WRITE_REVISION_BYTES, ", revision %" JSON_INTEGER_FORMAT,
                        json_integer_value(revision));
    return text;
}

void write_add_expected_revision(const struct cli *cli, json_t *params)
{
    if (cli->options.given & OPTION_EXPECT_REVISION)
        (void) json_object_set_new(params, "expected_revision",
                                   json_integer(cli->options.expected_revision));
}

enum exit_code write_tell_kept(const struct cli *cli, const json_t *result)
{
    const json_t *kept = json_object_get(result, "kept");

    complain_about_files(cli, "left where it is:", kept);
    return json_array_size(kept) > 0 ? EXIT_NOTHING : EXIT_DONE;
}
