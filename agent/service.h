/* agent/service.h - the process and its supervisor: readiness, watchdog, signals.
 *
 * Works with and without systemd ($NOTIFY_SOCKET, $WATCHDOG_USEC).
 */
#ifndef MEMSYNC_AGENT_SERVICE_H
#define MEMSYNC_AGENT_SERVICE_H

#include "core/status.h"

#include <stdint.h>

/* Blocks SIGTERM, SIGINT, SIGHUP, SIGUSR1 and SIGUSR2 in this thread and all made after it, so that
 * service_next_signal() gets them, and ignores SIGPIPE. Call first in main(). */
MUST_CHECK enum status service_block_signals(struct error *error);

/* Waits for the next of them; 0 after `timeout_ms` (-1: none). */
int service_next_signal(int timeout_ms);

/* READY=1 with a status line. */
void service_ready(const char *status_line);
/* STATUS=... */
void service_status(const char *status_line);
void service_reloading(void);
void service_stopping(void);

/* Feeds the watchdog when it is due (at most every half of its interval, from
 * service_watchdog_interval_ns()). Cheap; called by the serving loop. */
void service_feed_watchdog(void);
/* 0: none is wanted. */
uint64_t service_watchdog_interval_ns(void);

/* True when standard error is the journal's socket ($JOURNAL_STREAM matches). */
bool service_stderr_is_journal(void);

#endif
