/* agent.c - ping, capabilities, scopes. */
#include "ipc/cli/json_print.h"
#include "ipc/cli/request.h"
#include "ipc/cli/table.h"

#include <string.h>
#include <time.h>

#define SCOPES_A_PAGE 1000

static bool is_json(const struct cli *cli)
{
    return cli->options.given & OPTION_JSON;
}

static double now_ms(void)
{
    struct timespec now;

    (void) clock_gettime(CLOCK_MONOTONIC, &now);
    return (double) now.tv_sec * 1e3 + (double) now.tv_nsec / 1e6;
}

/* Text of a member, harmless, to be freed. */
static char *member_text(const json_t *object, const char *name)
{
    char number[JSON_NUMBER_BYTES];
    const char *text = json_scalar_text(json_object_get(object, name), number);

    return screen_line(text, strlen(text), true);
}

static void print_ping(const json_t *result, double took_ms)
{
    AUTO_FREE char *name = member_text(result, "name");
    AUTO_FREE char *version = member_text(result, "version");
    AUTO_FREE char *protocol = member_text(result, "protocol");
    AUTO_FREE char *backend = member_text(result, "backend");
    AUTO_FREE char *pid = member_text(result, "pid");

    (void) printf("%s %s (protocol %s, backend %s, pid %s) answered in %.2f ms\n", name, version,
                  protocol, backend, pid, took_ms);
}

enum exit_code run_ping(struct cli *cli)
{
    AUTO_JSON json_t *result = NULL;
    double start = now_ms();

    enum exit_code code = request_run(cli, "ping", NULL, &result);
    double took = now_ms() - start;
    if (code != EXIT_DONE)
        return code;
    if (!is_json(cli))
        print_ping(result, took);
    json_int_t protocol = json_integer_value(json_object_get(result, "protocol"));
    if (protocol != MEMSYNC_PROTOCOL) {
        complain(cli->command, "the agent speaks protocol %d, this command %d", (int) protocol,
                 MEMSYNC_PROTOCOL);
        return EXIT_REFUSED;
    }
    return EXIT_DONE;
}

enum exit_code run_capabilities(struct cli *cli)
{
    AUTO_JSON json_t *result = NULL;

    enum exit_code code = request_run(cli, "capabilities", NULL, &result);
    if (code == EXIT_DONE && !is_json(cli))
        json_print_tree(&cli->screen, result, 0);
    return code;
}

static void add_scopes(struct table *table, const json_t *scopes)
{
    static const char *const members[] = {"user_id",  "agent_name", "state",
                                          "revision", "facts",      "broken"};

    for (size_t i = 0; i < json_array_size(scopes); i++) {
        const json_t *scope = json_array_get(scopes, i);
        for (size_t j = 0; j < ARRAY_SIZE(members); j++)
            table_add_json(table, json_object_get(scope, members[j]));
        table_add(table, json_is_true(json_object_get(scope, "unmigrated")) ? "old format" : "");
    }
}

static json_t *scopes_params(const struct cli *cli, size_t offset)
{
    json_t *params = json_pack("{s:I, s:i}", "offset", (json_int_t) offset, "limit", SCOPES_A_PAGE);

    if (cli->options.given & OPTION_NO_USER)
        (void) json_object_set_new(params, "user_id", json_null());
    if ((cli->options.given & OPTION_USER) &&
        !request_add_text(cli, params, "user_id", cli->options.user)) {
        json_decref(params);
        return NULL;
    }
    return params;
}

/* The agent gives them out in pages; the last is not full. */
static enum exit_code collect_scopes(struct cli *cli, struct table *table, size_t *ret_count)
{
    size_t page = SCOPES_A_PAGE;

    for (size_t count = 0; page == SCOPES_A_PAGE && !stop_signal(); count += page) {
        AUTO_JSON json_t *params = scopes_params(cli, count);
        AUTO_JSON json_t *result = NULL;
        if (!params)
            return EXIT_USAGE;
        enum exit_code code = request_run(cli, "scopes", params, &result);
        if (code != EXIT_DONE)
            return code;
        const json_t *scopes = json_object_get(result, "scopes");
        add_scopes(table, scopes);
        page = json_array_size(scopes);
        *ret_count = count + page;
    }
    return EXIT_DONE;
}

enum exit_code run_scopes(struct cli *cli)
{
    static const struct column columns[] = {
        {"USER", false, STYLE_STRONG}, {"AGENT", false, STYLE_PLAIN},
        {"STATE", false, STYLE_KEY},   {"REVISION", true, STYLE_PLAIN},
        {"FACTS", true, STYLE_PLAIN},  {"BROKEN", true, STYLE_WARNING},
        {"NOTE", false, STYLE_FAINT},
    };
    AUTO_TABLE struct table *table = table_create(&cli->screen, columns, ARRAY_SIZE(columns));
    size_t count = 0;

    if (!table) {
        complain(cli->command, "out of memory");
        return EXIT_REFUSED;
    }
    enum exit_code code = collect_scopes(cli, table, &count);
    if (code != EXIT_DONE)
        return code;
    if (!is_json(cli))
        table_print(table);
    return count > 0 ? EXIT_DONE : EXIT_NOTHING;
}
