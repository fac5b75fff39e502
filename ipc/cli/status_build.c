/* status_build.c - how far the agent is with building its index. */
#include "ipc/cli/status_build.h"

#include <string.h>

static json_int_t number(const json_t *build, const char *name)
{
    return json_integer_value(json_object_get(build, name));
}

static bool is_phase(const json_t *build, const char *name)
{
    const char *phase = json_string_value(json_object_get(build, "phase"));

    return phase && strcmp(phase, name) == 0;
}

bool status_build_is_under_way(const json_t *build)
{
    return json_is_object(build) && !is_phase(build, "done");
}

/* In the unit that people would use. */
static void print_duration(FILE *file, json_int_t ms)
{
    json_int_t s = (ms + 500) / 1000;

    if (ms < 10000)
        (void) fprintf(file, "%.1f s", (double) ms / 1000);
    else if (s < 120)
        (void) fprintf(file, "%" JSON_INTEGER_FORMAT " s", s);
    else if (s < 7200)
        (void) fprintf(file, "%" JSON_INTEGER_FORMAT " min %02" JSON_INTEGER_FORMAT " s", s / 60,
                       s % 60);
    else
        (void) fprintf(file, "%" JSON_INTEGER_FORMAT " h %02" JSON_INTEGER_FORMAT " min", s / 3600,
                       s / 60 % 60);
}

static void print_rest(FILE *file, const json_t *build)
{
    const json_t *remaining = json_object_get(build, "remaining_ms");

    (void) fprintf(file, ", %" JSON_INTEGER_FORMAT " facts/s, ", number(build, "facts_per_second"));
    if (!json_is_integer(remaining)) {
        (void) fputs("time left unknown", file);
        return;
    }
    print_duration(file, json_integer_value(remaining));
    (void) fputs(" left", file);
}

/* A start that found everything in step has built nothing, in no time. */
static void print_end(FILE *file, const json_t *build)
{
    if (number(build, "facts_built") == 0)
        return;
    (void) fprintf(file, ", %" JSON_INTEGER_FORMAT " of them built in ",
                   number(build, "facts_built"));
    print_duration(file, number(build, "elapsed_ms"));
}

void status_build_print(FILE *file, const json_t *build)
{
    if (is_phase(build, "waiting")) {
        (void) fputs("not begun", file);
        return;
    }
    (void) fprintf(file,
                   "%" JSON_INTEGER_FORMAT " %%, %" JSON_INTEGER_FORMAT " of %" JSON_INTEGER_FORMAT
                   " scopes",
                   number(build, "percent"), number(build, "scopes_done"),
                   number(build, "scopes_total"));
    if (number(build, "scopes_failed") > 0)
        (void) fprintf(file, " (%" JSON_INTEGER_FORMAT " failed)", number(build, "scopes_failed"));
    (void) fprintf(file, ", %" JSON_INTEGER_FORMAT " facts", number(build, "facts"));
    if (status_build_is_under_way(build))
        print_rest(file, build);
    else
        print_end(file, build);
}
