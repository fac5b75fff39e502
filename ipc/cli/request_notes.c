/* request_notes.c - what is said about scopes whose answer is not the full, current truth. */
#include "ipc/cli/request.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

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

/* As one word of a shell. */
static void put_quoted(FILE *file, const char *text)
{
    static const char safe[] = "_@%+=:,./-";
    bool is_plain = *text != '\0';

    for (const char *at = text; *at; at++)
        is_plain = is_plain && (isascii(*at) && (isalnum(*at) || strchr(safe, *at)));
    if (is_plain) {
        (void) fputs(text, file);
        return;
    }
    (void) fputc('\'', file);
    for (; *text; text++)
        (void) (*text == '\'' ? fputs("'\\''", file) : fputc(*text, file));
    (void) fputc('\'', file);
}

static void put_option(FILE *file, const char *option, const char *value)
{
    if (!value)
        return;
    (void) fprintf(file, " %s ", option);
    put_quoted(file, value);
}

char *request_command_line(const struct cli *cli, const char *command, const char *argument)
{
    const struct options *options = &cli->options;
    AUTO_FREE char *line = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&line, &size);

    if (!file)
        return NULL;
    (void) fputs("memsync", file);
    put_option(file, "-e", options->endpoint);
    put_option(file, "-u", options->user);
    if (options->given & OPTION_NO_USER)
        (void) fputs(" --no-user", file);
    put_option(file, "-a", options->agent);
    put_option(file, command, argument);
    if (!argument)
        (void) fprintf(file, " %s", command);
    return fclose(file) == 0 ? screen_line(line, size, true) : NULL;
}

static bool is_current(const json_t *scope)
{
    const char *state = json_string_value(json_object_get(scope, "state"));

    return !state || strcmp(state, "fresh") == 0 || strcmp(state, "refreshed") == 0;
}

/* Stale, but as current as was asked for. Which age counts when none was given is the agent's
 * affair; it gives a reason when an answer missed it. */
static bool is_as_wanted(const struct options *options, const json_t *scope)
{
    const char *state = json_string_value(json_object_get(scope, "state"));
    const json_t *age = json_object_get(scope, "age_ms");

    if (!options->freshness || !state || strcmp(state, "stale") != 0)
        return false;
    if (strcmp(options->freshness, "local") == 0)
        return true;
    if (strcmp(options->freshness, "bounded") != 0 || !json_is_number(age))
        return false;
    if (options->given & OPTION_MAX_STALENESS)
        return json_number_value(age) <= (double) options->max_staleness_ms;
    return !json_object_get(scope, "reason");
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
    const char *path = json_string_value(json_object_get(scope, "path"));
    bool has_path = path && *path && !(reason && strstr(reason, path));

    (void) fprintf(file, " is %s", json_string_value(json_object_get(scope, "state")));
    if (json_is_number(age))
        (void) fprintf(file, ", last compared %.1f s ago", json_number_value(age) / 1000);
    if (reason || has_path)
        (void) fprintf(file, " (%s%s%s)", has_path ? path : "", has_path && reason ? ": " : "",
                       reason ? reason : "");
}

/* `list` names the files itself, behind its table. */
static void describe_broken(FILE *file, const struct cli *cli)
{
    bool is_list = strcmp(cli->command->name, "list") == 0;
    AUTO_FREE char *line = is_list ? NULL : request_command_line(cli, "list", NULL);

    if (is_list)
        (void) fputs(" has files that cannot be read, named below", file);
    else
        (void) fprintf(file, " has files that cannot be read (`%s` names them)", line ? line : "");
}

static void describe_scope(FILE *file, const struct cli *cli, const json_t *scope)
{
    AUTO_FREE char *name = request_scope_name(scope);
    bool is_behind = !is_current(scope) && !is_as_wanted(&cli->options, scope);
    bool is_old = is_set(json_object_get(scope, "unmigrated"));
    bool is_broken = is_set(json_object_get(scope, "broken"));

    (void) fputs(name ? name : "", file);
    if (is_behind)
        describe_state(file, scope);
    if (is_behind && (is_old || is_broken))
        (void) fputs(" and", file);
    if (is_old)
        (void) fputs(" has facts in the old format, which are not migrated yet", file);
    else if (is_broken)
        describe_broken(file, cli);
}

static bool is_worth_a_note(const struct options *options, const json_t *scope)
{
    return json_is_object(scope) && ((!is_current(scope) && !is_as_wanted(options, scope)) ||
                                     is_set(json_object_get(scope, "unmigrated")) ||
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
        if (!is_worth_a_note(&cli->options, one))
            continue;
        (void) fputs(ftell(file) > 0 ? "; " : "", file);
        describe_scope(file, cli, one);
    }
    if (fclose(file) == 0 && size > 0)
        complain(cli->command, "%s", note);
}

bool request_note_nothing(const struct cli *cli, const json_t *result, json_int_t revision,
                          size_t things)
{
    const json_t *scope = json_object_get(result, "scope");

    if (revision != 0 || things > 0 || is_set(json_object_get(scope, "unmigrated")) ||
        is_set(json_object_get(scope, "broken")))
        return false;
    AUTO_FREE char *name = request_scope_name(scope);
    complain(cli->command, "there is no memory of %s", name ? name : "that user");
    return true;
}

const json_t *request_summary_text(const json_t *entry)
{
    return json_is_string(entry) ? entry : json_object_get(entry, "summary");
}
