/* backends/backend.h - the contract between the agent and a memory backend: a table of functions.
 *
 * The agent owns the socket, the envelope, the limits and the identity of callers; a backend owns
 * its storage, its format and its filtering. A slot that a backend leaves NULL gets the default:
 * -32006 unsupported, or the fallback that the slot names. Every slot may be called from many
 * threads at once, except create, drain and destroy.
 *
 * A call's arguments are the request's params (docs/protocol.md); the backend reads its own.
 * `user_id` and `agent_name` are checked and parsed by the agent beforehand.
 */
#ifndef MEMSYNC_BACKENDS_BACKEND_H
#define MEMSYNC_BACKENDS_BACKEND_H

#include "core/exposition.h"
#include "core/scope.h"
#include "core/text.h"

struct backend; /* the backend's own state; opaque to the agent */

struct backend_call {
    const struct scope *scope; /* from user_id and agent_name */
    bool agent_given;          /* agent_name was there and not null */
    const json_t *params;      /* an object */
    uint64_t deadline_ns;      /* monotonic */
    bool may_block;            /* false: answer STATUS_WOULD_BLOCK where waiting would be needed */
    unsigned thread;           /* 0..thread_count-1: the calling thread's number */
};

/* Appends the result as JSON text and returns STATUS_OK, or fills `error`. */
typedef enum status (*backend_method)(struct backend *backend, const struct backend_call *call,
                                      struct text *result, struct error *error);

/* What a backend reports about changes, for the events socket. */
typedef void (*backend_event_sink)(void *context, const struct scope *scope, const char *event,
                                   const char *members);

struct backend_setup {
    const json_t *config;  /* backend.config: the backend's own keys; an object */
    unsigned thread_count; /* calls come from threads numbered below this */
    backend_event_sink event_sink;
    void *event_context;
    const void *store_options; /* deermem: struct store_options; others ignore it */
};

struct backend_table {
    const char *name;
    unsigned version;     /* BACKEND_CONTRACT_VERSION it was written for */
    bool supports_search; /* must equal (search != NULL) */

    /* Validates everything and wires it; configuration faults fail here, with the key's name. */
    enum status (*create)(const struct backend_setup *setup, struct backend **ret,
                          struct error *error);
    /* No new calls arrive any more: finish what is under way. STATUS_TIMEOUT: threads hang and did
     * not come back by the deadline; then destroy() must not be called, since they use what it
     * frees. */
    enum status (*drain)(struct backend *backend, uint64_t deadline_ns, struct error *error);
    void (*destroy)(struct backend *backend);
    /* Members for the `status` reply, e.g. "\"index\":{...}"; NULL: none. */
    void (*describe)(struct backend *backend, struct text *members);
    /* Appends the backend's families of metrics. Waits for nobody: touches neither volume nor
     * index, and takes no lock that somebody may hold who does. NULL: none. */
    void (*measure)(struct backend *backend, struct exposition *page);
    /* False when answers cannot be what they should for the time being, and in `ret_reason` a text
     * that says why. Waits for nobody either. NULL: always ready. */
    bool (*is_ready)(struct backend *backend, const char **ret_reason);
    /* True when a worker of this backend has stopped responding; part of the watchdog. NULL: never.
     */
    bool (*is_stuck)(struct backend *backend);
    /* Called about once a second, by a thread that does not touch the volume, to look after the
     * backend's own threads. NULL: nothing. */
    void (*oversee)(struct backend *backend);
    /* Reads again what can be read again (SIGHUP). NULL: nothing. */
    void (*reload)(struct backend *backend);

    /* tier 1 */
    backend_method add;
    backend_method get_context;
    /* tier 2: management */
    backend_method add_nowait; /* NULL: add */
    backend_method search;
    backend_method get_memory;
    backend_method list_facts;
    backend_method get_fact;
    backend_method get_summaries;
    backend_method clear_memory;
    backend_method import_memory;
    backend_method export_memory; /* NULL: get_memory */
    backend_method delete_memory;
    backend_method shutdown_flush; /* NULL: {"drained": true} */
    /* tier 3: hooks */
    backend_method warm;          /* NULL: {"warmed": null} */
    backend_method reload_memory; /* NULL: get_memory */
    backend_method create_fact;
    backend_method update_fact;
    backend_method delete_fact;
    backend_method apply_changes;
    backend_method update_summaries;
    backend_method on_pre_compress; /* NULL: {"text": ""} */
    backend_method on_turn_start;   /* NULL: {} */
    backend_method refresh;
    backend_method verify;
    backend_method migrate;
    backend_method scopes; /* lists what the backend knows, for operators */
};

#define BACKEND_CONTRACT_VERSION 1

extern const struct backend_table backend_deermem;
extern const struct backend_table backend_noop;

/* The table of index `i`, NULL past the last. */
const struct backend_table *backend_at(size_t i);

/* By name; NULL when there is none. */
const struct backend_table *backend_find(const char *name);

/* STATUS_INVALID when the table breaks the contract (supports_search, missing tier 1, version). */
MUST_CHECK enum status backend_check(const struct backend_table *table, struct error *error);

#endif
