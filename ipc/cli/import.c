/* import.c - a document from a file becomes a scope's memory. */
#include "ipc/cli/ask.h"
#include "ipc/cli/import_plan.h"
#include "ipc/cli/input.h"
#include "ipc/cli/json_check.h"
#include "ipc/cli/json_text.h"
#include "ipc/cli/progress.h"
#include "ipc/cli/write.h"

#include <stdio.h>
#include <string.h>

#define DOCUMENT_DEPTH_MAX 30 /* the request around it has two more of the 32 levels */

static bool is_json(const struct cli *cli)
{
    return cli->options.given & OPTION_JSON;
}

static const char *document_path(const struct cli *cli)
{
    return cli->options.argument_count > 1 ? cli->options.arguments[1] : "-";
}

/* As it is told in complaints. */
static const char *document_name(const struct cli *cli)
{
    const char *path = document_path(cli);

    return input_is_standard(path) ? "standard input" : path;
}

static enum exit_code read_document(const struct cli *cli, char **ret)
{
    bool is_typed = input_is_typed(document_path(cli));
    struct progress *progress = is_typed ? NULL : progress_begin(cli, "reading the document");
    AUTO_FREE char *bytes = NULL;
    struct json_problem problem;
    size_t size = 0;

    enum exit_code code = input_read(cli, document_path(cli), &bytes, &size);
    if (code == EXIT_DONE)
        *ret = json_check(bytes, size, DOCUMENT_DEPTH_MAX, &problem);
    progress_end(&progress);
    if (code != EXIT_DONE || *ret)
        return code;
    complain(cli->command, "%s: line %zu, column %zu: %s; nothing was changed", document_name(cli),
             problem.line, problem.column, problem.what);
    return EXIT_CORRUPT;
}

static enum exit_code refuse_document(const struct cli *cli, const char *problem)
{
    complain(cli->command, "%s cannot be imported: %s; nothing was changed", document_name(cli),
             problem);
    return EXIT_CORRUPT;
}

static enum exit_code out_of_memory(const struct cli *cli)
{
    complain(cli->command, "out of memory");
    return EXIT_REFUSED;
}

/* The parameters with the document as it is spelt, which a tree could not keep; to be freed. */
static char *import_params(const json_t *params, const char *document)
{
    AUTO_FREE char *head = json_dumps(params, JSON_COMPACT);
    AUTO_FREE char *text = NULL;

    if (!head)
        return NULL;
    head[strlen(head) - 1] = '\0'; /* the bracket */
    if (asprintf(&text, "%s,\"memory_data\":%s}", head, document) < 0) {
        text = NULL;
        return NULL;
    }
    return TAKE_PTR(text);
}

/* Asks the agent what the import would come to. */
static enum exit_code try_import(struct cli *cli, const json_t *params, const char *document,
                                 json_t **ret, char **ret_text)
{
    AUTO_JSON json_t *dry = json_copy(json_unconst(params));

    if (!dry || json_object_set_new(dry, "dry_run", json_true()) < 0)
        return out_of_memory(cli);
    AUTO_FREE char *request = import_params(dry, document);
    return request
               ? write_try_text(cli, "import_memory", request, WRITE_LONG_TIMEOUT_MS, ret, ret_text)
               : out_of_memory(cli);
}

static void show_plan(const struct cli *cli, const struct import_plan *plan, const char *answer)
{
    if (is_json(cli)) {
        (void) puts(answer);
        return;
    }
    import_plan_describe(stdout, plan);
    (void) putchar('\n');
}

static enum exit_code confirm(const struct cli *cli, const json_t *params,
                              const struct import_plan *plan)
{
    AUTO_FREE char *name = request_scope_name(params);
    AUTO_FREE char *statement = NULL;
    size_t size = 0;

    if (!import_plan_destroys(plan))
        return EXIT_DONE;
    FILE *file = open_memstream(&statement, &size);
    if (!file)
        return EXIT_REFUSED;
    (void) fprintf(file, "%s: ", name ? name : "");
    import_plan_describe(file, plan);
    if (fclose(file) != 0)
        return EXIT_REFUSED;
    return ask(cli, input_is_standard(document_path(cli)), statement);
}

/* What was shown must still be so at the import; a migration moves the revision by itself. */
static bool expect_present(json_t *params, const struct import_plan *plan, const json_t *answer)
{
    json_t *revision = json_object_get(answer, "revision");

    return plan->is_unmigrated || !json_is_integer(revision) ||
           json_object_get(params, "expected_revision") ||
           json_object_set(params, "expected_revision", revision) == 0;
}

/* What will happen, and whether it may. */
static enum exit_code look_ahead(struct cli *cli, json_t *params, const json_t *document,
                                 const char *text)
{
    bool is_dry = cli->options.given & OPTION_DRY_RUN;
    AUTO_JSON json_t *answer = NULL;
    AUTO_FREE char *answer_text = NULL;

    if (!is_dry && ask_is_answered(cli))
        return EXIT_DONE;
    enum exit_code code = try_import(cli, params, text, &answer, &answer_text);
    if (code != EXIT_DONE)
        return code;
    const struct import_plan plan = import_plan_read(document, answer);
    if (is_dry) {
        show_plan(cli, &plan, answer_text);
        return write_tell_kept(cli, answer);
    }
    code = confirm(cli, params, &plan);
    return code != EXIT_DONE || expect_present(params, &plan, answer) ? code : out_of_memory(cli);
}

static json_int_t number(const json_t *result, const char *name)
{
    return json_integer_value(json_object_get(result, name));
}

static void print_summaries(const json_t *result, const char *member, const char *words)
{
    size_t count = json_array_size(json_object_get(result, member));

    if (count > 0)
        (void) printf(", summaries %s %zu", words, count);
}

static void print_imported(const json_t *result)
{
    size_t evicted = json_array_size(json_object_get(result, "evicted"));
    char revision[WRITE_REVISION_BYTES];

    (void) printf("imported %" JSON_INTEGER_FORMAT ", deleted %" JSON_INTEGER_FORMAT
                  ", unchanged %" JSON_INTEGER_FORMAT,
                  number(result, "imported"), number(result, "deleted"),
                  number(result, "unchanged"));
    print_summaries(result, "replaced_summaries", "replaced");
    print_summaries(result, "added_summaries", "added");
    (void) printf("%s\n", write_revision(result, revision));
    if (evicted > 0)
        (void) printf("left out, since there are more than the scope has room for: %zu\n", evicted);
}

enum exit_code run_import(struct cli *cli)
{
    AUTO_JSON json_t *params = request_params(cli);
    AUTO_JSON json_t *document = NULL;
    AUTO_JSON json_t *result = NULL;
    AUTO_FREE char *text = NULL;
    AUTO_FREE char *request = NULL;

    if (!params)
        return EXIT_USAGE;
    enum exit_code code = read_document(cli, &text);
    if (code != EXIT_DONE)
        return code;
    document = json_text_load(text);
    const char *problem = document ? import_plan_refuse(document) : "it cannot be read";
    if (problem)
        return refuse_document(cli, problem);
    write_add_expected_revision(cli, params);
    code = look_ahead(cli, params, document, text);
    if (code != EXIT_DONE || (cli->options.given & OPTION_DRY_RUN))
        return code;
    request = import_params(params, text);
    if (!request)
        return out_of_memory(cli);
    code = write_run_text(cli, "import_memory", request, WRITE_LONG_TIMEOUT_MS, &result);
    if (code != EXIT_DONE)
        return code;
    if (!is_json(cli))
        print_imported(result);
    return write_tell_kept(cli, result);
}
