/* What the backend counts, as metrics, and whether the volume can be relied on. Everything here is
 * read from counters and from what threads left behind; nothing looks at the volume or the index.
 */
#include "backends/deermem.h"

#include "core/clock.h"
#include "core/volume_errors.h"
#include "core/volume_stuck.h"

/* The volume does not answer when the watcher's own call to it takes that long. */
#define SILENCE_NS (5 * NS_PER_SECOND)

static uint64_t relaxed(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

static void measure_searches(const struct search_tally *searches, struct exposition *page)
{
    exposition_begin(page, "memsyncd_searches_total", EXPOSITION_COUNTER,
                     "Searches by the state of the scope that is worth least, or failed.");
    for (unsigned i = 0; i < SEARCH_STATE_COUNT; i++)
        exposition_count(page, LABELS("state", scope_state_name((enum scope_state) i)),
                         relaxed(&searches->by_state[i]));
    exposition_count(page, LABELS("state", "failed"), relaxed(&searches->failed));
    exposition_begin(page, "memsyncd_stale_answers_total", EXPOSITION_COUNTER,
                     "Scopes that searches were answered for as stale or unverified, by reason.");
    for (unsigned i = 0; i < STALE_REASON_COUNT; i++)
        exposition_count(page, LABELS("reason", stale_reason_name((enum stale_reason) i)),
                         relaxed(&searches->by_reason[i]));
    exposition_histogram(page, "memsyncd_search_duration_seconds",
                         "How long searches took inside the agent.", &searches->duration);
}

static void measure_compares(const struct store_counters *counters, struct exposition *page)
{
    exposition_histogram(page, "memsyncd_compare_duration_seconds",
                         "How long compares with the volume took.", &counters->compare_duration);
    exposition_counter(page, "memsyncd_compare_errors_total",
                       "Compares with the volume that failed.", relaxed(&counters->compare_errors));
}

static void measure_refreshes(const struct store_counters *counters, struct exposition *page)
{
    exposition_begin(page, "memsyncd_refreshes_total", EXPOSITION_COUNTER,
                     "Refreshes of scopes by what asked for them and by what came of them.");
    for (unsigned cause = 0; cause < REFRESH_CAUSE_COUNT; cause++) {
        for (unsigned outcome = 0; outcome < REFRESH_OUTCOME_COUNT; outcome++)
            exposition_count(page,
                             LABELS("cause", refresh_cause_name((enum refresh_cause) cause),
                                    "outcome",
                                    refresh_outcome_name((enum refresh_outcome) outcome)),
                             relaxed(&counters->refreshes_by[cause][outcome]));
    }
    exposition_histogram(page, "memsyncd_refresh_duration_seconds", "How long refreshes took.",
                         &counters->refresh_duration);
    exposition_counter(page, "memsyncd_fact_files_read_total", "Fact files that refreshes read.",
                       relaxed(&counters->files_read));
}

static void measure_refresh_queues(struct store *store, struct exposition *page)
{
    struct refresh_table_counts table;

    refresh_table_counts(store->refreshes, &table);
    exposition_begin(
        page, "memsyncd_refreshes_waiting", EXPOSITION_GAUGE,
        "Refreshes to do: that somebody waits for, that nobody waits for, and that are "
        "to begin later.");
    exposition_count(page, LABELS("queue", "urgent"), table.wanted_urgent);
    exposition_count(page, LABELS("queue", "background"), table.wanted_background);
    exposition_count(page, LABELS("queue", "delayed"), table.delayed);
    exposition_gauge(page, "memsyncd_refreshes_running", "Refreshes under way.", table.running);
    exposition_age(page, "memsyncd_oldest_refresh_age_seconds",
                   "Since when the oldest refresh under way runs; 0 without one.",
                   table.oldest_running_ns);
    exposition_gauge(page, "memsyncd_unreadable_scopes", "Scopes that cannot be read now.",
                     scope_notes_failing(store->notes));
}

static void measure_writes(const struct store_counters *counters, struct exposition *page)
{
    exposition_begin(page, "memsyncd_writes_total", EXPOSITION_COUNTER,
                     "Writes through this agent by what came of them.");
    exposition_count(page, LABELS("outcome", "changed"), relaxed(&counters->writes));
    exposition_count(page, LABELS("outcome", "unchanged"), relaxed(&counters->writes_unchanged));
    exposition_count(page, LABELS("outcome", "conflict"), relaxed(&counters->write_conflicts));
    exposition_count(page, LABELS("outcome", "failed"), relaxed(&counters->writes_failed));
    exposition_histogram(page, "memsyncd_commit_duration_seconds",
                         "How long commits on the volume took, those that failed too.",
                         &counters->commit_duration);
    exposition_begin(page, "memsyncd_own_writes_total", EXPOSITION_COUNTER,
                     "What the index made of this agent's commits.");
    exposition_count(page, LABELS("outcome", "promoted"), relaxed(&counters->promoted));
    exposition_count(page, LABELS("outcome", "current"), relaxed(&counters->already_current));
    exposition_count(page, LABELS("outcome", "forgotten"), relaxed(&counters->forgotten));
    exposition_count(page, LABELS("outcome", "failed"), relaxed(&counters->installs_failed));
}

static void measure_volume_errors(struct exposition *page)
{
    const char *operation;

    exposition_begin(page, "memsyncd_volume_errors_total", EXPOSITION_COUNTER,
                     "Calls to the volume that failed, by operation and kind of error.");
    for (unsigned i = 0; (operation = volume_errors_operation(i)) != NULL; i++) {
        for (unsigned error = 0; error < VOLUME_ERROR_COUNT; error++)
            exposition_count(page,
                             LABELS("operation", operation, "error",
                                    volume_error_name((enum volume_error) error)),
                             volume_errors_count(i, (enum volume_error) error));
    }
}

static void measure_volume(const struct store *store, struct exposition *page)
{
    uint64_t oldest_ns = 0;
    unsigned stuck = volume_stuck_count(&oldest_ns);

    measure_volume_errors(page);
    exposition_gauge(page, "memsyncd_stuck_calls",
                     "Calls to the volume that have not returned for a second.", stuck);
    exposition_age(page, "memsyncd_oldest_stuck_call_age_seconds",
                   "Since when the oldest of them is under way; 0 without one.", oldest_ns);
    exposition_gauge(page, "memsyncd_volume_suspended",
                     "1 while the volume is gone or is another one than before.",
                     atomic_load(&store->suspended));
    exposition_begin(page, "memsyncd_volume_info", EXPOSITION_GAUGE,
                     "What the volume was found to be when the agent began; always 1.");
    exposition_count(page,
                     LABELS("filesystem", volume_fs_name(store->volume), "kind",
                            volume_kind_name(volume_kind(store->volume))),
                     1);
}

static void measure_totals(const struct index_totals *totals, struct exposition *page)
{
    exposition_gauge(page, "memsyncd_index_size_bytes", "Size of the index with its log.",
                     totals->file_bytes);
    exposition_gauge(page, "memsyncd_index_log_size_bytes", "Size of the index's write-ahead log.",
                     totals->wal_bytes);
    exposition_gauge(page, "memsyncd_index_scopes", "Scopes in the index.", totals->scopes);
    exposition_gauge(page, "memsyncd_index_facts", "Facts in the index.", totals->facts);
    exposition_gauge(page, "memsyncd_index_broken_files",
                     "Fact files that are kept out of the index.", totals->broken);
    exposition_gauge(page, "memsyncd_index_unmigrated_scopes",
                     "Scopes with memory in an earlier layout.", totals->unmigrated);
}

static void measure_index(struct store *store, const struct keeper_state *state,
                          struct exposition *page)
{
    struct build_figures build;

    if (state->measured)
        measure_totals(&state->totals, page);
    exposition_gauge(page, "memsyncd_install_queue_length",
                     "Transactions that have or wait for their turn at the index.",
                     install_queue_length(store->installs));
    exposition_counter(page, "memsyncd_index_rebuilds_total",
                       "How often a damaged or lost index was begun anew while the agent ran.",
                       relaxed(&store->counters.index_rebuilds));
    exposition_gauge(page, "memsyncd_index_damaged",
                     "1 from when the index was found damaged until it is begun anew.",
                     index_is_damaged(store->index));
    build_progress_figures(store->progress, &build);
    exposition_gauge(page, "memsyncd_index_building",
                     "1 until everything on the volume is in the index, or cannot be read.",
                     build.phase != BUILD_DONE || atomic_load(&store->rebuild_wanted));
    exposition_begin(page, "memsyncd_build_scopes", EXPOSITION_GAUGE,
                     "Scopes of the last build of the index by how far they are.");
    exposition_count(page, LABELS("state", "done"), build.scopes_done);
    exposition_count(page, LABELS("state", "failed"), build.scopes_failed);
    uint64_t over = build.scopes_done + build.scopes_failed;
    exposition_count(page, LABELS("state", "waiting"),
                     build.scopes_total > over ? build.scopes_total - over : 0);
}

static void measure_watch(struct keeper *keeper, const struct keeper_state *state,
                          struct exposition *page)
{
    exposition_gauge(page, "memsyncd_polled_users", "Users that are compared unasked.",
                     state->buckets);
    exposition_gauge(page, "memsyncd_watched_directories", "Directories with an inotify watch.",
                     state->watched);
    exposition_gauge(page, "memsyncd_unwatched_directories",
                     "Directories that should have an inotify watch and have none.",
                     state->wanted > state->watched ? state->wanted - state->watched : 0);
    exposition_age(page, "memsyncd_watcher_call_age_seconds",
                   "Since when the watcher waits for a call to the volume; 0 when it does not.",
                   keeper_silence_ns(keeper));
}

void deermem_measure(struct backend *backend, struct exposition *page)
{
    struct store *store = backend->store;
    struct keeper_state state;

    keeper_state(backend->keeper, &state);
    measure_searches(&backend->searches, page);
    measure_compares(&store->counters, page);
    measure_refreshes(&store->counters, page);
    measure_refresh_queues(store, page);
    measure_writes(&store->counters, page);
    measure_volume(store, page);
    measure_index(store, &state, page);
    measure_watch(backend->keeper, &state, page);
}

bool deermem_is_ready(struct backend *backend, const char **ret_reason)
{
    if (atomic_load(&backend->store->suspended)) {
        *ret_reason = STORE_SUSPENDED_TEXT;
        return false;
    }
    if (keeper_silence_ns(backend->keeper) >= SILENCE_NS) {
        *ret_reason = "the volume does not answer";
        return false;
    }
    return true;
}
