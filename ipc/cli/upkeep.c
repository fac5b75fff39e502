/* upkeep.c - refresh, verify. */
#include "ipc/cli/json_print.h"
#include "ipc/cli/request.h"

#include <string.h>

static json_int_t count_of(const json_t *value)
{
    return json_is_array(value) ? (json_int_t) json_array_size(value) : json_integer_value(value);
}

static void print_refreshed(const json_t *result)
{
    const json_t *scope = json_object_get(result, "scope");

    AUTO_FREE char *name = request_scope_name(scope);
    const char *state = json_string_value(json_object_get(scope, "state"));
    (void) printf("%s: %s, revision %" JSON_INTEGER_FORMAT ", %" JSON_INTEGER_FORMAT
                  " facts (%" JSON_INTEGER_FORMAT " read, %" JSON_INTEGER_FORMAT
                  " broken) in %.1f ms\n",
                  name, state ? state : "refreshed",
                  json_integer_value(json_object_get(scope, "revision")),
                  count_of(json_object_get(result, "facts")),
                  count_of(json_object_get(result, "read")),
                  count_of(json_object_get(result, "broken")),
                  json_number_value(json_object_get(result, "took_us")) / 1000);
}

/* --all and --accept-volume are for everybody, and do not wait. */
static void print_requested(const json_t *result)
{
    if (json_is_true(json_object_get(result, "accepted")))
        (void) fputs("the volume that is mounted now is taken for the right one; ", stdout);
    (void) puts("every scope will be looked at again");
}

/* What is about every scope goes with nothing that is about one. */
static bool check_refresh(const struct cli *cli)
{
    const uint64_t whole = OPTION_ALL | OPTION_ACCEPT_VOLUME;
    const struct options *options = &cli->options;

    if (!(options->given & whole))
        return true;
    const char *misplaced = options_find_misplaced(options, OPTIONS_GLOBAL | whole);
    if (misplaced)
        complain(cli->command, "--%s does not go with --%s, which is about every scope", misplaced,
                 options->given & OPTION_ALL ? "all" : "accept-volume");
    return !misplaced;
}

enum exit_code run_refresh(struct cli *cli)
{
    uint64_t given = cli->options.given;

    if (!check_refresh(cli))
        return EXIT_USAGE;
    AUTO_JSON json_t *params = request_params(cli);
    AUTO_JSON json_t *result = NULL;

    if (!params)
        return EXIT_USAGE;
    if (given & OPTION_FULL)
        (void) json_object_set_new(params, "full", json_true());
    if (given & OPTION_ALL)
        (void) json_object_set_new(params, "all", json_true());
    if (given & OPTION_ACCEPT_VOLUME)
        (void) json_object_set_new(params, "accept_volume", json_true());
    enum exit_code code = request_run(cli, "refresh", params, &result);
    if (code != EXIT_DONE || (given & OPTION_JSON))
        return code;
    if (given & (OPTION_ALL | OPTION_ACCEPT_VOLUME))
        print_requested(result);
    else
        print_refreshed(result);
    return code;
}

static void print_differences(const struct screen *screen, const char *kind, const json_t *ids)
{
    for (size_t i = 0; i < json_array_size(ids); i++) {
        char number[JSON_NUMBER_BYTES];
        json_t *item = json_array_get(ids, i);
        const json_t *id = json_is_object(item) ? json_object_get(item, "id") : item;
        const char *text = json_scalar_text(id, number);
        AUTO_FREE char *line = screen_line(text, strlen(text), true);
        (void) printf("%s%s%s  %s\n", screen_style(screen, STYLE_WARNING), kind, screen_end(screen),
                      line ? line : "");
    }
}

static void print_verified(const struct cli *cli, const json_t *result, bool is_ok)
{
    const struct screen *screen = &cli->screen;
    static const char *const kinds[] = {"missing", "extra", "different"};
    json_int_t checked = count_of(json_object_get(result, "checked"));

    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
        print_differences(screen, kinds[i], json_object_get(result, kinds[i]));
    (void) printf("%s%s%s: %" JSON_INTEGER_FORMAT " facts checked",
                  screen_style(screen, is_ok ? STYLE_GOOD : STYLE_BAD), is_ok ? "ok" : "differs",
                  screen_end(screen), checked);
    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
        (void) printf(", %" JSON_INTEGER_FORMAT " %s", count_of(json_object_get(result, kinds[i])),
                      kinds[i]);
    if (!is_ok) {
        AUTO_FREE char *line = request_command_line(cli, "refresh --full", NULL);
        (void) printf("; `%s` brings the index in step", line ? line : "");
    }
    (void) putchar('\n');
}

/* Nothing was compared with nothing. */
static bool has_nothing(const struct cli *cli, const json_t *result)
{
    const json_t *scope = json_object_get(result, "scope");
    json_int_t revision = json_integer_value(json_object_get(scope, "revision"));

    return request_note_nothing(cli, result, revision,
                                (size_t) count_of(json_object_get(result, "checked")));
}

enum exit_code run_verify(struct cli *cli)
{
    AUTO_JSON json_t *params = request_params(cli);
    AUTO_JSON json_t *result = NULL;

    if (!params)
        return EXIT_USAGE;
    enum exit_code code = request_run(cli, "verify", params, &result);
    if (code != EXIT_DONE)
        return code;
    bool is_ok = json_is_true(json_object_get(result, "ok"));
    if (has_nothing(cli, result))
        return EXIT_NOTHING;
    if (!(cli->options.given & OPTION_JSON))
        print_verified(cli, result, is_ok);
    return is_ok ? EXIT_DONE : EXIT_NOTHING;
}
