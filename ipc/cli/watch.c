/* watch.c - events. */
#include "ipc/cli/json_print.h"
#include "ipc/cli/json_text.h"
#include "ipc/cli/request.h"

#include <string.h>
#include <time.h>

/* The topics asked for, to be freed: all, all of a user, or one scope. */
static char *topic_prefix(const struct cli *cli)
{
    const struct options *options = &cli->options;

    if (!options->user && !(options->given & OPTION_NO_USER))
        return strdup("");
    char *topic = memsync_topic(options->user, options->agent);
    if (topic && !options->agent) { /* cut the agent's part off */
        char *end = topic + strlen(topic) - 1;
        while (end > topic && end[-1] != '/')
            end--;
        *end = '\0';
    }
    return topic;
}

static void print_time(const struct screen *screen)
{
    time_t now = time(NULL);
    struct tm parts;
    char text[40] = "";

    if (localtime_r(&now, &parts))
        (void) strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &parts);
    (void) printf("%s%s%s ", screen_style(screen, STYLE_FAINT), text, screen_end(screen));
}

/* Members that stand elsewhere in the line. */
static bool is_in_head(const char *name)
{
    static const char *const names[] = {"event", "user_id", "agent_name", "epoch", "n"};

    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        if (strcmp(names[i], name) == 0)
            return true;
    }
    return false;
}

static void print_event(const struct screen *screen, json_t *event)
{
    AUTO_FREE char *scope = request_scope_name(event);
    const char *kind = json_string_value(json_object_get(event, "event"));
    AUTO_FREE char *line = screen_line(kind ? kind : "?", kind ? strlen(kind) : 1, true);
    const char *name;
    json_t *member;

    print_time(screen);
    (void) printf("%s%s%s %s", screen_style(screen, STYLE_STRONG), line ? line : "?",
                  screen_end(screen), scope ? scope : "");
    json_object_foreach(event, name, member)
    {
        char number[JSON_NUMBER_BYTES];
        const char *text = json_scalar_text(member, number);
        if (is_in_head(name) || !*text)
            continue;
        AUTO_FREE char *key = screen_line(name, strlen(name), true);
        AUTO_FREE char *value = screen_line(text, strlen(text), true);
        (void) printf(" %s%s%s=%s", screen_style(screen, STYLE_KEY), key ? key : "",
                      screen_end(screen), value ? value : "");
    }
    (void) putchar('\n');
}

/* `last` has the latest event of each topic. */
static void note_gap(const struct cli *cli, json_t *last, const char *topic, json_t *event)
{
    const json_t *before = json_object_get(last, topic);
    json_int_t n = json_integer_value(json_object_get(event, "n"));
    json_int_t n_before = json_integer_value(json_object_get(before, "n"));

    if (before && !json_equal(json_object_get(before, "epoch"), json_object_get(event, "epoch")))
        complain(cli->command, "the agent counts anew; events of %s may have been missed", topic);
    else if (before && n > n_before + 1)
        complain(cli->command, "missed %" JSON_INTEGER_FORMAT " events of %s", n - n_before - 1,
                 topic);
    (void) json_object_set(last, topic, event);
}

static enum exit_code show_event(const struct cli *cli, json_t *last, const char *topic,
                                 const char *body)
{
    AUTO_JSON json_t *event = json_text_load(body);

    if (!json_is_object(event)) {
        complain(cli->command, "an event cannot be read");
        return EXIT_CORRUPT;
    }
    note_gap(cli, last, topic, event);
    if (cli->options.given & OPTION_JSON)
        (void) puts(body);
    else
        print_event(&cli->screen, event);
    (void) fflush(stdout); /* whoever reads along waits for it */
    return EXIT_DONE;
}

/* Without --timeout it waits for ever. */
static enum exit_code show_next_event(const struct cli *cli, memsync_subscriber *subscriber,
                                      json_t *last)
{
    int timeout_ms = cli->options.given & OPTION_TIMEOUT ? (int) cli->options.timeout_ms : -1;
    char *topic = NULL, *body = NULL;

    int code = memsync_next_event(subscriber, timeout_ms, &topic, &body);
    if (code == MEMSYNC_NO_AGENT)
        return EXIT_NOTHING;
    if (code != MEMSYNC_OK)
        return request_complain(cli, code);
    enum exit_code shown = show_event(cli, last, topic, body);
    memsync_free(topic);
    memsync_free(body);
    return shown;
}

enum exit_code run_events(struct cli *cli)
{
    AUTO_FREE char *prefix = topic_prefix(cli);
    AUTO_JSON json_t *last = json_object();
    memsync_subscriber *subscriber = NULL;
    long left = cli->options.count;

    if ((cli->options.given & OPTION_AGENT) && !*prefix) {
        complain(cli->command, "-a needs -u USER, or --no-user");
        return EXIT_USAGE;
    }
    enum exit_code code = request_open(cli);
    if (code != EXIT_DONE)
        return code;
    int subscribed = memsync_subscribe(cli->client, NULL, prefix, &subscriber);
    if (subscribed != MEMSYNC_OK)
        return request_complain(cli, subscribed);
    do
        code = show_next_event(cli, subscriber, last);
    while (code == EXIT_DONE && !ferror(stdout) && --left != 0);
    memsync_unsubscribe(&subscriber);
    return code;
}
