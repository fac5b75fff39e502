/* status.c - status: all of it once, or the main numbers again and again. */
#include "ipc/cli/status_view.h"

#include "ipc/cli/json_print.h"
#include "ipc/cli/request.h"
#include "ipc/cli/status_build.h"

#include <string.h>
#include <time.h>

#define INTERVAL_MS 1000
#define SLICE_MS 200

/* The alternate screen without a cursor, and the way back. */
#define SCREEN_TAKE "\033[?1049h\033[?25l"
#define SCREEN_GIVE_BACK "\033[?25h\033[?1049l"

static bool is_json(const struct cli *cli)
{
    return cli->options.given & OPTION_JSON;
}

static void print_problem(const struct screen *screen, json_t *problem)
{
    (void) printf("%sproblem%s  ", screen_style(screen, STYLE_BAD), screen_end(screen));
    if (json_is_string(problem)) {
        AUTO_FREE char *line =
            screen_line(json_string_value(problem), json_string_length(problem), true);
        (void) puts(line ? line : "");
        return;
    }
    (void) putchar('\n');
    json_print_tree(screen, problem, 2);
}

/* Only while there is more to do: what an operator waits for after a start. */
static void print_build(const struct screen *screen, const json_t *build)
{
    if (!status_build_is_under_way(build))
        return;
    (void) printf("%sbuilding%s  ", screen_style(screen, STYLE_WARNING), screen_end(screen));
    status_build_print(stdout, build);
    (void) putchar('\n');
}

/* Problems come last, where the eye rests. */
static void print_status(const struct screen *screen, json_t *status)
{
    json_t *problems = json_incref(json_object_get(status, "problems"));

    (void) json_object_del(status, "problems");
    json_print_tree(screen, status, 0);
    print_build(screen, json_object_get(status, "build"));
    for (size_t i = 0; i < json_array_size(problems); i++)
        print_problem(screen, json_array_get(problems, i));
    if (json_array_size(problems) == 0)
        (void) printf("%sno problems%s\n", screen_style(screen, STYLE_GOOD), screen_end(screen));
    json_decref(problems);
}

static enum exit_code report_status(struct cli *cli)
{
    AUTO_JSON json_t *result = NULL;
    AUTO_FREE char *text = NULL;

    enum exit_code code = request_run_quietly(cli, "status", NULL, &result, &text);
    if (code == EXIT_DONE && is_json(cli))
        (void) puts(text);
    else if (code == EXIT_DONE)
        print_status(&cli->screen, result);
    (void) fflush(stdout);
    return code;
}

/* A line of numbers. An agent that is away is told of on standard error. */
static enum exit_code report_line(struct cli *cli, struct status_numbers *numbers)
{
    AUTO_JSON json_t *result = NULL;
    AUTO_FREE char *text = NULL;

    enum exit_code code = request_run_quietly(cli, "status", NULL, &result, &text);
    if (code == EXIT_DONE) {
        status_numbers_take(numbers, result);
        status_view_print_line(numbers);
    }
    (void) fflush(stdout);
    return code;
}

/* The whole screen; what is wrong stands on it, since standard error would spoil it. */
static enum exit_code redraw(struct cli *cli, struct status_numbers *numbers)
{
    AUTO_JSON json_t *result = NULL;

    int code = request_try(cli, "status", &result);
    if (code == MEMSYNC_INTERRUPTED)
        return EXIT_SIGNAL;
    if (code == MEMSYNC_BAD_ENDPOINT)
        return EXIT_USAGE;
    status_numbers_take(numbers, result);
    screen_setup(&cli->screen, cli->options.color); /* its size may have changed */
    status_view_draw(numbers, &cli->screen, code == MEMSYNC_OK ? NULL : memsync_last_error());
    (void) fflush(stdout);
    return code == MEMSYNC_OK ? EXIT_DONE : EXIT_NO_AGENT;
}

/* Sleeps in slices, so that a signal just before one of them is not slept over. */
static void pause_between_reports(const struct cli *cli)
{
    long left = cli->options.given & OPTION_INTERVAL ? cli->options.interval_ms : INTERVAL_MS;

    while (left > 0 && !stop_signal()) {
        long slice = left < SLICE_MS ? left : SLICE_MS;
        const struct timespec time = {.tv_nsec = slice * 1000000L};
        (void) nanosleep(&time, NULL);
        left -= slice;
    }
}

static enum exit_code report_again(struct cli *cli, struct status_numbers *numbers)
{
    if (is_json(cli))
        return report_status(cli);
    return cli->screen.can_redraw ? redraw(cli, numbers) : report_line(cli, numbers);
}

/* An agent that is away may come back, so only a wrong endpoint or unwritable output end it. */
static enum exit_code watch_status(struct cli *cli)
{
    bool is_redrawn = cli->screen.can_redraw && !is_json(cli);
    AUTO_STATUS_NUMBERS struct status_numbers numbers = {0};
    enum exit_code code = EXIT_DONE;

    if (is_redrawn)
        (void) fputs(SCREEN_TAKE, stdout);
    while (code != EXIT_USAGE && !stop_signal() && !ferror(stdout)) {
        code = report_again(cli, &numbers);
        if (code != EXIT_USAGE)
            pause_between_reports(cli);
    }
    if (!is_redrawn)
        return code;
    (void) fputs(SCREEN_GIVE_BACK, stdout);
    (void) fflush(stdout);
    if (code == EXIT_USAGE)
        complain(cli->command, "%s", memsync_last_error());
    return code;
}

enum exit_code run_status(struct cli *cli)
{
    uint64_t given = cli->options.given;

    if ((given & OPTION_INTERVAL) && !(given & OPTION_WATCH)) {
        complain(cli->command, "--interval needs --watch");
        return EXIT_USAGE;
    }
    return given & OPTION_WATCH ? watch_status(cli) : report_status(cli);
}
