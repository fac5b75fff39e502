/* memory.c - memory, summaries, export, context. */
#include "ipc/cli/facts.h"
#include "ipc/cli/json_text.h"
#include "ipc/cli/request.h"

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
    const json_t *summary = json_object_get(entry, "summary");
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
            if (json_string_length(json_object_get(entry, "summary")) == 0)
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

enum exit_code run_summaries(struct cli *cli)
{
    AUTO_JSON json_t *result = NULL;
    const json_t *summaries = NULL;
    enum exit_code code = ask_for(cli, "get_summaries", "summaries", &result, &summaries);

    if (code != EXIT_DONE)
        return code;
    const struct screen *screen = cli->options.given & OPTION_JSON ? NULL : &cli->screen;
    return show_summaries(screen, summaries) > 0 ? EXIT_DONE : EXIT_NOTHING;
}

/* The document is not read: whatever spelling its values have is kept. */
enum exit_code run_export(struct cli *cli)
{
    AUTO_JSON json_t *params = request_params(cli);
    AUTO_JSON json_t *result = NULL;
    AUTO_FREE char *text = NULL;
    size_t size = 0;

    if (!params)
        return EXIT_USAGE;
    enum exit_code code = request_run_quietly(cli, "export_memory", params, &result, &text);
    if (code != EXIT_DONE)
        return code;
    const char *memory = json_text_member(text, "memory", &size);
    if (!memory) {
        complain(cli->command, "the agent's answer has no memory in it");
        return EXIT_CORRUPT;
    }
    if (cli->options.given & OPTION_JSON)
        (void) puts(text);
    else
        json_text_print(stdout, memory, size);
    request_note_scopes(cli, result);
    return EXIT_DONE;
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
