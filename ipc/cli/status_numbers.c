/* status_numbers.c - what a status says, and how fast it grows. */
#include "ipc/cli/status_numbers.h"

#include "ipc/cli/json_print.h"
#include "ipc/cli/screen.h"

#include <string.h>
#include <time.h>

static double monotonic_s(void)
{
    struct timespec now;

    (void) clock_gettime(CLOCK_MONOTONIC, &now);
    return (double) now.tv_sec + (double) now.tv_nsec / 1e9;
}

void status_numbers_take(struct status_numbers *numbers, json_t *status)
{
    json_decref(numbers->before);
    numbers->before = numbers->now;
    numbers->before_s = numbers->now_s;
    numbers->now = json_incref(status);
    numbers->now_s = monotonic_s();
    /* Another process counts from zero. */
    if (numbers->before && !json_equal(json_object_get(numbers->before, "pid"),
                                       json_object_get(numbers->now, "pid"))) {
        json_decref(numbers->before);
        numbers->before = NULL;
    }
}

void status_numbers_clear(struct status_numbers *numbers)
{
    json_decref(numbers->now);
    json_decref(numbers->before);
    *numbers = (struct status_numbers){0};
}

static const json_t *member_in(const json_t *status, const char *section, const char *name)
{
    return json_object_get(section ? json_object_get(status, section) : status, name);
}

const json_t *status_member(const struct status_numbers *numbers, const char *section,
                            const char *name)
{
    return member_in(numbers->now, section, name);
}

json_int_t status_number(const struct status_numbers *numbers, const char *section,
                         const char *name)
{
    return json_integer_value(status_member(numbers, section, name));
}

char *status_text(const struct status_numbers *numbers, const char *section, const char *name)
{
    char number[JSON_NUMBER_BYTES];
    const char *text = json_scalar_text(status_member(numbers, section, name), number);

    return screen_line(text, strlen(text), true);
}

bool status_rate(const struct status_numbers *numbers, const char *section, const char *name,
                 double *ret)
{
    const json_t *before = member_in(numbers->before, section, name);
    double seconds = numbers->now_s - numbers->before_s;

    if (!json_is_integer(before) || seconds <= 0)
        return false;
    *ret = (double) (status_number(numbers, section, name) - json_integer_value(before)) / seconds;
    return true;
}
