/* summaries_set.c - summaries --set. */
#include "ipc/cli/summaries_set.h"
#include "ipc/cli/input.h"
#include "ipc/cli/json_check.h"
#include "ipc/cli/json_text.h"
#include "ipc/cli/write.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define DEPTH_MAX 29 /* the request around it has three more of the 32 levels */
#define TIME_BYTES sizeof "2026-03-01T08:00:00Z"

/* Those that every memory may have; a manifest may have more. */
static const struct section {
    const char *group, *name;
} known_sections[] = {
    {"user", "workContext"},     {"user", "personalContext"},   {"user", "topOfMind"},
    {"history", "recentMonths"}, {"history", "earlierContext"}, {"history", "longTermBackground"},
};

static bool is_group(const char *name)
{
    return strcmp(name, "user") == 0 || strcmp(name, "history") == 0;
}

/* Adds a value to {"user": {...}, "history": {...}}; takes the reference of `value`. */
static bool put(json_t *holder, const char *group, const char *name, json_t *value)
{
    json_t *members = json_object_get(holder, group);

    if (!members) {
        members = json_object();
        (void) json_object_set_new(holder, group, members);
    }
    return json_object_set_new(members, name, value) == 0;
}

/* "user.workContext=text" */
static bool take_set(const struct cli *cli, const char *set, json_t *wanted)
{
    AUTO_FREE char *group = strdup(set);
    char *equals = group ? strchr(group, '=') : NULL;
    char *dot = group ? strchr(group, '.') : NULL;

    if (!equals || !dot || dot > equals || dot + 1 == equals) {
        complain(cli->command, "--set takes SECTION=TEXT, e.g. user.workContext=..., not \"%s\"",
                 set);
        return false;
    }
    *dot = *equals = '\0';
    if (!is_group(group)) {
        complain(cli->command, "a section begins with user. or history., not \"%s.\"", group);
        return false;
    }
    json_t *text = json_string(equals + 1);
    if (text && put(wanted, group, dot + 1, text))
        return true;
    complain(cli->command, "that is not UTF-8 text: %s", set);
    return false;
}

/* A text, or an object with a summary, as the manifest has it. */
static bool is_entry(const json_t *value)
{
    return json_is_string(value) || json_is_string(json_object_get(value, "summary"));
}

static bool take_members(const struct cli *cli, const char *group, json_t *members, json_t *wanted)
{
    const char *name;
    json_t *value;

    if (members && !json_is_object(members)) {
        complain(cli->command, "%s: its member %s is no object", cli->options.set_file, group);
        return false;
    }
    json_object_foreach(members, name, value)
    {
        if (!is_entry(value)) {
            complain(cli->command, "%s: %s.%s is neither text nor an object with a summary",
                     cli->options.set_file, group, name);
            return false;
        }
        if (!put(wanted, group, name, json_incref(value)))
            return false;
    }
    return true;
}

static enum exit_code take_file(const struct cli *cli, json_t *wanted)
{
    const char *path = cli->options.set_file;
    AUTO_FREE char *bytes = NULL;
    struct json_problem problem;
    size_t size = 0;

    enum exit_code code = input_read(cli, path, &bytes, &size);
    if (code != EXIT_DONE)
        return code;
    AUTO_FREE char *text = json_check(bytes, size, DEPTH_MAX, &problem);
    if (!text) {
        complain(cli->command, "%s: line %zu, column %zu: %s", path, problem.line, problem.column,
                 problem.what);
        return EXIT_CORRUPT;
    }
    AUTO_JSON json_t *document = json_loads(text, JSON_ALLOW_NUL, NULL);
    if (!json_is_object(document)) {
        complain(cli->command,
                 "%s is no object, or has a number or text that this command cannot keep", path);
        return EXIT_CORRUPT;
    }
    if (!take_members(cli, "user", json_object_get(document, "user"), wanted) ||
        !take_members(cli, "history", json_object_get(document, "history"), wanted))
        return EXIT_CORRUPT;
    if (json_object_size(wanted) > 0)
        return EXIT_DONE;
    complain(cli->command, "%s names no summary below user or history", path);
    return EXIT_CORRUPT;
}

/* Of two texts for a section one would be lost without a word. */
static bool check_sets(const struct cli *cli)
{
    const struct option_list *sets = &cli->options.sets;

    for (size_t i = 1; i < sets->count; i++) {
        size_t size = strcspn(sets->values[i], "=") + 1;
        for (size_t j = 0; j < i; j++) {
            if (strncmp(sets->values[i], sets->values[j], size) == 0) {
                complain(cli->command, "--set names %.*s twice", (int) size - 1, sets->values[i]);
                return false;
            }
        }
    }
    return true;
}

/* The command line's sections count more than those of the file. */
static enum exit_code collect(const struct cli *cli, json_t *wanted)
{
    const struct option_list *sets = &cli->options.sets;
    enum exit_code code = cli->options.set_file ? take_file(cli, wanted) : EXIT_DONE;

    for (size_t i = 0; code == EXIT_DONE && i < sets->count; i++) {
        if (!take_set(cli, sets->values[i], wanted))
            code = EXIT_USAGE;
    }
    return code;
}

