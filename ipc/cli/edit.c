/* edit.c - add, update, delete. */
#include "ipc/cli/ask.h"
#include "ipc/cli/input.h"
#include "ipc/cli/write.h"

#include <stdio.h>
#include <string.h>

#define BLANKS " \t\r\n\v\f"
#define SHOWN_MAX 10     /* facts that are told one by one */
#define SHOWN_COLUMNS 60 /* of a fact's text */

static bool is_json(const struct cli *cli)
{
    return cli->options.given & OPTION_JSON;
}

/* Text of the command line, or of standard input when it is "-" or NULL. */
static enum exit_code read_content(const struct cli *cli, const char *text, json_t *params)
{
    AUTO_FREE char *read = NULL;
    size_t size = text ? strlen(text) : 0;

    if (!text || input_is_standard(text)) {
        enum exit_code code = input_read(cli, "-", &read, &size);
        if (code != EXIT_DONE)
            return code;
        text = read;
    }
    while (size > 0 && text[size - 1] == '\n')
        size--;
    if (strspn(text, BLANKS) >= size) {
        complain(cli->command, "there is no text");
        return EXIT_USAGE;
    }
    return request_add_bytes(cli, params, "content", text, size) ? EXIT_DONE : EXIT_USAGE;
}

static bool add_topics(const struct cli *cli, json_t *params)
{
    const struct option_list *topics = &cli->options.topics;
    json_t *list = json_array();

    for (size_t i = 0; i < topics->count; i++) {
        if (json_array_append_new(list, json_string(topics->values[i])) < 0) {
            complain(cli->command, "that topic is not UTF-8 text");
            json_decref(list);
            return false;
        }
    }
    return json_object_set_new(params, "topics", list) == 0;
}

/* What the options say about a fact, but for its text; the category is there already. */
static bool add_members(const struct cli *cli, json_t *params)
{
    const struct options *options = &cli->options;

    if (options->given & OPTION_CONFIDENCE)
        (void) json_object_set_new(params, "confidence", json_real(options->confidence));
    if ((options->given & OPTION_TOPIC) && !add_topics(cli, params))
        return false;
    if (options->source && !request_add_text(cli, params, "source", options->source))
        return false;
    return !options->source_error ||
           request_add_text(cli, params, "source_error", options->source_error);
}

/* "fact_1, fact_2", and how many more where there are many; to be freed. */
static char *join_ids(const json_t *ids)
{
    AUTO_FREE char *line = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&line, &size);

    if (!file)
        return NULL;
    size_t count = json_array_size(ids);
    for (size_t i = 0; i < count && i < SHOWN_MAX; i++) {
        const char *id = json_string_value(json_array_get(ids, i));
        (void) fprintf(file, "%s%s", i > 0 ? ", " : "", id ? id : "?");
    }
    if (count > SHOWN_MAX)
        (void) fprintf(file, " and %zu more", count - SHOWN_MAX);
    return fclose(file) == 0 ? TAKE_PTR(line) : NULL;
}

/* The new fact is among those that had to go. Others are, where the scope had more than it may. */
static enum exit_code tell_refused(const struct cli *cli, const json_t *result)
{
    AUTO_JSON json_t *others = json_copy(json_object_get(result, "evicted"));
    const json_t *own = json_object_get(result, "refused_id");

    for (size_t i = json_array_size(others); i > 0; i--) {
        if (json_equal(json_array_get(others, i - 1), own))
            (void) json_array_remove(others, i - 1);
    }
    bool has_others = json_is_true(json_object_get(result, "changed"));
    AUTO_FREE char *gone = has_others ? join_ids(others) : NULL;
    complain(cli->command, "not stored: the scope is full of facts that count for more%s%s",
             gone ? "; it had more than it may, so these were removed: " : "", gone ? gone : "");
    return EXIT_NOTHING;
}

static enum exit_code tell_added(const struct cli *cli, const json_t *result)
{
    const json_t *id = json_object_get(result, "fact_id");
    const json_t *evicted = json_object_get(result, "evicted");
    if (!json_is_string(id))
        return tell_refused(cli, result);
    AUTO_FREE char *gone = json_array_size(evicted) > 0 ? join_ids(evicted) : NULL;
    if (gone)
        complain(cli->command, "removed to make room: %s", gone);
    AUTO_FREE char *line = screen_line(json_string_value(id), json_string_length(id), true);
    if (!is_json(cli))
        (void) puts(line ? line : "");
    return EXIT_DONE;
}

