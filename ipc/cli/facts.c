/* facts.c - search, list, get. */
#include "ipc/cli/facts.h"

#include "ipc/cli/json_print.h"
#include "ipc/cli/request.h"
#include "ipc/cli/table.h"

#include <string.h>

#define DATE_BYTES 10 /* of an ISO 8601 time */

static void add_category(struct table *table, const json_t *fact)
{
    const json_t *extension = json_object_get(fact, "categoryExtension");

    table_add_json(table,
                   json_is_string(extension) ? extension : json_object_get(fact, "category"));
}

static void add_fact(struct table *table, const json_t *fact)
{
    const char *created = json_string_value(json_object_get(fact, "createdAt"));

    table_add_json(table, json_object_get(fact, "id"));
    add_category(table, fact);
    table_add_format(table, "%.*s", DATE_BYTES, created ? created : "");
    table_add_json(table, json_object_get(fact, "content"));
}

void facts_print_table(const struct screen *screen, const json_t *facts)
{
    static const struct column columns[] = {
        {"FACT", false, STYLE_STRONG},
        {"CATEGORY", false, STYLE_KEY},
        {"CREATED", false, STYLE_FAINT},
        {"CONTENT", false, STYLE_PLAIN},
    };
    AUTO_TABLE struct table *table = table_create(screen, columns, ARRAY_SIZE(columns));

    if (!table)
        return;
    for (size_t i = 0; i < json_array_size(facts); i++)
        add_fact(table, json_array_get(facts, i));
    table_print(table);
}

static void print_results(const struct screen *screen, const json_t *results)
{
    static const struct column columns[] = {
        {"SCORE", true, STYLE_GOOD},     {"FACT", false, STYLE_STRONG},
        {"CATEGORY", false, STYLE_KEY},  {"CREATED", false, STYLE_FAINT},
        {"CONTENT", false, STYLE_PLAIN},
    };
    AUTO_TABLE struct table *table = table_create(screen, columns, ARRAY_SIZE(columns));

    if (!table)
        return;
    for (size_t i = 0; i < json_array_size(results); i++) {
        const json_t *result = json_array_get(results, i);
        table_add_format(table, "%.3f", json_number_value(json_object_get(result, "score")));
        add_fact(table, json_object_get(result, "fact"));
    }
    table_print(table);
}

static bool is_json(const struct cli *cli)
{
    return cli->options.given & OPTION_JSON;
}

enum exit_code run_search(struct cli *cli)
{
    AUTO_FREE char *query = options_join_words(&cli->options);
    AUTO_JSON json_t *params = request_params(cli);
    AUTO_JSON json_t *result = NULL;

    if (!query || !params || !request_add_text(cli, params, "query", query))
        return EXIT_USAGE;
    enum exit_code code = request_run(cli, "search", params, &result);
    if (code != EXIT_DONE)
        return code;
    const json_t *results = json_object_get(result, "results");
    if (!is_json(cli))
        print_results(&cli->screen, results);
    if (json_is_true(json_object_get(result, "clamped")))
        complain(cli->command, "the agent gives at most %" JSON_INTEGER_FORMAT " results",
                 json_integer_value(json_object_get(result, "top_k")));
    return json_array_size(results) > 0 ? EXIT_DONE : EXIT_NOTHING;
}

void complain_about_files(const struct cli *cli, const char *what, const json_t *files)
{
    for (size_t i = 0; i < json_array_size(files); i++) {
        const json_t *one = json_array_get(files, i);
        const char *path = json_string_value(json_object_get(one, "path"));
        const char *problem = json_string_value(json_object_get(one, "problem"));
        complain(cli->command, "%s %s: %s", what, path ? path : "a file",
                 problem ? problem : "it is damaged");
    }
}

enum exit_code run_list(struct cli *cli)
{
    AUTO_JSON json_t *params = request_params(cli);
    AUTO_JSON json_t *result = NULL;

    if (!params)
        return EXIT_USAGE;
    if (cli->options.given & OPTION_LIMIT)
        (void) json_object_set_new(params, "limit", json_integer(cli->options.limit));
    if (cli->options.given & OPTION_OFFSET)
        (void) json_object_set_new(params, "offset", json_integer(cli->options.offset));
    enum exit_code code = request_run(cli, "list_facts", params, &result);
    if (code != EXIT_DONE)
        return code;
    const json_t *facts = json_object_get(result, "facts");
    if (!is_json(cli))
        facts_print_table(&cli->screen, facts);
    complain_about_files(cli, "cannot read", json_object_get(result, "broken"));
    return json_array_size(facts) > 0 ? EXIT_DONE : EXIT_NOTHING;
}

/* Everything but the content, then the content as it is. */
static void print_fact(const struct screen *screen, json_t *fact)
{
    json_t *content = json_incref(json_object_get(fact, "content"));

    (void) json_object_del(fact, "content");
    (void) json_object_del(fact, "title"); /* the first line of the content */
    json_print_tree(screen, fact, 0);
    if (json_is_string(content)) {
        AUTO_FREE char *text =
            screen_block(json_string_value(content), json_string_length(content));
        (void) printf("\n%s\n", text ? text : "");
    }
    json_decref(content);
}

enum exit_code run_get(struct cli *cli)
{
    AUTO_JSON json_t *params = request_params(cli);
    AUTO_JSON json_t *result = NULL;

    if (!params || !request_add_text(cli, params, "fact_id", cli->options.arguments[1]))
        return EXIT_USAGE;
    enum exit_code code = request_run(cli, "get_fact", params, &result);
    if (code == EXIT_DONE && !is_json(cli))
        print_fact(&cli->screen, json_object_get(result, "fact"));
    return code;
}
