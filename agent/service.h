/* agent/service.h - the process and its supervisor: readiness, watchdog, signals.
 *
 * Works with and without systemd ($NOTIFY_SOCKET, $WATCHDOG_USEC): without, notifications go
 * nowhere. Failing to notify is never an error. Control characters in a status line become spaces.
 */
#ifndef MEMSYNC_AGENT_SERVICE_H
#define MEMSYNC_AGENT_SERVICE_H

#include "core/status.h"

#include <stdbool.h>
#include <stdint.h>

/* Blocks SIGTERM, SIGINT, SIGHUP, SIGUSR1 and SIGUSR2 in this thread and all made after it, so that
 * service_next_signal() gets them, and ignores SIGPIPE. Call first in main(). */
MUST_CHECK enum status service_block_signals(struct error *error);

/* Waits for the next of them and returns its number; 0 after `timeout_ms` (-1: no time limit).
 * Other signals do not end the wait. */
int service_next_signal(int timeout_ms);

/* True when somebody wants to be notified. */
bool service_is_supervised(void);

/* READY=1 with a status line; also ends a reload. */
void service_ready(const char *status_line);
/* Only the status line, for `systemctl status`. */
void service_status(const char *status_line);

/* The configuration is being read again; service_ready() must follow, also after a failure. */
void service_reloading(void);

/* The agent is on its way out. */
void service_stopping(void);

/* Feeds the watchdog when it is due: at most every quarter of its interval, so that a loop which
 * turns only twice in it is still in time. Cheap; called by the serving loop, and by nobody else,
 * so that the feeding stops when that loop does. Does not wait: where the supervisor's socket is
 * full the next turn tries again. Thread-safe. */
void service_feed_watchdog(void);
/* The interval that the supervisor asked for at the start; 0: none is wanted. Thread-safe. */
uint64_t service_watchdog_interval_ns(void);

/* True when standard error is the journal's socket ($JOURNAL_STREAM matches). */
bool service_stderr_is_journal(void);

#endif
