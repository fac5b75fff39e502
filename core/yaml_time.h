/* core/yaml_time.h - dates and times as YAML 1.1 spells them.
 *
 * Reading is by the peers' pattern, which is wider than ISO 8601: 2026-2-1, blanks before the hour
 * and before the zone, one-digit hours. Pure.
 */
#ifndef MEMSYNC_CORE_YAML_TIME_H
#define MEMSYNC_CORE_YAML_TIME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct yaml_time {
    int year;
    int month;
    int day;
    bool is_padded; /* month and day have two digits each */
    bool has_clock; /* the rest is 0 without it */
    int hour;
    int minute;
    int second;
    int microsecond;
    bool has_zone;
    int zone_minutes; /* east of Greenwich */
};

/* Takes the text apart; false when it does not look like a date. Ranges are not checked. */
bool yaml_time_parse(const char *text, size_t size, struct yaml_time *ret);

/* True when there is such a day and such a time of day. */
bool yaml_time_is_valid(const struct yaml_time *time);

/* Days of the Gregorian calendar, the first day of year 1 being day 1; `time` must be valid. */
int64_t yaml_time_day_number(const struct yaml_time *time);

/* Writes the ISO 8601 form that the peers write; `time` must be valid. */
#define YAML_TIME_TEXT_SIZE 104 /* a valid time needs 33 */
void yaml_time_format(const struct yaml_time *time, char text[YAML_TIME_TEXT_SIZE]);

/* Writes a text that is the same for two values exactly when the peers hold them for equal: times
 * with a zone are compared as instants. `time` must be valid. */
void yaml_time_identity(const struct yaml_time *time, char text[YAML_TIME_TEXT_SIZE]);

#endif
