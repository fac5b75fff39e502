/* backends/deermem.h - the shared-volume backend: the backend contract on core/store.
 */
#ifndef MEMSYNC_BACKENDS_DEERMEM_H
#define MEMSYNC_BACKENDS_DEERMEM_H

#include "backends/backend.h"
#include "backends/deermem_usage.h"
#include "core/capacity.h"
#include "core/keeper.h"
#include "core/search_tally.h"
#include "core/searcher.h"
#include "core/writer.h"

#include <pthread.h>

/* What backend_setup.store_options points to. */
struct deermem_options {
    /* request_threads, event_sink and event_context are set by create */
    struct store_options store;
    struct keeper_options keeper;
    enum freshness_mode freshness; /* of requests that name none */
    uint64_t max_staleness_ms;
    bool
        index_is_misplaced; /* inside the volume, though several instances share it; for `status` */
};

/* What backend.config sets; the keys are in docs/configuration.md. */
struct deermem_settings {
    struct capacity_policy capacity;
    size_t audit_entries_max;
    uint64_t lock_timeout_ms;
};

/* Reads backend.config. Keys that it does not know are warned about; STATUS_INVALID names the key.
 */
MUST_CHECK enum status deermem_settings_read(const json_t *config, struct deermem_settings *ret,
                                             struct error *error);

/* ---- shared by the backend's own files ---- */

struct backend {
    /* `status` is asked for on any thread, also by the supervisor's: it has a reader of its own. */
    pthread_mutex_t status_lock;
    struct index_reader *status_reader;
    struct store *store;
    struct keeper *keeper;
    enum freshness_mode freshness;
    uint64_t max_staleness_ms;
    bool index_is_misplaced;
    struct writer *writer;
    struct deermem_settings settings;
    struct search_tally searches;
    struct deermem_usage *usage; /* NULL where the policy does not weigh it */
};

/* Fills the reading part of a request from a call: freshness, max_staleness_ms, deadline. `scopes`
 * must outlive `ret`. */
MUST_CHECK enum status deermem_reading_request(const struct backend *backend,
                                               const struct backend_call *call,
                                               const struct scope *scopes, size_t count,
                                               struct reading_request *ret, struct error *error);

/* Appends {"user_id":..., "agent_name":..., "revision":..., "state":..., ...}. */
void deermem_write_scope(struct text *text, const struct scope *scope,
                         const struct scope_report *report);

/* The slots of the contract, each a `backend_method`; any of the request threads. Those that would
 * have to wait answer STATUS_WOULD_BLOCK when the call must not. */
enum status deermem_search(struct backend *backend, const struct backend_call *call,
                           struct text *result, struct error *error);
enum status deermem_list_facts(struct backend *backend, const struct backend_call *call,
                               struct text *result, struct error *error);
enum status deermem_get_fact(struct backend *backend, const struct backend_call *call,
                             struct text *result, struct error *error);
enum status deermem_get_memory(struct backend *backend, const struct backend_call *call,
                               struct text *result, struct error *error);
enum status deermem_get_summaries(struct backend *backend, const struct backend_call *call,
                                  struct text *result, struct error *error);
enum status deermem_reload_memory(struct backend *backend, const struct backend_call *call,
                                  struct text *result, struct error *error);
enum status deermem_refresh(struct backend *backend, const struct backend_call *call,
                            struct text *result, struct error *error);
enum status deermem_verify(struct backend *backend, const struct backend_call *call,
                           struct text *result, struct error *error);
enum status deermem_scopes(struct backend *backend, const struct backend_call *call,
                           struct text *result, struct error *error);
enum status deermem_create_fact(struct backend *backend, const struct backend_call *call,
                                struct text *result, struct error *error);
enum status deermem_update_fact(struct backend *backend, const struct backend_call *call,
                                struct text *result, struct error *error);
enum status deermem_delete_fact(struct backend *backend, const struct backend_call *call,
                                struct text *result, struct error *error);
enum status deermem_apply_changes(struct backend *backend, const struct backend_call *call,
                                  struct text *result, struct error *error);
enum status deermem_update_summaries(struct backend *backend, const struct backend_call *call,
                                     struct text *result, struct error *error);
enum status deermem_clear_memory(struct backend *backend, const struct backend_call *call,
                                 struct text *result, struct error *error);
enum status deermem_import_memory(struct backend *backend, const struct backend_call *call,
                                  struct text *result, struct error *error);
enum status deermem_delete_memory(struct backend *backend, const struct backend_call *call,
                                  struct text *result, struct error *error);
enum status deermem_migrate(struct backend *backend, const struct backend_call *call,
                            struct text *result, struct error *error);
/* Appends "volume", "index", "sync", "watch", "problems" for the `status` reply. */
void deermem_describe(struct backend *backend, struct text *members);
/* See the contract; docs/monitoring/README.md has the meaning of each family. */
void deermem_measure(struct backend *backend, struct exposition *page);
/* Not ready: the volume is gone or another one, or has not answered the watcher for five seconds.
 */
bool deermem_is_ready(struct backend *backend, const char **ret_reason);

#endif