enum exit_code run_add(struct cli *cli)
{
    bool is_given = cli->options.argument_count > 1;
    AUTO_FREE char *words = is_given ? options_join_words(&cli->options) : NULL;
    AUTO_JSON json_t *params = request_params(cli);
    AUTO_JSON json_t *result = NULL;

    if (!params || !add_members(cli, params))
        return EXIT_USAGE;
    enum exit_code code = read_content(cli, words, params);
    if (code == EXIT_DONE)
        code = write_run(cli, "create_fact", params, WRITE_TIMEOUT_MS, &result);
    return code == EXIT_DONE ? tell_added(cli, result) : code;
}

/* Facts begin at 1; a memory that nobody has written has 0. */
static bool check_expected_revision(const struct cli *cli)
{
    if (!(cli->options.given & OPTION_EXPECT_REVISION) || cli->options.expected_revision >= 1)
        return true;
    complain(cli->command,
             "the revision of a fact is at least 1, so --expect-revision cannot be 0");
    return false;
}

enum exit_code run_update(struct cli *cli)
{
    const struct options *options = &cli->options;
    AUTO_JSON json_t *params = NULL;
    AUTO_JSON json_t *result = NULL;
    enum exit_code code = EXIT_DONE;

    if (!(options->given & (OPTIONS_FACT | OPTION_CONTENT))) {
        complain(cli->command, "what is to change? Give --content, --category, --confidence, "
                               "--topic or --source-error");
        return EXIT_USAGE;
    }
    params = check_expected_revision(cli) ? request_params(cli) : NULL;
    if (!params || !request_add_text(cli, params, "fact_id", options->arguments[1]) ||
        !add_members(cli, params))
        return EXIT_USAGE;
    write_add_expected_revision(cli, params);
    if (options->content)
        code = read_content(cli, options->content, params);
    if (code == EXIT_DONE)
        code = write_run(cli, "update_fact", params, WRITE_TIMEOUT_MS, &result);
    if (code == EXIT_DONE && !is_json(cli)) {
        char text[WRITE_REVISION_BYTES];
        const json_t *fact = json_object_get(result, "fact");
        (void) printf("%s%s\n", options->arguments[1], write_revision(fact, text));
    }
    return code;
}

/* The ids of the command line, each once. NULL after a complaint. */
static json_t *collect_ids(const struct cli *cli)
{
    AUTO_JSON json_t *seen = json_object();
    AUTO_JSON json_t *ids = json_array();

    for (size_t i = 1; i < cli->options.argument_count; i++) {
        const char *id = cli->options.arguments[i];
        if (json_object_get(seen, id))
            continue;
        if (json_object_set_new(seen, id, json_true()) < 0 ||
            json_array_append_new(ids, json_string(id)) < 0) {
            complain(cli->command, "that id is not UTF-8 text");
            return NULL;
        }
    }
    return TAKE_PTR(ids);
}

/* A line about a fact that is to be deleted. Its revision is kept: what is deleted then is what was
 * shown. */
static enum exit_code show_victim(struct cli *cli, const json_t *scope, json_t *id, FILE *statement,
                                  json_t *revisions)
{
    AUTO_JSON json_t *params = json_copy(json_unconst(scope));
    AUTO_JSON json_t *result = NULL;
    AUTO_FREE char *text = NULL;

    (void) json_object_set(params, "fact_id", id);
    enum exit_code code = request_run_quietly(cli, "get_fact", params, &result, &text);
    if (code != EXIT_DONE)
        return code;
    const json_t *fact = json_object_get(result, "fact");
    const json_t *content = json_object_get(fact, "content");
    json_t *revision = json_object_get(fact, "revision");
    AUTO_FREE char *line =
        screen_line(json_string_value(content), json_string_length(content), true);
    size_t columns;
    size_t size = screen_fit(line ? line : "", SHOWN_COLUMNS, &columns);
    (void) fprintf(statement, "\n  %s  %.*s%s", json_string_value(id), (int) size, line ? line : "",
                   line && line[size] ? "..." : "");
    if (json_is_integer(revision))
        (void) json_object_set(revisions, json_string_value(id), revision);
    return EXIT_DONE;
}

