#include "chaos/explorer/schedule.h"

#include <stdlib.h>
#include <string.h>

static const char kind_letters[] = {
    [CHOICE_RUN] = '\0', [CHOICE_EXPIRE] = 'x', [CHOICE_DIE] = 'd', [CHOICE_KILL] = 'k'};

bool choice_equal(struct choice a, struct choice b)
{
    return a.kind == b.kind && a.actor == b.actor;
}

static bool parse_number(const char **at, unsigned *ret)
{
    char *end = NULL;
    unsigned long value = strtoul(*at, &end, 10);

    if (**at < '0' || **at > '9' || value > SCHED_STEPS_MAX)
        return false;
    *ret = (unsigned) value;
    *at = end;
    return true;
}

static bool parse_item(const char **at, struct schedule *schedule)
{
    struct choice choice = {.kind = CHOICE_RUN};
    unsigned times = 1;

    for (unsigned kind = CHOICE_EXPIRE; kind <= CHOICE_KILL; kind++) {
        if (**at == kind_letters[kind])
            choice.kind = (enum choice_kind) kind;
    }
    *at += choice.kind != CHOICE_RUN;
    if (!parse_number(at, &choice.actor))
        return false;
    if (**at == '*') {
        ++*at;
        if (!parse_number(at, &times))
            return false;
    }
    while (times-- > 0) {
        if (schedule->count == SCHED_STEPS_MAX)
            return false;
        schedule->choices[schedule->count++] = choice;
    }
    return true;
}

bool schedule_parse(const char *text, struct schedule *ret)
{
    ret->count = 0;
    while (*text) {
        if (!parse_item(&text, ret))
            return false;
        if (*text == ',')
            text++;
        else if (*text)
            return false;
    }
    return true;
}

void schedule_format(const struct schedule *schedule, struct text *text)
{
    for (unsigned i = 0, same; i < schedule->count; i += same) {
        struct choice choice = schedule->choices[i];
        for (same = 1; i + same < schedule->count; same++) {
            if (!choice_equal(schedule->choices[i + same], choice))
                break;
        }
        if (i > 0)
            text_append_char(text, ',');
        if (choice.kind != CHOICE_RUN)
            text_append_char(text, kind_letters[choice.kind]);
        text_append_format(text, "%u", choice.actor);
        if (same > 1)
            text_append_format(text, "*%u", same);
    }
}

unsigned schedule_switches(const struct schedule *schedule)
{
    unsigned switches = 0;

    for (unsigned i = 1; i < schedule->count; i++)
        switches += !choice_equal(schedule->choices[i], schedule->choices[i - 1]);
    return switches;
}
