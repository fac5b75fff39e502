/* request.c - asks the agent and turns what comes back into exit codes. */
#include "ipc/cli/request.h"

#include "ipc/cli/json_text.h"

#include <stdio.h>
#include <string.h>

bool request_add_text(const struct cli *cli, json_t *params, const char *name, const char *text)
{
    json_t *value = json_string(text);

    if (value && json_object_set_new(params, name, value) == 0)
        return true;
    complain(cli->command, "that %s is not UTF-8 text", name);
    return false;
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
                 cli->command->options & OPTION_ALL ? ", or --all" : "");
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
    /* Another volume is accepted for everybody. */
    bool has_scope = (cli->command->options & OPTION_AGENT) &&
                     !(options->given & (OPTION_ALL | OPTION_ACCEPT_VOLUME));

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

enum exit_code request_complain(const struct cli *cli, int code)
{
    if (code == MEMSYNC_INTERRUPTED)
        return EXIT_SIGNAL; /* main() knows which; nothing to say */
    complain(cli->command, "%s", memsync_last_error());
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

char *request_scope_name(const json_t *scope)
{
    const json_t *user = json_object_get(scope, "user_id");
    const json_t *agent = json_object_get(scope, "agent_name");
    AUTO_FREE char *name = NULL;

    if (asprintf(&name, "%s/%s", json_is_string(user) ? json_string_value(user) : "(no user)",
                 json_is_string(agent) ? json_string_value(agent) : "(default)") < 0) {
        name = NULL;
        return NULL;
    }
    return screen_line(name, strlen(name), true);
}

static bool is_current(const json_t *scope)
{
    const char *state = json_string_value(json_object_get(scope, "state"));

    return !state || strcmp(state, "fresh") == 0 || strcmp(state, "refreshed") == 0;
}

/* Present and neither false, 0 nor empty. */
static bool is_set(const json_t *value)
{
    return json_is_true(value) || json_integer_value(value) > 0 || json_array_size(value) > 0;
}

static void describe_state(FILE *file, const json_t *scope)
{
    const json_t *age = json_object_get(scope, "age_ms");
    const char *reason = json_string_value(json_object_get(scope, "reason"));

    (void) fprintf(file, " is %s", json_string_value(json_object_get(scope, "state")));
    if (json_is_number(age))
        (void) fprintf(file, ", last compared %.1f s ago", json_number_value(age) / 1000);
    if (reason)
        (void) fprintf(file, " (%s)", reason);
}

static void describe_scope(FILE *file, const json_t *scope)
{
    AUTO_FREE char *name = request_scope_name(scope);
    bool is_behind = !is_current(scope);

    (void) fputs(name ? name : "", file);
    if (is_behind)
        describe_state(file, scope);
    if (is_set(json_object_get(scope, "unmigrated")))
        (void) fprintf(file, "%s has facts in the old format, which are not migrated yet",
                       is_behind ? " and" : "");
    else if (is_set(json_object_get(scope, "broken")))
        (void) fprintf(file, "%s has files that cannot be read (`memsync list` names them)",
                       is_behind ? " and" : "");
}

static bool is_worth_a_note(const json_t *scope)
{
    return json_is_object(scope) &&
           (!is_current(scope) || is_set(json_object_get(scope, "unmigrated")) ||
            is_set(json_object_get(scope, "broken")));
}

void request_note_scopes(const struct cli *cli, const json_t *result)
{
    json_t *scopes = json_object_get(result, "scopes");
    json_t *scope = json_object_get(result, "scope");
    AUTO_FREE char *note = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&note, &size);

    if (!file)
        return;
    size_t count = json_is_array(scopes) ? json_array_size(scopes) : 1;
    for (size_t i = 0; i < count; i++) {
        const json_t *one = json_is_array(scopes) ? json_array_get(scopes, i) : scope;
        if (!is_worth_a_note(one))
            continue;
        (void) fputs(ftell(file) > 0 ? "; " : "", file);
        describe_scope(file, one);
    }
    if (fclose(file) == 0 && size > 0)
        complain(cli->command, "%s", note);
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
        return request_complain(cli, code);
    json_t *result = json_text_load(reply);
    if (!result) {
        complain(cli->command, "the agent's answer cannot be read");
        return EXIT_CORRUPT;
    }
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
