/* core/watch_poll.h - which bucket to look at next: adaptive polling with a budget.
 *
 * Pure scheduling, no I/O: the caller says what time it is and how many volume operations it may
 * spend, and gets bucket names back. Buckets that were searched or found changed lately are due
 * often (interval_min), idle ones ever more rarely (doubling up to interval_max), new ones once at
 * once and then as idle ones. When the budget does not reach, all intervals grow by the same
 * factor. Not thread-safe.
 */
#ifndef MEMSYNC_CORE_WATCH_POLL_H
#define MEMSYNC_CORE_WATCH_POLL_H

#include "core/status.h"

#include <stdint.h>

struct watch_poll;

struct watch_poll_options {
    uint64_t interval_min_ns;
    uint64_t interval_max_ns;
    unsigned operations_per_second; /* the budget; one compare is one operation here */
};

/* The options are copied. STATUS_INVALID: an interval or the budget is 0, or max is below min;
 * STATUS_NO_MEMORY. */
MUST_CHECK enum status watch_poll_create(const struct watch_poll_options *options,
                                         struct watch_poll **ret);
void watch_poll_destroy(struct watch_poll **poll);

/* Adds a bucket (due at once) or does nothing when it is known. The root bucket: has_user false,
 * bucket "". */
MUST_CHECK enum status watch_poll_add(struct watch_poll *poll, bool has_user, const char *bucket,
                                      uint64_t now_ns);
void watch_poll_remove(struct watch_poll *poll, bool has_user, const char *bucket);

/* It was searched: poll it often again. Unknown buckets are added. */
void watch_poll_touch(struct watch_poll *poll, bool has_user, const char *bucket, uint64_t now_ns);

/* The next bucket that is due and within the budget, or false. `ret_bucket` points into the table
 * until the next call. The caller compares it and reports with watch_poll_done(); until then it is
 * not handed out again. A compare made for another reason may be reported as well, and saves one.
 */
bool watch_poll_next(struct watch_poll *poll, uint64_t now_ns, bool *ret_has_user,
                     const char **ret_bucket);
void watch_poll_done(struct watch_poll *poll, bool has_user, const char *bucket, bool changed,
                     uint64_t now_ns);

/* Takes operations from the budget beyond the one that each bucket handed out has cost. What
 * exceeds it is paid before anything is handed out again. */
void watch_poll_charge(struct watch_poll *poll, uint64_t operations, uint64_t now_ns);

/* Makes every bucket due, e.g. after events were lost (the budget still holds). */
void watch_poll_all_due(struct watch_poll *poll, uint64_t now_ns);

/* How long the caller may sleep, CLOCK_NEVER at most. */
uint64_t watch_poll_wait_ns(const struct watch_poll *poll, uint64_t now_ns);

/* How many buckets it knows. */
size_t watch_poll_count(const struct watch_poll *poll);

#endif
