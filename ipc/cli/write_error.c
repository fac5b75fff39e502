/* write_error.c - what a refused or lost write means, in one line. */
#include "ipc/cli/json_text.h"
#include "ipc/cli/write.h"

#include <stdio.h>
#include <string.h>

#define NOT_DONE "; nothing was written"
#define MAYBE_DONE "; it may have been done all the same, so look before you repeat it"

/* What to do about a conflict. */
static const struct advice {
    const char *reason;
    const char *words;
    const char *command; /* helps with it; "get" needs the fact. NULL: none */
} advices[] = {
    {"manifest_revision", "somebody else wrote: look and try again", "memory"},
    {"fact_revision", "somebody else changed the fact: look and decide again", "get"},
    {"duplicate_fact", "there is a fact that says this", "get"},
    {"overtaken", "somebody else wrote at the same time: try again", NULL},
    {"newer_layout", "a newer version of the format is in use there: update this node", NULL},
    {"migration", "repair what is named, then migrate", "migrate"},
};

static const struct advice *find_advice(const json_t *data)
{
    const char *reason = json_string_value(json_object_get(data, "reason"));

    for (size_t i = 0; reason && i < ARRAY_SIZE(advices); i++) {
        if (strcmp(advices[i].reason, reason) == 0)
            return &advices[i];
    }
    return NULL;
}

/* The command line that an advice names, or NULL; to be freed. */
static char *advice_command(const struct cli *cli, const struct advice *advice, const json_t *data)
{
    const char *fact = json_string_value(json_object_get(data, "fact_id"));

    if (!advice->command)
        return NULL;
    if (strcmp(advice->command, "get") != 0)
        return request_command_line(cli, advice->command, NULL);
    return fact ? request_command_line(cli, advice->command, fact) : NULL;
}

static void put_advice(FILE *file, const struct cli *cli, const json_t *data)
{
    const struct advice *advice = find_advice(data);
    AUTO_FREE char *line = advice ? advice_command(cli, advice, data) : NULL;

    if (advice)
        (void) fprintf(file, "; %s%s%s%s", advice->words, line ? " (`" : "", line ? line : "",
                       line ? "`)" : "");
}

/* A revision as text: its number, or that there is none. */
static const char *revision_text(const json_t *revision, char text[WRITE_REVISION_BYTES])
{
    if (!json_is_integer(revision))
        return "none";
    (void) snprintf(text, WRITE_REVISION_BYTES, "%" JSON_INTEGER_FORMAT,
                    json_integer_value(revision));
    return text;
}

static void put_revisions(FILE *file, const json_t *data)
{
    const json_t *expected = json_object_get(data, "expected");
    const json_t *current = json_object_get(data, "current");
    const char *fact = json_string_value(json_object_get(data, "fact_id"));
    char expected_text[WRITE_REVISION_BYTES], current_text[WRITE_REVISION_BYTES];

    if (!expected && !current)
        return;
    (void) fprintf(file, " (%s%sexpected revision %s, there is %s)", fact ? fact : "",
                   fact ? ": " : "", revision_text(expected, expected_text),
                   revision_text(current, current_text));
}

static void put_attempts(FILE *file, const json_t *data)
{
    json_int_t attempts = json_integer_value(json_object_get(data, "attempts"));

    if (attempts > 1)
        (void) fprintf(file, " (tried %" JSON_INTEGER_FORMAT " times)", attempts);
}

/* The agent tells how often it has tried, and has not done so once. */
static bool is_surely_not_done(const json_t *data)
{
    const json_t *attempts = json_object_get(data, "attempts");

    return json_is_integer(attempts) && json_integer_value(attempts) == 0;
}

static void put_maybe_done(FILE *file, const json_t *data, bool is_trial)
{
    if (!is_trial)
        (void) fputs(is_surely_not_done(data) ? NOT_DONE : MAYBE_DONE, file);
}

/* Nobody has seen what is in such a fact, so no command removes it. */
static void put_cure(FILE *file, const json_t *data)
{
    const char *path = json_string_value(json_object_get(data, "path"));

    if (path && strstr(path, "/facts/"))
        (void) fputs("; repair that file by hand, or move it away, and try again", file);
}

static void describe(FILE *file, const struct cli *cli, int code, const json_t *data, bool is_trial)
{
    (void) fputs(code == MEMSYNC_BAD_REPLY && !data ? "the agent's answer cannot be read"
                                                    : memsync_last_error(),
                 file);
    put_revisions(file, data);
    put_attempts(file, data);
    switch (code) {
    case MEMSYNC_NO_AGENT: /* it was there a moment ago */
    case MEMSYNC_BAD_REPLY:
    case MEMSYNC_TIMEOUT:
        put_maybe_done(file, data, is_trial);
        return;
    case MEMSYNC_CORRUPT:
        put_cure(file, data);
        return;
    case MEMSYNC_CONFLICT:
        put_advice(file, cli, data);
        return;
    case MEMSYNC_TOO_LARGE:
        (void) fputs("; a request's limit is ipc.max_message_bytes in the agent's configuration",
                     file);
        return;
    default:
        return;
    }
}

enum exit_code write_complain(const struct cli *cli, int code, const char *error, bool is_trial)
{
    AUTO_JSON json_t *object = error ? json_text_load(error) : NULL;
    AUTO_FREE char *message = NULL;
    size_t size = 0;

    if (code == MEMSYNC_INTERRUPTED) {
        if (!is_trial)
            complain(cli->command, "interrupted" MAYBE_DONE);
        return EXIT_SIGNAL;
    }
    FILE *file = open_memstream(&message, &size);
    if (!file)
        return request_fail(cli, code, memsync_last_error(), error);
    describe(file, cli, code, json_object_get(object, "data"), is_trial);
    bool is_whole = fclose(file) == 0;
    return request_fail(cli, code, is_whole ? message : memsync_last_error(), error);
}
