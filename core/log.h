/* core/log.h - one line an event: a name and key=value pairs (logfmt), to standard error.
 *
 *     log_warning("refresh.retry", "user=%s revision=%" PRId64, user, revision);
 *     -> level=warning event=refresh.retry user=u42 revision=17
 *
 * Under systemd the line begins with the priority prefix (<4>) that the journal understands;
 * elsewhere, where nobody else notes it, with the time: time=2026-03-01T08:00:00.750000Z. Values
 * that come from outside go through LOG_VALUE, which quotes and escapes, so that a line stays a
 * line. Library code returns its errors; the one who finally handles an error logs it, once.
 * Thread-safe.
 */
#ifndef MEMSYNC_CORE_LOG_H
#define MEMSYNC_CORE_LOG_H

#include "core/compiler.h"

#include <stdbool.h>
#include <stddef.h>

enum log_level { LOG_ERROR, LOG_WARNING, LOG_NOTICE, LOG_INFO, LOG_DEBUG };

#define LOG_LEVEL_COUNT (LOG_DEBUG + 1)

/* Lines above `level` are dropped (default LOG_INFO). */
void log_set_level(enum log_level level);

/* "error", "warning", "notice", "info", "debug"; false for another word. */
bool log_level_from_name(const char *name, enum log_level *ret);

/* Prefixes each line with <N> for the journal, instead of the time. */
void log_set_journal_prefix(bool enabled);

/* Would a line of this level be written? For lines that cost something to prepare. */
bool log_enabled(enum log_level level);

/* Writes one line: "level=... event=..." and the formatted key=value pairs, of which 3 KiB at most
 * are kept. Use the macros below. */
void log_line(enum log_level level, const char *event, const char *format, ...) PRINTF(3, 4);

#define log_error(event, ...) log_line(LOG_ERROR, event, __VA_ARGS__)
#define log_warning(event, ...) log_line(LOG_WARNING, event, __VA_ARGS__)
#define log_notice(event, ...) log_line(LOG_NOTICE, event, __VA_ARGS__)
#define log_info(event, ...) log_line(LOG_INFO, event, __VA_ARGS__)
#define log_debug(event, ...)                                                                      \
    do {                                                                                           \
        if (log_enabled(LOG_DEBUG))                                                                \
            log_line(LOG_DEBUG, event, __VA_ARGS__);                                               \
    } while (0)

/* Writes `value` so that it is one logfmt value: as it is when it is plain, else in double quotes,
 * with quotes, backslashes, control characters and invalid UTF-8 escaped; cut to fit. NULL is
 * written as null. Returns the buffer's text. */
#define LOG_VALUE_SIZE 512
struct log_value {
    char text[LOG_VALUE_SIZE];
};
const char *log_value_format(struct log_value *buffer, const char *value);
#define LOG_VALUE(value) log_value_format(&(struct log_value){{0}}, (value))

/* Tells the capture, instead of standard error, every line (without newline) until it is set to
 * NULL again; for tests. */
typedef void (*log_capture)(void *context, enum log_level level, const char *line);
void log_set_capture(log_capture capture, void *context);

/* A gate that lets a message through once per state change: log_gate_change returns true when
 * `state` differs from the one that the gate saw last. A zeroed gate is in state 0. */
struct log_gate {
    int state;
};
bool log_gate_change(struct log_gate *gate, int state);

#endif
