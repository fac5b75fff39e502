/* memory.c - memory, summaries, export, context. */
#include "ipc/cli/facts.h"
#include "ipc/cli/json_text.h"
#include "ipc/cli/output.h"
#include "ipc/cli/request.h"
#include "ipc/cli/summaries_set.h"

#include <string.h>

/* Asks for a scope's memory in one form or another; nothing but the request has happened before. */
static enum exit_code ask(struct cli *cli, const char *method, json_t **ret)
{
    AUTO_JSON json_t *params = request_params(cli);

    return params ? request_run(cli, method, params, ret) : EXIT_USAGE;
}

static void print_summary(const struct screen *screen, const char *section, const char *name,
                          const json_t *entry)
{
    const json_t *summary = request_summary_text(entry);
    const char *updated = json_string_value(json_object_get(entry, "updatedAt"));
    AUTO_FREE char *label = screen_line(name, strlen(name), true);
    AUTO_FREE char *date = screen_line(updated ? updated : "", updated ? strlen(updated) : 0, true);
    AUTO_FREE char *text = screen_block(json_string_value(summary), json_string_length(summary));

    (void) printf("%s%s.%s%s  %s%s%s\n%s\n\n", screen_style(screen, STYLE_STRONG), section,
                  label ? label : "", screen_end(screen), screen_style(screen, STYLE_FAINT),
                  date ? date : "", screen_end(screen), text ? text : "");
}

/* Counts those that are not empty, and prints them where there is a screen. */
static size_t show_summaries(const struct screen *screen, const json_t *holder)
{
    static const char *const sections[] = {"user", "history"};
    size_t count = 0;

    for (size_t i = 0; i < ARRAY_SIZE(sections); i++) {
        json_t *section = json_object_get(holder, sections[i]);
        const char *name;
        json_t *entry;
        json_object_foreach(section, name, entry)
        {
            if (json_string_length(request_summary_text(entry)) == 0)
                continue;
            count++;
            if (screen)
                print_summary(screen, sections[i], name, entry);
        }
    }
    return count;
}

/* Says so when a document is the one that every unknown user gets. */
static bool has_nothing(const struct cli *cli, const json_t *result, const json_t *document)
{
    size_t things =
        json_array_size(json_object_get(document, "facts")) + show_summaries(NULL, document);

    return request_note_nothing(cli, result,
                                json_integer_value(json_object_get(document, "revision")), things);
}

static void print_memory(const struct screen *screen, const json_t *memory)
{
    const json_t *revision = json_object_get(memory, "revision");
    const char *updated = json_string_value(json_object_get(memory, "lastUpdated"));
    AUTO_FREE char *date = screen_line(updated ? updated : "", updated ? strlen(updated) : 0, true);

    if (json_is_integer(revision))
        (void) printf("revision %" JSON_INTEGER_FORMAT ", ", json_integer_value(revision));
    (void) printf("last updated %s, %zu facts\n\n", date && *date ? date : "never",
                  json_array_size(json_object_get(memory, "facts")));
    (void) show_summaries(screen, memory);
    facts_print_table(screen, json_object_get(memory, "facts"));
}

/* Asks for a member of the reply, which `result` owns. EXIT_NOTHING: there is nothing in it. */
static enum exit_code ask_for(struct cli *cli, const char *method, const char *member,
                              json_t **result, const json_t **ret)
{
    enum exit_code code = ask(cli, method, result);

    if (code != EXIT_DONE)
        return code;
    *ret = json_object_get(*result, member);
    return has_nothing(cli, *result, *ret) ? EXIT_NOTHING : EXIT_DONE;
}

enum exit_code run_memory(struct cli *cli)
{
    AUTO_JSON json_t *result = NULL;
    const json_t *memory = NULL;
    enum exit_code code = ask_for(cli, "get_memory", "memory", &result, &memory);

    if (code == EXIT_DONE && !(cli->options.given & OPTION_JSON))
        print_memory(&cli->screen, memory);
    return code;
}

/* What is for reading does not go with --set, and the other way round. */
static bool check_summaries(const struct cli *cli, bool is_write)
{
    uint64_t allowed =
        OPTIONS_GLOBAL | OPTIONS_SCOPE |
        (is_write ? OPTION_SET | OPTION_SET_FILE | OPTION_EXPECT_REVISION : OPTIONS_FRESHNESS);
    const char *misplaced = options_find_misplaced(&cli->options, allowed);

    if (misplaced)
        complain(cli->command, "--%s goes %s --set and --set-file", misplaced,
                 is_write ? "without" : "with");
    return !misplaced;
}

enum exit_code run_summaries(struct cli *cli)
{
    bool is_write = cli->options.given & (OPTION_SET | OPTION_SET_FILE);

    if (!check_summaries(cli, is_write))
        return EXIT_USAGE;
    if (is_write)
        return summaries_set(cli);
    AUTO_JSON json_t *result = NULL;
    const json_t *summaries = NULL;
    enum exit_code code = ask_for(cli, "get_summaries", "summaries", &result, &summaries);

    if (code != EXIT_DONE)
        return code;
    const struct screen *screen = cli->options.given & OPTION_JSON ? NULL : &cli->screen;
    return show_summaries(screen, summaries) > 0 ? EXIT_DONE : EXIT_NOTHING;
}

/* The document is not read: whatever spelling its values have is kept. */
static enum exit_code print_document(const struct cli *cli, FILE *file, const char *answer)
{
    size_t size = 0;
    const char *memory = json_text_member(answer, "memory", &size);

    if (!memory) {
        complain(cli->command, "the agent's answer has no memory in it");
        return EXIT_CORRUPT;
    }
    if (cli->options.given & OPTION_JSON)
        (void) fprintf(file, "%s\n", answer);
    else
        json_text_print(file, memory, size);
    return EXIT_DONE;
}

/* The file is opened first: a memory that cannot be kept is not asked for. */
enum exit_code run_export(struct cli *cli)
{
    AUTO_JSON json_t *params = request_params(cli);
    AUTO_OUTPUT struct output *output = params ? output_open(cli) : NULL;
    AUTO_JSON json_t *result = NULL;
    AUTO_FREE char *text = NULL;

    if (!params || !output)
        return params ? EXIT_REFUSED : EXIT_USAGE;
    enum exit_code code = request_run_quietly(cli, "export_memory", params, &result, &text);
    const json_t *memory = json_object_get(result, "memory");
    /* Nobody wants a backup replaced by the document that every unknown user gets. */
    if (code == EXIT_DONE && json_is_integer(json_object_get(memory, "revision")) &&
        has_nothing(cli, result, memory))
        code = EXIT_NOTHING;
    if (code == EXIT_DONE)
        code = print_document(cli, output_file(output), text);
    if (code == EXIT_DONE && !output_finish(cli, &output))
        code = EXIT_REFUSED;
    if (code == EXIT_DONE || code == EXIT_NOTHING)
        request_note_scopes(cli, result);
    return code;
}

enum exit_code run_context(struct cli *cli)
{
    AUTO_JSON json_t *result = NULL;

    enum exit_code code = ask(cli, "get_context", &result);
    if (code != EXIT_DONE)
        return code;
    const json_t *context = json_object_get(result, "text");
    if (!(cli->options.given & OPTION_JSON) && json_string_length(context) > 0) {
        AUTO_FREE char *text =
            screen_block(json_string_value(context), json_string_length(context));
        (void) puts(text ? text : "");
    }
    return json_string_length(context) > 0 ? EXIT_DONE : EXIT_NOTHING;
}
