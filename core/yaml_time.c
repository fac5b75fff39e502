#include "core/yaml_time.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define MINUTES_PER_DAY (24 * 60)

/* What is left of the text. */
struct cursor {
    const char *at;
    const char *end;
};

static bool is_next(const struct cursor *cursor, char byte)
{
    return cursor->at < cursor->end && *cursor->at == byte;
}

static bool take(struct cursor *cursor, char byte)
{
    if (!is_next(cursor, byte))
        return false;
    cursor->at++;
    return true;
}

static bool is_digit_next(const struct cursor *cursor)
{
    return cursor->at < cursor->end && *cursor->at >= '0' && *cursor->at <= '9';
}

/* Takes `least` to `most` digits; returns how many, 0 when there are too few. */
static int take_digits(struct cursor *cursor, int least, int most, int *ret)
{
    int value = 0;
    int count = 0;

    while (count < most && is_digit_next(cursor)) {
        value = 10 * value + (*cursor->at++ - '0');
        count++;
    }
    if (count < least)
        return 0;
    *ret = value;
    return count;
}

static bool take_blanks(struct cursor *cursor)
{
    const char *start = cursor->at;

    while (take(cursor, ' ') || take(cursor, '\t'))
        ;
    return cursor->at > start;
}

/* Six digits count, any further ones are dropped. */
static void take_fraction(struct cursor *cursor, int *ret)
{
    int value = 0;
    int unit = 100000;

    for (; is_digit_next(cursor); cursor->at++, unit /= 10)
        value += (*cursor->at - '0') * unit;
    *ret = value;
}

static bool take_zone(struct cursor *cursor, struct yaml_time *time)
{
    int hours = 0;
    int minutes = 0;

    if (take(cursor, 'Z')) {
        time->has_zone = true;
        return true;
    }
    int sign = take(cursor, '-') ? -1 : take(cursor, '+') ? 1 : 0;
    if (sign == 0 || !take_digits(cursor, 1, 2, &hours))
        return false;
    if (take(cursor, ':') && !take_digits(cursor, 2, 2, &minutes))
        return false;
    time->has_zone = true;
    time->zone_minutes = sign * (60 * hours + minutes);
    return true;
}

static bool take_clock(struct cursor *cursor, struct yaml_time *time)
{
    if (!take(cursor, 'T') && !take(cursor, 't') && !take_blanks(cursor))
        return false;
    if (!take_digits(cursor, 1, 2, &time->hour) || !take(cursor, ':') ||
        !take_digits(cursor, 2, 2, &time->minute) || !take(cursor, ':') ||
        !take_digits(cursor, 2, 2, &time->second))
        return false;
    time->has_clock = true;
    if (take(cursor, '.'))
        take_fraction(cursor, &time->microsecond);
    if (cursor->at == cursor->end)
        return true;
    (void) take_blanks(cursor);
    return take_zone(cursor, time);
}

bool yaml_time_parse(const char *text, size_t size, struct yaml_time *ret)
{
    struct cursor cursor = {text, text + size};
    struct yaml_time time = {0};

    if (!take_digits(&cursor, 4, 4, &time.year) || !take(&cursor, '-'))
        return false;
    int month_digits = take_digits(&cursor, 1, 2, &time.month);
    if (month_digits == 0 || !take(&cursor, '-'))
        return false;
    int day_digits = take_digits(&cursor, 1, 2, &time.day);
    if (day_digits == 0)
        return false;
    time.is_padded = month_digits == 2 && day_digits == 2;
    if (cursor.at < cursor.end && !take_clock(&cursor, &time))
        return false;
    if (cursor.at < cursor.end)
        return false;
    *ret = time;
    return true;
}

static int days_of_month(int year, int month)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool is_leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;

    return days[month - 1] + (month == 2 && is_leap ? 1 : 0);
}

bool yaml_time_is_valid(const struct yaml_time *time)
{
    return time->year >= 1 && time->month >= 1 && time->month <= 12 && time->day >= 1 &&
           time->day <= days_of_month(time->year, time->month) && time->hour < 24 &&
           time->minute < 60 && time->second < 60 && abs(time->zone_minutes) < MINUTES_PER_DAY;
}

void yaml_time_format(const struct yaml_time *time, char text[YAML_TIME_TEXT_SIZE])
{
    char fraction[16] = "";
    char zone[16] = "";

    if (!time->has_clock) {
        (void) snprintf(text, YAML_TIME_TEXT_SIZE, "%04d-%02d-%02d", time->year, time->month,
                        time->day);
        return;
    }
    if (time->microsecond > 0)
        (void) snprintf(fraction, sizeof fraction, ".%06d", time->microsecond);
    if (time->has_zone) {
        int minutes = abs(time->zone_minutes);
        (void) snprintf(zone, sizeof zone, "%c%02d:%02d", time->zone_minutes < 0 ? '-' : '+',
                        minutes / 60, minutes % 60);
    }
    (void) snprintf(text, YAML_TIME_TEXT_SIZE, "%04d-%02d-%02dT%02d:%02d:%02d%s%s", time->year,
                    time->month, time->day, time->hour, time->minute, time->second, fraction, zone);
}

int64_t yaml_time_day_number(const struct yaml_time *time)
{
    int years = time->year - 1;
    int64_t days = 365 * (int64_t) years + years / 4 - years / 100 + years / 400;

    for (int month = 1; month < time->month; month++)
        days += days_of_month(time->year, month);
    return days + time->day;
}

void yaml_time_identity(const struct yaml_time *time, char text[YAML_TIME_TEXT_SIZE])
{
    if (!time->has_zone) {
        yaml_time_format(time, text);
        return;
    }
    int64_t minutes = MINUTES_PER_DAY * yaml_time_day_number(time) + 60 * time->hour +
                      time->minute - time->zone_minutes;
    (void) snprintf(text, YAML_TIME_TEXT_SIZE, "%" PRId64 ":%02d.%06d", minutes, time->second,
                    time->microsecond);
}
