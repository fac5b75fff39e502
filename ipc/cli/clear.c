/* clear.c - clear, migrate. */
#include "ipc/cli/ask.h"
#include "ipc/cli/write.h"

#include <stdio.h>
#include <string.h>

#define NAMED_MAX 20 /* agents that a question names */
#define SCOPES_MAX 1000

static bool is_json(const struct cli *cli)
{
    return cli->options.given & OPTION_JSON;
}

static bool is_about_all(const struct cli *cli)
{
    return cli->options.given & OPTION_ALL;
}

/* How many facts an agent has now. */
static enum exit_code count_facts(struct cli *cli, const json_t *user, json_t *agent,
                                  json_int_t *ret)
{
    AUTO_JSON json_t *params =
        json_pack("{s:O, s:O, s:i}", "user_id", user, "agent_name", agent, "limit", 1);
    AUTO_JSON json_t *result = NULL;
    AUTO_FREE char *text = NULL;

    enum exit_code code = request_run_quietly(cli, "list_facts", params, &result, &text);
    if (code != EXIT_DONE)
        return code;
    request_note_scopes(cli, result);
    *ret = json_integer_value(json_object_get(result, "count"));
    return EXIT_DONE;
}

static enum exit_code describe_agent(struct cli *cli, FILE *statement, const json_t *user,
                                     json_t *agent)
{
    json_int_t count = 0;

    enum exit_code code = count_facts(cli, user, agent, &count);
    (void) fprintf(statement, "\n  %s: %" JSON_INTEGER_FORMAT " fact%s", json_string_value(agent),
                   count, count == 1 ? "" : "s");
    return code;
}

/* The agents that the index knows of; counting the facts of one first has made it look. */
static enum exit_code describe_agents(struct cli *cli, FILE *statement, json_t *user)
{
    AUTO_JSON json_t *params = json_pack("{s:O, s:i}", "user_id", user, "limit", SCOPES_MAX);
    AUTO_JSON json_t *usual = json_string("__default__");
    AUTO_JSON json_t *result = NULL;
    AUTO_FREE char *text = NULL;

    enum exit_code code = describe_agent(cli, statement, user, usual);
    if (code == EXIT_DONE)
        code = request_run_quietly(cli, "scopes", params, &result, &text);
    const json_t *scopes = json_object_get(result, "scopes");
    for (size_t i = 0; code == EXIT_DONE && i < json_array_size(scopes); i++) {
        json_t *agent = json_object_get(json_array_get(scopes, i), "agent_name");
        if (i == NAMED_MAX) {
            (void) fputs("\n  and those of other agents", statement);
            break;
        }
        if (json_is_string(agent) && !json_equal(agent, usual))
            code = describe_agent(cli, statement, user, agent);
    }
    return code;
}

static enum exit_code describe(struct cli *cli, FILE *statement, const json_t *params)
{
    json_t *user = json_object_get(params, "user_id");
    json_t *agent = json_object_get(params, "agent_name");
    AUTO_FREE char *name = request_scope_name(params);

    if (agent) {
        (void) fprintf(statement, "this clears all facts of %s:", name ? name : "");
        enum exit_code code = describe_agent(cli, statement, user, agent);
        if (cli->options.given & OPTION_ERASE)
            (void) fputs("\nand what is kept of its memory in earlier formats", statement);
        return code;
    }
    (void) fprintf(statement, "this clears all facts and the text of all summaries of %s:",
                   json_is_string(user) ? json_string_value(user) : "(no user)");
    enum exit_code code = describe_agents(cli, statement, user);
    if (cli->options.given & OPTION_ERASE)
        (void) fputs("\nand what is kept of memories in earlier formats", statement);
    return code;
}

/* What is shown next must still be so when it is cleared. */
static enum exit_code expect_present(struct cli *cli, json_t *params)
{
    AUTO_JSON json_t *result = NULL;
    AUTO_FREE char *text = NULL;

    enum exit_code code = request_run_quietly(cli, "get_summaries", params, &result, &text);
    if (code != EXIT_DONE || write_expect(params, json_object_get(result, "summaries"), result))
        return code;
    complain(cli->command, "out of memory");
    return EXIT_REFUSED;
}

static enum exit_code confirm(struct cli *cli, json_t *params)
{
    AUTO_FREE char *statement = NULL;
    size_t size = 0;

