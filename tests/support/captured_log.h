/* tests/support/captured_log.h - keeps log lines, so that a test can ask for them.
 *
 * Lines of all levels down to debug are kept from captured_log_start() to captured_log_stop().
 * Warnings and errors that a test has not announced fail it, when it ends with
 * cr_expect(eq(ptr, (void *) captured_log_unexpected(), NULL)). Thread-safe.
 */
#ifndef MEMSYNC_TESTS_CAPTURED_LOG_H
#define MEMSYNC_TESTS_CAPTURED_LOG_H

#include "core/log.h"

#include <stddef.h>

void captured_log_start(void);
void captured_log_stop(void); /* frees the lines; logging goes to standard error again */

/* True while this thread keeps a line: whoever refuses memory must not refuse it that. */
bool captured_log_is_keeping(void);

/* How many lines contain `part`, e.g. "event=watch.limit " (NULL: all lines). */
size_t captured_log_count(const char *part);

/* The nth of them from 0, or NULL; valid until captured_log_stop(). */
const char *captured_log_line(const char *part, size_t nth);

/* Waits until at least `count` lines contain `part`; false after `timeout_ms`. */
bool captured_log_wait(const char *part, size_t count, unsigned timeout_ms);

/* Announces that lines containing `part` (a static string) are expected. */
void captured_log_expect(const char *part);

/* The first warning or error that nobody announced, or NULL. */
const char *captured_log_unexpected(void);

#endif
