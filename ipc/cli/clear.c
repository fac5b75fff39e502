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

/* What a question says, and how many facts that are. */
struct survey {
    FILE *statement;
    json_int_t facts;
};

static enum exit_code describe_agent(struct cli *cli, struct survey *survey, const json_t *user,
                                     json_t *agent)
{
    FILE *statement = survey->statement;
    json_int_t count = 0;

    enum exit_code code = count_facts(cli, user, agent, &count);
    survey->facts += count;
    (void) fprintf(statement, "\n  %s: %" JSON_INTEGER_FORMAT " fact%s", json_string_value(agent),
                   count, count == 1 ? "" : "s");
    return code;
}

/* The agents that the index knows of; counting the facts of one first has made it look. */
static enum exit_code describe_agents(struct cli *cli, struct survey *survey, json_t *user)
{
    AUTO_JSON json_t *params = json_pack("{s:O, s:i}", "user_id", user, "limit", SCOPES_MAX);
    AUTO_JSON json_t *usual = json_string("__default__");
    AUTO_JSON json_t *result = NULL;
    AUTO_FREE char *text = NULL;

    enum exit_code code = describe_agent(cli, survey, user, usual);
    if (code == EXIT_DONE)
        code = request_run_quietly(cli, "scopes", params, &result, &text);
    const json_t *scopes = json_object_get(result, "scopes");
    for (size_t i = 0; code == EXIT_DONE && i < json_array_size(scopes); i++) {
        json_t *agent = json_object_get(json_array_get(scopes, i), "agent_name");
        if (i == NAMED_MAX) {
            (void) fputs("\n  and those of other agents", survey->statement);
            break;
        }
        if (json_is_string(agent) && !json_equal(agent, usual))
            code = describe_agent(cli, survey, user, agent);
    }
    return code;
}

static enum exit_code describe(struct cli *cli, struct survey *survey, const json_t *params)
{
    FILE *statement = survey->statement;
    json_t *user = json_object_get(params, "user_id");
    json_t *agent = json_object_get(params, "agent_name");
    AUTO_FREE char *name = request_scope_name(params);

    if (agent) {
        (void) fprintf(statement, "this clears all facts of %s:", name ? name : "");
        enum exit_code code = describe_agent(cli, survey, user, agent);
        if (cli->options.given & OPTION_ERASE)
            (void) fputs("\nand what is kept of its memory in earlier formats", statement);
        return code;
    }
    (void) fprintf(statement, "this clears all facts and the text of all summaries of %s:",
                   json_is_string(user) ? json_string_value(user) : "(no user)");
    enum exit_code code = describe_agents(cli, survey, user);
    if (cli->options.given & OPTION_ERASE)
        (void) fputs("\nand what is kept of memories in earlier formats", statement);
    return code;
}

/* What is shown next must still be so when it is cleared; a revision that was given counts more. */
static enum exit_code expect_present(struct cli *cli, json_t *params, json_t **ret)
{
    AUTO_FREE char *text = NULL;

    enum exit_code code = request_run_quietly(cli, "get_summaries", params, ret, &text);
    if (code != EXIT_DONE || (cli->options.given & OPTION_EXPECT_REVISION) ||
        write_expect(params, json_object_get(*ret, "summaries"), *ret))
        return code;
    complain(cli->command, "out of memory");
    return EXIT_REFUSED;
}

/* Whether a user has neither revision nor text, as the answer to get_summaries tells. */
static bool is_blank(const json_t *summaries)
{
    static const char *const groups[] = {"user", "history"};

    for (size_t i = 0; i < ARRAY_SIZE(groups); i++) {
        json_t *group = json_object_get(summaries, groups[i]);
        const char *name;
        json_t *section;
        json_object_foreach(group, name, section)
        {
            if (json_string_length(request_summary_text(section)) > 0)
                return false;
        }
    }
    return json_integer_value(json_object_get(summaries, "revision")) == 0;
}

static enum exit_code confirm(struct cli *cli, json_t *params)
{
    AUTO_JSON json_t *result = NULL;
    AUTO_FREE char *statement = NULL;
    size_t size = 0;

    if (ask_is_answered(cli))
        return EXIT_DONE;
    enum exit_code code = expect_present(cli, params, &result);
    if (code != EXIT_DONE)
        return code;
    struct survey survey = {.statement = open_memstream(&statement, &size)};
    if (!survey.statement)
        return EXIT_REFUSED;
    code = describe(cli, &survey, params);
    if (fclose(survey.statement) != 0)
        return EXIT_REFUSED;
    if (code == EXIT_DONE && is_blank(json_object_get(result, "summaries")) &&
        request_note_nothing(cli, result, 0, (size_t) survey.facts))
        return EXIT_NOTHING;
    return code == EXIT_DONE ? ask(cli, false, statement) : code;
}

/* Says so when there was no memory to clear. */
static bool note_nobody(const struct cli *cli, const json_t *params, const json_t *result)
{
    const json_t *revision = json_object_get(result, "revision");

    if (!json_is_integer(revision) || json_integer_value(revision) != 0 ||
        json_is_true(json_object_get(result, "changed")) ||
        json_array_size(json_object_get(result, "kept")) > 0)
        return false;
    AUTO_FREE char *name = request_scope_name(params);
    complain(cli->command, "there is no memory of %s", name ? name : "that user");
    return true;
}

static void print_cleared(const json_t *result)
{
    const json_t *agents = json_object_get(result, "agents");
    json_int_t erased = json_integer_value(json_object_get(result, "erased"));
    char revision[WRITE_REVISION_BYTES];
    json_int_t cleared = json_integer_value(json_object_get(result, "cleared"));
    size_t count = json_array_size(agents);

    (void) printf("cleared %" JSON_INTEGER_FORMAT " fact%s of %zu agent%s", cleared,
                  cleared == 1 ? "" : "s", count, count == 1 ? "" : "s");
    if (erased > 0)
        (void) printf(", erased %" JSON_INTEGER_FORMAT " cop%s in earlier formats", erased,
                      erased == 1 ? "y" : "ies");
    (void) printf("%s\n", write_revision(result, revision));
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
    write_add_expected_revision(cli, params);
    enum exit_code code = confirm(cli, params);
    if (code != EXIT_DONE)
        return code;
    if (is_about_all(cli))
        (void) json_object_set_new(params, "all", json_true());
    code = write_run(cli, method, params, WRITE_LONG_TIMEOUT_MS, &result);
    if (code != EXIT_DONE)
        return code;
    if (note_nobody(cli, params, result))
        return EXIT_NOTHING;
    if (!is_json(cli))
        print_cleared(result);
    return write_tell_kept(cli, result);
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
    json_int_t facts = json_integer_value(json_object_get(result, "facts"));
    (void) printf("migrated from %s to %s: %" JSON_INTEGER_FORMAT " fact%s%s\n", from ? from : "?",
                  to ? to : "?", facts, facts == 1 ? "" : "s", write_revision(result, revision));
    return code;
}
