/* core/iso_time.h - instants in texts of ISO 8601, as far as the peers read them.
 *
 * Python's datetime.fromisoformat() is the measure: 2026-08-13, 20260813, 2026-W33-4 or 2026W334;
 * then any one character, hours, hours and minutes or all three with colons or without, a fraction
 * of the seconds of any length (six digits count), and Z or an offset. Pure.
 */
#ifndef MEMSYNC_CORE_ISO_TIME_H
#define MEMSYNC_CORE_ISO_TIME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ISO_TIME_SECOND INT64_C(1000000)
#define ISO_TIME_DAY (86400 * ISO_TIME_SECOND)

/* Reads the text to its end: microseconds since 1970 in UTC, which is also the zone of a text that
 * names none. False for all else, for days that do not exist, and for offsets of a day or more. */
bool iso_time_read(const char *text, size_t size, int64_t *ret_us);

#endif
