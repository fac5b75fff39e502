#include "core/iso_time.h"

#include "core/text.h"
#include "core/yaml_time.h"

#define DAY_OF_1970 719163 /* as yaml_time_day_number() counts */

/* What is left of the text. */
struct cursor {
    const char *at;
    const char *end;
};

/* A time of day, or an offset. */
struct clock {
    int hour;
    int minute;
    int second;
    int microsecond;
};

static bool take(struct cursor *cursor, char byte)
{
    if (cursor->at == cursor->end || *cursor->at != byte)
        return false;
    cursor->at++;
    return true;
}

static bool is_digit_next(const struct cursor *cursor)
{
    return cursor->at < cursor->end && *cursor->at >= '0' && *cursor->at <= '9';
}

static bool take_number(struct cursor *cursor, unsigned digits, int *ret)
{
    int number = 0;

    for (; digits > 0; digits--) {
        if (!is_digit_next(cursor))
            return false;
        number = 10 * number + (*cursor->at++ - '0');
    }
    *ret = number;
    return true;
}

/* The Monday of a year's first week, which is the one that holds the 4th of January. */
static int64_t first_monday(int year)
{
    int64_t day = yaml_time_day_number(&(struct yaml_time){.year = year, .month = 1, .day = 4});

    return day - (day + 6) % 7;
}

/* After the W: the week, and perhaps the day in it, which is Monday else. */
static bool take_week(struct cursor *cursor, int year, bool has_hyphens, int64_t *ret_day)
{
    int week = 0;
    int day = 1;

    if (year < 1 || !take_number(cursor, 2, &week))
        return false;
    struct cursor ahead = *cursor;
    if (!has_hyphens || take(&ahead, '-')) {
        if (take_number(&ahead, 1, &day))
            *cursor = ahead;
    }
    *ret_day = first_monday(year) + 7 * (int64_t) (week - 1) + day - 1;
    return week >= 1 && day >= 1 && day <= 7 &&
           first_monday(year) + 7 * (int64_t) (week - 1) < first_monday(year + 1);
}

static bool take_day(struct cursor *cursor, int64_t *ret_day)
{
    struct yaml_time time = {0};

    if (!take_number(cursor, 4, &time.year))
        return false;
    bool has_hyphens = take(cursor, '-');
    if (take(cursor, 'W'))
        return take_week(cursor, time.year, has_hyphens, ret_day);
    if (!take_number(cursor, 2, &time.month) || (has_hyphens && !take(cursor, '-')) ||
        !take_number(cursor, 2, &time.day) || !yaml_time_is_valid(&time))
        return false;
    *ret_day = yaml_time_day_number(&time);
    return true;
}

/* Six digits count; further ones are dropped. */
static bool take_fraction(struct cursor *cursor, int *ret)
{
    int unit = 100000;

    if (!is_digit_next(cursor))
        return false;
    for (*ret = 0; is_digit_next(cursor); cursor->at++, unit /= 10)
        *ret += (*cursor->at - '0') * unit;
    return true;
}

static bool take_clock(struct cursor *cursor, struct clock *ret)
{
    struct clock clock = {0};

    if (!take_number(cursor, 2, &clock.hour))
        return false;
    bool has_colons = take(cursor, ':');
    if (has_colons || is_digit_next(cursor)) {
        if (!take_number(cursor, 2, &clock.minute))
            return false;
        bool has_seconds = has_colons ? take(cursor, ':') : is_digit_next(cursor);
        if (has_seconds && !take_number(cursor, 2, &clock.second))
            return false;
        if (has_seconds && (take(cursor, '.') || take(cursor, ',')) &&
            !take_fraction(cursor, &clock.microsecond))
            return false;
    }
    *ret = clock;
    return clock.hour < 24 && clock.minute < 60 && clock.second < 60;
}

static int64_t clock_microseconds(const struct clock *clock)
{
    return (clock->hour * INT64_C(3600) + clock->minute * 60 + clock->second) * ISO_TIME_SECOND +
           clock->microsecond;
}

static bool take_offset(struct cursor *cursor, int64_t *ret)
{
    struct clock clock = {0};

    *ret = 0;
    if (cursor->at == cursor->end || take(cursor, 'Z'))
        return true;
    int sign = take(cursor, '-') ? -1 : take(cursor, '+') ? 1 : 0;
    if (sign == 0 || !take_clock(cursor, &clock))
        return false;
    *ret = sign * clock_microseconds(&clock);
    return true;
}

bool iso_time_read(const char *text, size_t size, int64_t *ret_us)
{
    struct cursor cursor = {text, text + size};
    struct clock clock = {0};
    int64_t day = 0;
    int64_t offset = 0;
    size_t length = 0;

    if (!take_day(&cursor, &day))
        return false;
    if (cursor.at < cursor.end) {
        (void) text_decode(cursor.at, (size_t) (cursor.end - cursor.at), &length);
        cursor.at += length;
        if (!take_clock(&cursor, &clock) || !take_offset(&cursor, &offset))
            return false;
    }
    if (cursor.at < cursor.end)
        return false;
    *ret_us = (day - DAY_OF_1970) * ISO_TIME_DAY + clock_microseconds(&clock) - offset;
    return true;
}