    if (ask_is_answered(cli))
        return EXIT_DONE;
    enum exit_code code = expect_present(cli, params);
    if (code != EXIT_DONE)
        return code;
    FILE *file = open_memstream(&statement, &size);
    if (!file)
        return EXIT_REFUSED;
    code = describe(cli, file, params);
    if (fclose(file) != 0)
        return EXIT_REFUSED;
    return code == EXIT_DONE ? ask(cli, false, statement) : code;
}

static void print_cleared(const json_t *result)
{
    const json_t *agents = json_object_get(result, "agents");
    json_int_t erased = json_integer_value(json_object_get(result, "erased"));
    char revision[WRITE_REVISION_BYTES];

    (void) printf("cleared %" JSON_INTEGER_FORMAT " facts of %zu agents",
                  json_integer_value(json_object_get(result, "cleared")), json_array_size(agents));
    if (erased > 0)
        (void) printf(", erased %" JSON_INTEGER_FORMAT " cop%s in earlier formats", erased,
                      erased == 1 ? "y" : "ies");
    (void) printf("%s\n", write_revision(result, revision));
}

/* Something that cannot be read is not cleared either. */
static enum exit_code tell_kept(const struct cli *cli, const json_t *kept)
{
    for (size_t i = 0; i < json_array_size(kept); i++) {
        const json_t *one = json_array_get(kept, i);
        const char *path = json_string_value(json_object_get(one, "path"));
        const char *problem = json_string_value(json_object_get(one, "problem"));
        complain(cli->command, "left where it is: %s: %s", path ? path : "a file",
                 problem ? problem : "it is damaged");
    }
    return json_array_size(kept) > 0 ? EXIT_NOTHING : EXIT_DONE;
}

/* MEMSYNC_AGENT does not count: what is cleared is on the command line. */
static bool check_clear(const struct cli *cli)
{
    bool has_agent = cli->options.given & OPTION_AGENT;

    if (has_agent != is_about_all(cli))
        return true;
    complain(cli->command,
             has_agent ? "-a and --all exclude each other"
                       : "of which agent? Give -a AGENT (-a __default__ for the default one), or "
                         "--all for every agent and the summaries");
    return false;
}

enum exit_code run_clear(struct cli *cli)
{
    AUTO_JSON json_t *params = check_clear(cli) ? request_params(cli) : NULL;
    AUTO_JSON json_t *result = NULL;
    const char *method = cli->options.given & OPTION_ERASE ? "delete_memory" : "clear_memory";

    if (!params)
        return EXIT_USAGE;
    if (is_about_all(cli))
        (void) json_object_del(params, "agent_name");
    enum exit_code code = confirm(cli, params);
    if (code != EXIT_DONE)
        return code;
    if (is_about_all(cli))
        (void) json_object_set_new(params, "all", json_true());
    code = write_run(cli, method, params, WRITE_LONG_TIMEOUT_MS, &result);
    if (code != EXIT_DONE)
        return code;
    if (!is_json(cli))
        print_cleared(result);
    return tell_kept(cli, json_object_get(result, "kept"));
}

/* A version as it is told; it may be a number in old files. */
static char *version_text(const json_t *result, const char *name)
{
    const json_t *version = json_object_get(result, name);
    AUTO_FREE char *text = json_is_string(version)
                               ? strdup(json_string_value(version))
                               : json_dumps(version, JSON_ENCODE_ANY | JSON_COMPACT);

    return text ? screen_line(text, strlen(text), true) : NULL;
}

enum exit_code run_migrate(struct cli *cli)
{
    AUTO_JSON json_t *params = request_params(cli);
    AUTO_JSON json_t *result = NULL;
    char revision[WRITE_REVISION_BYTES];

    if (!params)
        return EXIT_USAGE;
    enum exit_code code = write_run(cli, "migrate", params, WRITE_LONG_TIMEOUT_MS, &result);
    if (code != EXIT_DONE || is_json(cli))
        return code;
    if (!json_is_true(json_object_get(result, "migrated"))) {
        (void) puts("nothing to migrate");
        return code;
    }
    AUTO_FREE char *from = version_text(result, "from_version");
    AUTO_FREE char *to = version_text(result, "to_version");
    (void) printf("migrated from %s to %s: %" JSON_INTEGER_FORMAT " facts%s\n", from ? from : "?",
                  to ? to : "?", json_integer_value(json_object_get(result, "facts")),
                  write_revision(result, revision));
    return code;
}
