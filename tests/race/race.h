/* tests/race/race.h - race bodies: plain functions, so that they run under the thread sanitizer and
 * valgrind, where Criterion does not start.
 *
 * A body makes its own store and cleans up; what it finds wrong it tells with RACE_CHECK, from any
 * thread, and goes on. Bodies run one after the other.
 */
#ifndef MEMSYNC_TESTS_RACE_H
#define MEMSYNC_TESTS_RACE_H

#include "core/compiler.h"

#include <stdbool.h>

void race_check(bool condition, const char *text, const char *file, int line);
#define RACE_CHECK(condition) race_check((condition), #condition, __FILE__, __LINE__)

/* Ends the program's waiting when nothing moves any more: a body that takes longer is told and the
 * program aborted. */
#define RACE_SECONDS_MAX 240

void race_table_one_runner_a_scope(void);
void race_table_no_request_is_lost(void);
void race_table_stop_wakes_everybody(void);
void race_queue_first_come_first_served(void);
void race_pool_shared_by_many(void);
void race_notes_and_clock(void);
void race_metrics_told_while_they_are_counted(void);
void race_search_against_peer_commits(void);
void race_search_of_two_scopes_against_commits(void);
void race_first_build_asked_for_by_many(void);
void race_search_against_full_refreshes(void);
void race_search_against_dying_writers(void);
void race_own_writes_against_peers(void);
void race_own_writes_against_full_refreshes(void);
void race_keeper_follows_peers(void);
void race_keeper_starts_and_stops(void);
void race_keeper_and_a_lost_index(void);
void race_volume_goes_and_returns(void);
void race_writes_of_one_agent(void);
void race_writes_of_two_agents(void);
void race_writes_beside_a_peer(void);
void race_writes_of_two_nodes_without_locks(void);

#endif
