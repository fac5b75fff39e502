/* agent/config.h - the configuration: one table of keys gives parser, ranges, defaults, environment
 * names, help text and the sample file.
 *
 * YAML with `config_version: 1` and the sections volume, index, sync, ipc, backend, access, log,
 * metrics. Unknown keys are warned about with the nearest known name; wrong types and ranges are
 * errors that begin with FILE:LINE:COLUMN and name the key and what is allowed. Each key can be
 * overridden by the environment: MEMSYNC_VOLUME_PATH for volume.path, and so on.
 *
 * The order is: config_create(), config_read_file(), config_read_environment(), config_set() for
 * the command line, config_check(). options_load_config() does all of it. A call that fails may
 * leave a part of its input behind: throw such a configuration away. Not thread-safe.
 */
#ifndef MEMSYNC_AGENT_CONFIG_H
#define MEMSYNC_AGENT_CONFIG_H

#include "core/log.h"
#include "core/status.h"
#include "core/text.h"

#include <stdint.h>

struct config {
    /* volume */
    char *volume_path;                 /* required; absolute */
    char *volume_manifest_filename;    /* "memory.json" */
    char *volume_locks;                /* "auto" | "trusted" | "local" */
    uint64_t volume_recovery_grace_ms; /* 60000 */
    uint64_t volume_cache_ms;          /* 0: as the mount's options say */
    char *volume_kind;                 /* "auto" | "local" | "cluster" | "unknown" */
    bool volume_multi_instance;        /* several agents or peers write: placement warnings */
    bool volume_read_only;             /* never write to it: no recovery, no marker */
    /* index */
    char *index_path; /* not given: NULL = the cache directory; "" = <volume>/.retrieval; relative =
                         against the volume's path */
    bool index_allow_network;
    uint64_t index_mmap_bytes;
    uint64_t index_wal_bytes_max;
    /* sync */
    char *sync_freshness;                /* default mode: "strict" | "bounded" | "local" */
    uint64_t sync_max_staleness_ms;      /* bounded: 1000 */
    uint64_t sync_poll_interval_min_ms;  /* 1000 */
    uint64_t sync_poll_interval_max_ms;  /* 60000 */
    uint64_t sync_operations_per_second; /* 500 */
    uint64_t sync_refreshers;            /* threads; 0: by volume */
    uint64_t sync_readers;               /* fact reader threads; 0: by volume */
    bool sync_inotify;                   /* true */
    /* ipc */
    char *ipc_endpoint;
    char *ipc_events;       /* "" = beside an ipc endpoint: <path>.events, none for a tcp one;
                               "off" = none */
    char *ipc_socket_mode;  /* octal, "0660" */
    char *ipc_socket_group; /* NULL: leave */
    uint64_t ipc_threads;   /* request threads, 8 */
    uint64_t ipc_max_message_bytes;
    uint64_t ipc_queue_per_client; /* 64 */
    uint64_t ipc_queue_total;      /* 4096 */
    uint64_t ipc_timeout_ms;       /* default request deadline, 5000 */
    uint64_t ipc_timeout_max_ms;   /* 600000 */
    /* backend */
    char *backend_name;     /* "deermem" */
    json_t *backend_config; /* an object */
    /* log */
    char *log_level; /* "info" */
    /* metrics */
    char *metrics_listen; /* "" = nowhere; see agent/http_address.h */
    /* access: this version does not have it; whatever would switch it on is refused */
};

/* The largest configuration file that is read. */
#define CONFIG_FILE_BYTES_MAX ((size_t) 256 << 10)

/* Everything at its default. Only STATUS_NO_MEMORY can happen. */
MUST_CHECK enum status config_create(struct config **ret);

/* Frees it and clears the caller's pointer; NULL is fine. */
void config_destroy(struct config **config);

/* Reads a file over the defaults. Warnings (unknown keys, no config_version) are appended to
 * `warnings`, a line each. Behind a wrong value it reads on: the first error is in `error`, and
 * with a place in the file it is in `errors` too, a line each, with those that follow (20 at most).
 * STATUS_INVALID for what it says, STATUS_NOT_FOUND, STATUS_DENIED, ...
 * for the file itself; the message names the file in both cases. */
MUST_CHECK enum status config_read_file(struct config *config, const char *path,
                                        struct text *warnings, struct text *errors,
                                        struct error *error);
/* The same from memory; `name` stands for the file in messages. (Also the fuzz target.) */
MUST_CHECK enum status config_read(struct config *config, const char *name, const char *bytes,
                                   size_t size, struct text *warnings, struct text *errors,
                                   struct error *error);

/* MEMSYNC_<SECTION>_<KEY> over what the file said, and MEMSYNC_ENDPOINT as the short form of
 * MEMSYNC_IPC_ENDPOINT, which wins when both are there. `environment` is environ or a test's list;
 * other variables that begin with MEMSYNC_ are warned about, except those of tests and of the
 * command line. */
MUST_CHECK enum status config_read_environment(struct config *config, char *const *environment,
                                               struct text *warnings, struct error *error);

/* Sets one key by its dotted name, as the command line does. STATUS_NOT_FOUND for an unknown name,
 * STATUS_INVALID for a bad value; the key keeps its value then. */
MUST_CHECK enum status config_set(struct config *config, const char *key, const char *value,
                                  struct error *error);

/* What no single key can tell: volume.path missing, intervals crossed, settings that exclude each
 * other. STATUS_INVALID with the names of the keys. */
MUST_CHECK enum status config_check(const struct config *config, struct error *error);

/* Appends a commented sample file with every key at its default (systemd/memsyncd.yaml is made from
 * it; a test compares). */
void config_write_sample(struct text *text);

/* Appends a line "key = value" for each key of the configuration in force. */
void config_write(struct text *text, const struct config *config);

#endif