/* Shows the first facts; those that do not exist are told of and taken out. */
static enum exit_code show_victims(struct cli *cli, const json_t *scope, json_t *ids,
                                   FILE *statement, json_t *revisions)
{
    size_t shown = 0;

    while (shown < json_array_size(ids) && shown < SHOWN_MAX) {
        json_t *id = json_array_get(ids, shown);
        enum exit_code code = show_victim(cli, scope, id, statement, revisions);
        if (code == EXIT_NOTHING)
            (void) json_array_remove(ids, shown);
        else if (code == EXIT_DONE)
            shown++;
        else
            return code;
    }
    if (shown < json_array_size(ids))
        (void) fprintf(statement, "\n  and %zu more", json_array_size(ids) - shown);
    return json_array_size(ids) > 0 ? EXIT_DONE : EXIT_NOTHING;
}

static enum exit_code confirm_delete(struct cli *cli, const json_t *scope, json_t *ids,
                                     json_t *revisions)
{
    AUTO_FREE char *shown = NULL;
    AUTO_FREE char *statement = NULL;
    size_t size = 0;

    if (ask_is_answered(cli))
        return EXIT_DONE;
    FILE *file = open_memstream(&shown, &size);
    if (!file)
        return EXIT_REFUSED;
    enum exit_code code = show_victims(cli, scope, ids, file, revisions);
    if (fclose(file) != 0 || code != EXIT_DONE)
        return code;
    size_t count = json_array_size(ids);
    if (asprintf(&statement, "this deletes %zu fact%s:%s", count, count == 1 ? "" : "s", shown) < 0)
        statement = NULL;
    return statement ? ask(cli, false, statement) : EXIT_REFUSED;
}

/* One fact: the agent says when there is no such fact. */
static enum exit_code delete_one(struct cli *cli, json_t *params, json_t *id,
                                 const json_t *revisions, json_t **ret)
{
    json_t *revision = json_object_get(revisions, json_string_value(id));

    (void) json_object_set(params, "fact_id", id);
    if (revision)
        (void) json_object_set(params, "expected_revision", revision);
    write_add_expected_revision(cli, params);
    return write_run(cli, "delete_fact", params, WRITE_TIMEOUT_MS, ret);
}

static enum exit_code delete_all(struct cli *cli, json_t *params, json_t *ids, json_t *revisions,
                                 json_t **ret)
{
    (void) json_object_set(params, "deletes", ids);
    if (json_object_size(revisions) > 0)
        (void) json_object_set(params, "expected_fact_revisions", revisions);
    return write_run(cli, "apply_changes", params, WRITE_TIMEOUT_MS, ret);
}

static bool has_id(const json_t *ids, const json_t *id)
{
    for (size_t i = 0; i < json_array_size(ids); i++) {
        if (json_equal(json_array_get(ids, i), id))
            return true;
    }
    return false;
}

static enum exit_code tell_deleted(const struct cli *cli, const json_t *ids, const json_t *result)
{
    const json_t *deleted = json_object_get(result, "deleted");
    enum exit_code code = EXIT_DONE;

    for (size_t i = 0; i < json_array_size(ids); i++) {
        const json_t *id = json_array_get(ids, i);
        AUTO_FREE char *line = screen_line(json_string_value(id), json_string_length(id), true);
        if (!has_id(deleted, id)) {
            complain(cli->command, "there is no fact %s", line ? line : "");
            code = EXIT_NOTHING;
        } else if (!is_json(cli)) {
            (void) printf("deleted %s\n", line ? line : "");
        }
    }
    return code;
}

enum exit_code run_delete(struct cli *cli)
{
    AUTO_JSON json_t *ids = collect_ids(cli);
    AUTO_JSON json_t *params = check_expected_revision(cli) ? request_params(cli) : NULL;
    AUTO_JSON json_t *revisions = json_object();
    AUTO_JSON json_t *result = NULL;

    if (!ids || !params)
        return EXIT_USAGE;
    size_t wanted = json_array_size(ids);
    if ((cli->options.given & OPTION_EXPECT_REVISION) && wanted > 1) {
        complain(cli->command, "--expect-revision is for one fact");
        return EXIT_USAGE;
    }
    enum exit_code code = confirm_delete(cli, params, ids, revisions);
    if (code != EXIT_DONE)
        return code;
    if (json_array_size(ids) == 1)
        code = delete_one(cli, params, json_array_get(ids, 0), revisions, &result);
    else
        code = delete_all(cli, params, ids, revisions, &result);
    if (code == EXIT_DONE)
        code = tell_deleted(cli, ids, result);
    return code == EXIT_DONE && json_array_size(ids) < wanted ? EXIT_NOTHING : code;
}