static bool is_known(const char *group, const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(known_sections); i++) {
        if (strcmp(known_sections[i].group, group) == 0 &&
            strcmp(known_sections[i].name, name) == 0)
            return true;
    }
    return false;
}

static void refuse_section(const struct cli *cli, const char *group, const char *name)
{
    char names[300] = "";
    size_t used = 0;

    for (size_t i = 0; i < ARRAY_SIZE(known_sections); i++)
        used += (size_t) snprintf(names + used, sizeof names - used, "%s%s.%s", i > 0 ? ", " : "",
                                  known_sections[i].group, known_sections[i].name);
    complain(cli->command,
             "there is no section %s.%s; there are %s, and what else the memory has already", group,
             name, names);
}

static void format_now(char text[TIME_BYTES])
{
    time_t now = time(NULL);
    struct tm utc = {0};

    (void) gmtime_r(&now, &utc);
    if (strftime(text, TIME_BYTES, "%Y-%m-%dT%H:%M:%SZ", &utc) == 0)
        text[0] = '\0';
}

/* The section that is stored, with other members than ours, so that these stay. NULL when it has a
 * value that a tree cannot keep; an empty object when it is not there. The caller owns it. */
static json_t *stored_section(const char *answer, const char *group, const char *name)
{
    size_t size = 0;
    const char *at = json_text_member(answer, "summaries", &size);

    at = at ? json_text_member(at, group, &size) : NULL;
    at = at ? json_text_member(at, name, &size) : NULL;
    if (!at || *at != '{')
        return json_object();
    return json_loadb(at, size, JSON_ALLOW_NUL, NULL);
}

/* The section as it is to be stored. */
static json_t *make_section(const char *answer, const char *group, const char *name, json_t *value,
                            const char *now)
{
    if (json_is_object(value))
        return json_incref(value);
    json_t *section = stored_section(answer, group, name);
    if (section && (json_object_set(section, "summary", value) < 0 ||
                    json_object_set_new(section, "updatedAt", json_string(now)) < 0)) {
        json_decref(section);
        return NULL;
    }
    return section;
}

/* What is replaced by a mixture of old and new must not have changed in between. */
static bool is_mixed(const json_t *value, const json_t *section)
{
    return json_is_string(value) && json_object_size(section) > 2;
}

static enum exit_code make_group(const struct cli *cli, const char *answer, const json_t *summaries,
                                 const char *group, json_t *members, json_t *ret, bool *ret_mixed)
{
    const char *name;
    json_t *value;
    char now[TIME_BYTES];

    format_now(now);
    json_object_foreach(members, name, value)
    {
        if (!is_known(group, name) && !json_object_get(json_object_get(summaries, group), name)) {
            refuse_section(cli, group, name);
            return EXIT_USAGE;
        }
        json_t *section = make_section(answer, group, name, value, now);
        *ret_mixed = *ret_mixed || is_mixed(value, section);
        if (!section || !put(ret, group, name, section)) {
            complain(cli->command,
                     "%s.%s has a value beside its text that this command cannot keep", group,
                     name);
            return EXIT_REFUSED;
        }
    }
    return EXIT_DONE;
}

/* Reads what is stored, and puts the request together. */
static enum exit_code prepare(struct cli *cli, json_t *wanted, json_t *params)
{
    AUTO_JSON json_t *stored = NULL;
    AUTO_FREE char *answer = NULL;
    json_t *sections = json_object();
    const char *group;
    json_t *members;
    bool is_bound = cli->options.given & OPTION_EXPECT_REVISION;
    bool is_any_mixed = false;

    enum exit_code code = request_run_quietly(cli, "get_summaries", params, &stored, &answer);
    const json_t *summaries = json_object_get(stored, "summaries");
    json_object_foreach(wanted, group, members)
    {
        if (code == EXIT_DONE)
            code = make_group(cli, answer, summaries, group, members, sections, &is_any_mixed);
    }
    (void) json_object_set_new(params, "summaries", sections);
    if (is_bound)
        write_add_expected_revision(cli, params);
    else if (is_any_mixed)
        (void) json_object_set(params, "expected_revision", json_object_get(summaries, "revision"));
    return code;
}

static void print_set(json_t *wanted, const json_t *result)
{
    char revision[WRITE_REVISION_BYTES];
    const char *group, *name;
    json_t *members, *value;

    json_object_foreach(wanted, group, members)
    {
        json_object_foreach(members, name, value)
        {
            AUTO_FREE char *line = screen_line(name, strlen(name), true);
            (void) printf("%s.%s%s\n", group, line ? line : "", write_revision(result, revision));
        }
    }
}

enum exit_code summaries_set(struct cli *cli)
{
    AUTO_JSON json_t *params = request_params(cli);
    AUTO_JSON json_t *wanted = json_object();
    AUTO_JSON json_t *result = NULL;

    if (!params || !check_sets(cli))
        return EXIT_USAGE;
    enum exit_code code = collect(cli, wanted);
    if (code == EXIT_DONE)
        code = prepare(cli, wanted, params);
    if (code == EXIT_DONE)
        code = write_run(cli, "update_summaries", params, WRITE_TIMEOUT_MS, &result);
    if (code == EXIT_DONE && !(cli->options.given & OPTION_JSON))
        print_set(wanted, result);
    return code;
}
