/* request.c - asks the agent and turns what comes back into exit codes. */
#include "ipc/cli/request.h"

#include "ipc/cli/json_text.h"

#include <stdio.h>
#include <string.h>

bool request_add_bytes(const struct cli *cli, json_t *params, const char *name, const char *bytes,
                       size_t size)
{
    json_t *value = json_stringn(bytes, size);

    if (value && json_object_set_new(params, name, value) == 0)
        return true;
    complain(cli->command, "that %s is not UTF-8 text", name);
    return false;
}

bool request_add_text(const struct cli *cli, json_t *params, const char *name, const char *text)
{
    return request_add_bytes(cli, params, name, text, strlen(text));
}

static bool add_optional_text(const struct cli *cli, json_t *params, const char *name,
                              const char *text)
{
    return !text || request_add_text(cli, params, name, text);
}

static bool add_scope(const struct cli *cli, json_t *params)
{
    const struct options *options = &cli->options;

    if (!options->user && !(options->given & OPTION_NO_USER)) {
        complain(cli->command,
                 "whose memory? Give -u USER or set MEMSYNC_USER, or give --no-user for the memory "
                 "that belongs to no user%s",
                 cli->command->options & OPTION_ACCEPT_VOLUME ? ", or --all" : "");
        return false;
    }
    (void) json_object_set_new(params, "user_id", json_null());
    (void) json_object_set_new(params, "agent_name", json_null());
    return add_optional_text(cli, params, "user_id", options->user) &&
           add_optional_text(cli, params, "agent_name", options->agent);
}

json_t *request_params(const struct cli *cli)
{
    const struct options *options = &cli->options;
    AUTO_JSON json_t *params = json_object();
    /* Another volume is accepted for everybody, and who accepts one can also ask for all. */
    bool is_about_everybody = (cli->command->options & OPTION_ACCEPT_VOLUME) &&
                              (options->given & (OPTION_ALL | OPTION_ACCEPT_VOLUME));
    bool has_scope = (cli->command->options & OPTION_AGENT) && !is_about_everybody;

    if (has_scope && !add_scope(cli, params))
        return NULL;
    if (!add_optional_text(cli, params, "freshness", options->freshness) ||
        !add_optional_text(cli, params, "category", options->category))
        return NULL;
    if (options->given & OPTION_MAX_STALENESS)
        (void) json_object_set_new(params, "max_staleness_ms",
                                   json_integer(options->max_staleness_ms));
    if (options->given & OPTION_TOP_K)
        (void) json_object_set_new(params, "top_k", json_integer(options->top_k));
    return TAKE_PTR(params);
}

enum exit_code request_open(struct cli *cli)
{
    if (cli->client)
        return EXIT_DONE;
    int code = memsync_open(cli->options.endpoint, &cli->client);
    if (code != MEMSYNC_OK)
        return request_complain(cli, code);
    stop_interrupts(cli->client);
    return EXIT_DONE;
}

/* The error as one line of JSON: the agent's as it came, the client's own in the same form. */
static void print_error_object(int code, const char *message, const char *error)
{
    if (error) {
        (void) fputs("{\"error\":", stderr);
        for (; *error; error++)
            (void) fputc(*error == '\n' || *error == '\r' ? ' ' : *error, stderr);
        (void) fputs("}\n", stderr);
        return;
    }
    json_t *words = json_string(message);
    AUTO_JSON json_t *object = json_pack("{s:{s:i, s:o, s:{s:s}}}", "error", "code", code,
                                         "message", words ? words : json_string("(not UTF-8)"),
                                         "data", "kind", memsync_code_name(code));
    AUTO_FREE char *text = json_dumps(object, JSON_COMPACT);
    (void) fprintf(stderr, "%s\n", text ? text : "{\"error\":{}}");
}

enum exit_code request_fail(const struct cli *cli, int code, const char *message, const char *error)
{
    if (code == MEMSYNC_INTERRUPTED)
        return EXIT_SIGNAL; /* main() knows which; nothing to say */
    if (cli->options.given & OPTION_JSON)
        print_error_object(code, message, error);
    else
        complain(cli->command, "%s", message);
    switch (code) {
    case MEMSYNC_NO_AGENT:
        return EXIT_NO_AGENT;
    case MEMSYNC_BAD_ENDPOINT:
    case MEMSYNC_BAD_PARAMS:
        return EXIT_USAGE;
    case MEMSYNC_NOT_FOUND:
        return EXIT_NOTHING;
    case MEMSYNC_CORRUPT:
    case MEMSYNC_BAD_REPLY:
        return EXIT_CORRUPT;
    default:
        return EXIT_REFUSED;
    }
}

enum exit_code request_complain(const struct cli *cli, int code)
{
    return request_fail(cli, code, memsync_last_error(), NULL);
}

int request_try(struct cli *cli, const char *method, json_t **ret)
{
    AUTO_FREE char *reply = NULL;
    int code = MEMSYNC_OK;

    if (!cli->client)
        code = memsync_open(cli->options.endpoint, &cli->client);
    if (code != MEMSYNC_OK)
        return code;
    stop_interrupts(cli->client);
    code = memsync_call(cli->client, method, NULL, (int) cli->options.timeout_ms, &reply);
    if (code != MEMSYNC_OK)
        return code;
    *ret = json_text_load(reply);
    return *ret ? MEMSYNC_OK : MEMSYNC_BAD_REPLY;
}

enum exit_code request_run_quietly(struct cli *cli, const char *method, const json_t *params,
                                   json_t **ret, char **ret_text)
{
    AUTO_FREE char *text = params ? json_dumps(params, JSON_COMPACT) : NULL;
    AUTO_FREE char *reply = NULL;

    enum exit_code opened = request_open(cli);
    if (opened != EXIT_DONE)
        return opened;
    int code = memsync_call(cli->client, method, text, (int) cli->options.timeout_ms, &reply);
    if (code != MEMSYNC_OK)
        return request_fail(cli, code, memsync_last_error(), reply);
    json_t *result = json_text_load(reply);
    if (!result)
        return request_fail(cli, MEMSYNC_BAD_REPLY, "the agent's answer cannot be read", NULL);
    *ret = result;
    *ret_text = TAKE_PTR(reply);
    return EXIT_DONE;
}

enum exit_code request_run(struct cli *cli, const char *method, const json_t *params, json_t **ret)
{
    AUTO_FREE char *text = NULL;

    enum exit_code code = request_run_quietly(cli, method, params, ret, &text);
    if (code != EXIT_DONE)
        return code;
    if (cli->options.given & OPTION_JSON)
        (void) puts(text);
    if (cli->command->options & OPTION_AGENT)
        request_note_scopes(cli, *ret);
    return EXIT_DONE;
}
