#include "agent/agent.h"

#include "agent/config_table.h"
#include "agent/dispatch.h"
#include "agent/metrics.h"
#include "agent/monitor.h"
#include "agent/service.h"
#include "backends/deermem.h"
#include "core/clock.h"
#include "core/json_text.h"
#include "core/thread_kind.h"
#include "ipc/endpoint.h"
#include "ipc/events.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <zmq.h>

#define EVENTS_HIGH_WATER_MARK 10000

struct agent {
    const struct config *config;
    void *zmq;
    struct endpoint *endpoint;
    struct endpoint *events_endpoint;
    char *events_address; /* NULL: none */
    char *index_directory;
    bool index_is_misplaced; /* inside the volume, though several instances share it */
    struct events *events;
    struct server *server;
    struct dispatch dispatch;
    struct backend *backend;
    pthread_t serving;
    bool serving_started;
    struct health health;
    struct monitor *monitor; /* NULL: nothing is served by HTTP */
    uint64_t started_ns;
    enum volume_kind forced_kind;
};

/* ---- the index's place ---- */

/* Joins two parts of a path. */
static char *join(const char *directory, const char *name)
{
    struct text path = {0};

    text_append_format(&path, "%s/%s", directory, name);
    return text_take(&path, NULL);
}

/* The cache directory that the service manager gives, else the user's. */
static char *default_index_directory(struct error *error)
{
    const char *cache = getenv("CACHE_DIRECTORY");
    const char *home = getenv("HOME");
    const char *xdg = getenv("XDG_CACHE_HOME");

    if (cache && cache[0] == '/')
        return strdup(cache);
    if (xdg && xdg[0] == '/')
        return join(xdg, "memsyncd");
    if (home && home[0] == '/')
        return join(home, ".cache/memsyncd");
    (void) error_set(error, STATUS_INVALID, NULL,
                     "no place for the index: set index.path, or $CACHE_DIRECTORY or $HOME");
    return NULL;
}

static char *choose_index_directory(const struct config *config, struct error *error)
{
    if (!config->index_path)
        return default_index_directory(error);
    if (!config->index_path[0])
        return join(config->volume_path, ".retrieval");
    if (config->index_path[0] == '/')
        return strdup(config->index_path);
    return join(config->volume_path, config->index_path);
}

/* Makes a directory and its parents, 0700; what is there stays as it is. */
static enum status make_directories(const char *path, struct error *error)
{
    AUTO_FREE char *copy = strdup(path);

    if (!copy)
        return error_set(error, STATUS_NO_MEMORY, NULL, "out of memory");
    for (char *at = copy + 1;; at++) {
        if (*at != '/' && *at != '\0')
            continue;
        char end = *at;
        *at = '\0';
        if (mkdir(copy, 0700) < 0 && errno != EEXIST)
            return error_set_errno(error, errno, copy, "cannot make the index's directory %s",
                                   copy);
        *at = end;
        if (end == '\0')
            return STATUS_OK;
    }
}

/* The real path, also of what is not there yet: that of the deepest directory above it that is
 * there, with the rest appended. NULL: no memory. */
static char *resolve(const char *path)
{
    AUTO_FREE char *above = strdup(path);

    for (size_t end = above ? strlen(above) : 0; end > 0; end--) {
        if (path[end] != '/' && path[end] != '\0')
            continue;
        above[end] = '\0';
        AUTO_FREE char *real = realpath(above, NULL);
        if (real)
            return path[end] ? join(real[1] ? real : "", path + end + 1) : TAKE_PTR(real);
    }
    return strdup(path);
}

static bool is_inside(const char *path, const char *directory)
{
    AUTO_FREE char *real_path = resolve(path);
    AUTO_FREE char *real_directory = resolve(directory);

    if (!real_path || !real_directory)
        return false;
    size_t length = strlen(real_directory);
    return strncmp(real_path, real_directory, length) == 0 &&
           (real_path[length] == '/' || real_path[length] == '\0');
}

/* Everything below these is taken for users, agents and their facts, also by the peers. */
static enum status check_apart_from_data(const struct config *config, const char *index,
                                         struct error *error)
{
    static const char *const parts[] = {"users", "agents"};

    if (is_inside(index, config->volume_path) && is_inside(config->volume_path, index))
        return error_set(error, STATUS_INVALID, NULL,
                         "index.path: the index %s must not be the volume %s itself", index,
                         config->volume_path);
    for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
        AUTO_FREE char *data = join(config->volume_path, parts[i]);
        if (!data)
            return error_set(error, STATUS_NO_MEMORY, NULL, "out of memory");
        if (is_inside(index, data))
            return error_set(error, STATUS_INVALID, NULL,
                             "index.path: the index %s must not lie inside %s, where memories are",
                             index, data);
    }
    return STATUS_OK;
}

/* WAL does not work across machines, and a network file system corrupts an index. */
static enum status check_index_place(const struct config *config, const char *directory,
                                     bool *ret_misplaced, struct error *error)
{
    struct volume_options options = {.path = directory, .read_only = true};
    struct volume *place = NULL;

    enum status status = volume_open(&options, &place, error);
    if (status != STATUS_OK)
        return status;
    enum volume_kind kind = volume_kind(place);
    char fs[64];
    (void) snprintf(fs, sizeof fs, "%s", volume_fs_name(place));
    volume_close(&place);
    if (kind != VOLUME_LOCAL && !config->index_allow_network)
        return error_set(
            error, STATUS_INVALID, NULL,
            "the index %s of volume %s would lie on a network or unknown file system (%s), "
            "which corrupts indexes: set index.path to a local directory, or "
            "index.allow_network: true if you must",
            directory, config->volume_path, fs);
    *ret_misplaced = config->volume_multi_instance && is_inside(directory, config->volume_path);
    if (*ret_misplaced)
        log_warning(
            "index.placement",
            "index=%s volume=%s what=\"the index lies inside the volume while several instances "
            "are declared: each needs its own, set index.path to a local directory\"",
            LOG_VALUE(directory), LOG_VALUE(config->volume_path));
    return STATUS_OK;
}

static enum status prepare_index_directory(struct agent *agent, struct error *error)
{
    agent->index_directory = choose_index_directory(agent->config, error);
    if (!agent->index_directory)
        return error && error->status != STATUS_OK
                   ? error->status
                   : error_set(error, STATUS_NO_MEMORY, NULL, "out of memory");
    enum status status = check_apart_from_data(agent->config, agent->index_directory, error);
    if (status == STATUS_OK)
        status = make_directories(agent->index_directory, error);
    return status == STATUS_OK ? check_index_place(agent->config, agent->index_directory,
                                                   &agent->index_is_misplaced, error)
                               : status;
}

/* For --check-config; what the service manager will add to the environment may be missing. */
static enum status check_index_path(const struct config *config, struct error *error)
{
    AUTO_FREE char *directory = choose_index_directory(config, NULL);

    return directory ? check_apart_from_data(config, directory, error) : STATUS_OK;
}

/* ---- parts ---- */

static void publish(void *context, const struct scope *scope, const char *event,
                    const char *members)
{
    struct agent *agent = context;

    if (agent->events)
        events_publish(agent->events, scope, event, members);
}

static bool named(const char *value, const char *name)
{
    return value && strcmp(value, name) == 0;
}

static void set_kind(struct agent *agent, struct store_options *options)
{
    const char *kind = agent->config->volume_kind;

    if (named(kind, "local"))
        agent->forced_kind = VOLUME_LOCAL;
    else if (named(kind, "cluster"))
        agent->forced_kind = VOLUME_CLUSTER;
    else if (named(kind, "unknown"))
        agent->forced_kind = VOLUME_UNKNOWN;
    else
        return;
    options->force_kind = &agent->forced_kind;
}

static struct deermem_options deermem_options_of(struct agent *agent)
{
    const struct config *config = agent->config;
    struct deermem_options options = {
        .store =
            {
                .volume_path = config->volume_path,
                .read_only = config->volume_read_only,
                .locks = named(config->volume_locks, "trusted") ? STORE_LOCKS_TRUSTED
                         : named(config->volume_locks, "local") ? STORE_LOCKS_LOCAL
                                                                : STORE_LOCKS_AUTO,
                .recovery_grace_ms = config->volume_recovery_grace_ms,
                .volume_cache_ms = config->volume_cache_ms,
                .manifest_name = config->volume_manifest_filename,
                .index_directory = agent->index_directory,
                .index_mmap_bytes = config->index_mmap_bytes,
                .index_wal_bytes_max = config->index_wal_bytes_max,
                .pool_threads = config->sync_readers ? (unsigned) config->sync_readers
                                                     : STORE_READERS_BY_VOLUME,
            },
        .keeper =
            {
                .refreshers = (unsigned) config->sync_refreshers,
                .inotify = config->sync_inotify,
                .poll_interval_min_ms = config->sync_poll_interval_min_ms,
                .poll_interval_max_ms = config->sync_poll_interval_max_ms,
                .operations_per_second = (unsigned) config->sync_operations_per_second,
                .measure_index = config->metrics_listen[0] != '\0',
            },
        .max_staleness_ms = config->sync_max_staleness_ms,
        .index_is_misplaced = agent->index_is_misplaced,
    };

    (void) freshness_mode_from_name(config->sync_freshness, &options.freshness);
    set_kind(agent, &options.store);
    return options;
}

/* Puts the key at fault before the message of an error. */
static enum status for_key(const char *key, enum status status, struct error *error)
{
    if (status != STATUS_OK && error) {
        struct error bare = *error;
        (void) snprintf(error->message, sizeof error->message, "%s: %.*s", key,
                        (int) text_cut(bare.message, strlen(bare.message),
                                       sizeof error->message - strlen(key) - 3),
                        bare.message);
    }
    return status;
}

static void refuse_backend(const char *name, struct error *error)
{
    AUTO_TEXT struct text known = {0};

    for (size_t i = 0; backend_at(i); i++)
        text_append_format(&known, "%s%s", i ? ", " : "", backend_at(i)->name);
    (void) error_set(error, STATUS_INVALID, NULL,
                     "backend.name: there is no backend \"%s\" (known: %s)", name,
                     text_string(&known));
}

static enum status find_backend(const struct config *config, const struct backend_table **ret,
                                struct error *error)
{
    const struct backend_table *table = backend_find(config->backend_name);

    if (!table) {
        refuse_backend(config->backend_name, error);
        return STATUS_INVALID;
    }
    *ret = table;
    return for_key("backend.name", backend_check(table, error), error);
}

static enum status start_backend(struct agent *agent, struct error *error)
{
    const struct config *config = agent->config;
    const struct backend_table *table = NULL;

    enum status status = find_backend(config, &table, error);
    if (status == STATUS_OK && table == &backend_deermem)
        status = prepare_index_directory(agent, error);
    if (status != STATUS_OK)
        return status;

    struct deermem_options deermem = deermem_options_of(agent);
    struct backend_setup setup = {
        .config = config->backend_config,
        /* thread 0 is the server's own */
        .thread_count = (unsigned) config->ipc_threads + SERVER_THREADS_SPARE + 1,
        .event_sink = publish,
        .event_context = agent,
        .store_options = &deermem,
    };
    agent->dispatch.table = table;
    status = table->create(&setup, &agent->backend, error);
    agent->dispatch.backend = agent->backend;
    return status;
}

/* Where events go: what the configuration says, else beside an ipc endpoint. NULL in `ret`:
 * nowhere. */
static enum status events_address_of(const struct config *config, char **ret, struct error *error)
{
    const char *wanted = config->ipc_events;
    struct text address = {0};

    *ret = NULL;
    if (named(wanted, "off"))
        return STATUS_OK;
    if (wanted && wanted[0])
        text_append_string(&address, wanted);
    else if (strncmp(config->ipc_endpoint, "ipc://", 6) == 0)
        text_append_format(&address, "%s.events", config->ipc_endpoint);
    else
        return STATUS_OK;
    *ret = text_take(&address, NULL);
    return *ret ? STATUS_OK : error_set(error, STATUS_NO_MEMORY, NULL, "out of memory");
}

/* What the address of the events comes from. */
static const char *events_key(const struct config *config)
{
    return config->ipc_events[0] ? "ipc.events" : "ipc.events (ipc.endpoint with .events appended)";
}

static const char *socket_group(const struct config *config)
{
    const char *group = config->ipc_socket_group;

    return group && group[0] ? group : NULL;
}

static enum status check_endpoints(const struct config *config, char **ret_events,
                                   struct error *error)
{
    enum status status =
        for_key("ipc.endpoint", endpoint_check(config->ipc_endpoint, false, error), error);

    if (status == STATUS_OK)
        status = events_address_of(config, ret_events, error);
    if (status == STATUS_OK && *ret_events)
        status = for_key(events_key(config), endpoint_check(*ret_events, false, error), error);
    if (status == STATUS_OK && socket_group(config))
        status =
            for_key("ipc.socket_group", endpoint_check_group(socket_group(config), error), error);
    return status;
}

enum status agent_check(const struct config *config, struct error *error)
{
    const struct backend_table *table;
    char *events = NULL;

    enum status status = find_backend(config, &table, error);
    if (status == STATUS_OK)
        status = check_endpoints(config, &events, error);
    if (status == STATUS_OK && table == &backend_deermem)
        status = check_index_path(config, error);
    free(events);
    return status;
}

static enum status claim_endpoints(struct agent *agent, struct error *error)
{
    const struct config *config = agent->config;
    enum status status = check_endpoints(config, &agent->events_address, error);

    if (status == STATUS_OK)
        status =
            for_key("ipc.endpoint",
                    endpoint_claim(config->ipc_endpoint, true, &agent->endpoint, error), error);
    if (status == STATUS_OK && agent->events_address)
        status =
            for_key(events_key(config),
                    endpoint_claim(agent->events_address, true, &agent->events_endpoint, error),
                    error);
    return status;
}

static enum status set_access(struct agent *agent, struct endpoint *endpoint, struct error *error)
{
    const struct config *config = agent->config;
    unsigned mode = (unsigned) strtoul(config->ipc_socket_mode, NULL, 8);

    return endpoint_set_access(endpoint, mode, socket_group(config), error);
}

static enum status start_events(struct agent *agent, struct error *error)
{
    if (!agent->events_address)
        return STATUS_OK;
    struct events_options options = {
        .endpoint = agent->events_address,
        .zmq_context = agent->zmq,
        .high_water_mark = EVENTS_HIGH_WATER_MARK,
    };
    enum status status = events_create(&options, &agent->events, error);
    if (status == STATUS_OK)
        status = set_access(agent, agent->events_endpoint, error);
    agent->dispatch.events_endpoint = agent->events_address;
    return status;
}

/* ---- status ---- */

static void write_ipc_status(struct agent *agent, struct text *text)
{
    struct server_counters counters = {0};

    server_counters(agent->server, &counters);
    text_append_format(text,
                       ",\"ipc\":{\"requests\":%" PRIu64 ",\"errors\":%" PRIu64
                       ",\"timeouts\":%" PRIu64 ",\"busy\":%" PRIu64 ",\"malformed\":%" PRIu64
                       ",\"inline_replies\":%" PRIu64,
                       counters.requests, counters.errors, counters.timeouts, counters.busy,
                       counters.malformed, counters.inline_replies);
    text_append_format(text,
                       ",\"clients\":%" PRIu64 ",\"connections\":%" PRIu64 ",\"waiting\":%" PRIu64
                       ",\"threads_busy\":%" PRIu64 ",\"oldest_running_ms\":%" PRIu64
                       ",\"undelivered\":%" PRIu64 ",\"events_dropped\":%" PRIu64
                       ",\"max_message_bytes\":%" PRIu64 "}",
                       counters.clients, counters.connections, counters.waiting,
                       counters.threads_busy, counters.oldest_running_ms, counters.undelivered,
                       agent->events ? events_dropped(agent->events) : 0,
                       agent->config->ipc_max_message_bytes);
}

static void write_status(void *context, struct text *result)
{
    struct agent *agent = context;
    uint64_t uptime_ns = clock_monotonic_ns() - agent->started_ns;

    text_append_format(result,
                       "{\"version\":\"%s\",\"protocol\":%d,\"pid\":%ld,\"uptime_s\":%" PRIu64
                       ",\"backend\":\"%s\",\"endpoint\":",
                       MEMSYNC_VERSION, PROTOCOL_VERSION, (long) getpid(),
                       uptime_ns / NS_PER_SECOND, agent->dispatch.table->name);
    json_text_write_string(result, agent->config->ipc_endpoint,
                           strlen(agent->config->ipc_endpoint));
    write_ipc_status(agent, result);
    if (agent->dispatch.table->describe) {
        text_append_char(result, ',');
        agent->dispatch.table->describe(agent->backend, result);
    }
    text_append_char(result, '}');
}

void agent_log_state(struct agent *agent)
{
    AUTO_TEXT struct text state = {0};

    write_status(agent, &state);
    log_notice("agent.state", "status=%s", text_string(&state));
}

/* Until the index is whole: how much of it is. */
static void append_build(const json_t *build, struct text *text)
{
    const char *phase = json_string_value(json_object_get(build, "phase"));

    if (phase && strcmp(phase, "done") != 0)
        text_append_format(text, ", index %lld %% built",
                           (long long) json_integer_value(json_object_get(build, "percent")));
}

void agent_oversee(struct agent *agent)
{
    atomic_store(&agent->health.overseer_ns, clock_monotonic_ns());
    if (agent->dispatch.table->oversee)
        agent->dispatch.table->oversee(agent->backend);
}

void agent_status_line(struct agent *agent, struct text *text)
{
    AUTO_TEXT struct text state = {0};
    AUTO_JSON json_t *status = NULL;

    write_status(agent, &state);
    if (json_text_read(text_string(&state), state.size, JSON_TEXT_DEPTH_MAX, &status, NULL) !=
        STATUS_OK)
        return;
    const json_t *index = json_object_get(status, "index");
    const json_t *sync = json_object_get(status, "sync");
    if (!index || !sync) {
        text_append_format(text, "serving %s", agent->config->ipc_endpoint);
        return;
    }
    text_append_format(
        text,
        "serving %s: %lld facts in %lld scopes; %lld of %lld users compared, %lld refreshes to do",
        agent->config->ipc_endpoint,
        (long long) json_integer_value(json_object_get(index, "facts")),
        (long long) json_integer_value(json_object_get(index, "scopes")),
        (long long) json_integer_value(json_object_get(sync, "compared")),
        (long long) json_integer_value(json_object_get(sync, "buckets")),
        (long long) json_integer_value(json_object_get(sync, "waiting")) +
            (long long) json_integer_value(json_object_get(sync, "running")));
    append_build(json_object_get(status, "build"), text);
}

/* ---- monitoring ---- */

static void measure(void *context, struct exposition *page)
{
    const struct agent *agent = context;

    metrics_measure_ipc(agent->server, agent->events, page);
    if (agent->dispatch.table->measure)
        agent->dispatch.table->measure(agent->backend, page);
}

static bool is_ready(void *context, const char **ret_reason)
{
    const struct agent *agent = context;
    const struct backend_table *table = agent->dispatch.table;

    return !table->is_ready || table->is_ready(agent->backend, ret_reason);
}

/* Before everything that may take its time, so that a long start can be told from a dead one. */
static enum status start_monitor(struct agent *agent, struct error *error)
{
    const struct config *config = agent->config;
    uint64_t watchdog_ns = service_watchdog_interval_ns();
    struct monitor_options options = {
        .listen = config->metrics_listen,
        .health = &agent->health,
        .patience_ns = watchdog_ns > 0 ? watchdog_ns : HEALTH_PATIENCE_NS,
        .backend_name = config->backend_name,
        .measure = measure,
        .is_ready = is_ready,
        .context = agent,
    };

    if (!config->metrics_listen[0])
        return STATUS_OK;
    return for_key("metrics.listen", monitor_start(&options, &agent->monitor, error), error);
}

/* ---- serving ---- */

static void tick(void *context)
{
    const struct dispatch *dispatch = context;
    struct agent *agent = dispatch->status_context;

    service_feed_watchdog();
    atomic_store_explicit(&agent->health.serving_ns, clock_monotonic_ns(), memory_order_relaxed);
}

static void *serve(void *context)
{
    struct agent *agent = context;
    struct error error = {0};
    enum status status = server_run(agent->server, &error);

    if (status != STATUS_OK)
        log_error("server.ended", "kind=%s reason=%s", status_name(status),
                  LOG_VALUE(error.message));
    atomic_store(&agent->health.ended, true);
    return status == STATUS_OK ? agent : NULL;
}

static enum status start_server(struct agent *agent, struct error *error)
{
    const struct config *config = agent->config;
    struct server_options options = {
        .endpoint = config->ipc_endpoint,
        .threads = (unsigned) config->ipc_threads,
        .message_bytes_max = (size_t) config->ipc_max_message_bytes,
        .queue_per_client = (unsigned) config->ipc_queue_per_client,
        .queue_total = (unsigned) config->ipc_queue_total,
        .timeout_default_ms = (unsigned) config->ipc_timeout_ms,
        .timeout_max_ms = (unsigned) config->ipc_timeout_max_ms,
        .zmq_context = agent->zmq,
    };
    struct server_handler handler = {
        .context = &agent->dispatch,
        .handle = dispatch_handle,
        .tick = tick,
    };

    agent->dispatch.write_status = write_status;
    agent->dispatch.status_context = agent;
    enum status status = server_create(&options, &handler, &agent->server, error);
    if (status == STATUS_OK)
        status = set_access(agent, agent->endpoint, error);
    if (status != STATUS_OK)
        return status;
    int failed = pthread_create(&agent->serving, NULL, serve, agent);
    if (failed)
        return error_set_errno(error, failed, NULL, "cannot start the serving thread");
    agent->serving_started = true;
    return STATUS_OK;
}

enum status agent_start(const struct config *config, struct agent **ret, struct error *error)
{
    struct agent *agent = calloc(1, sizeof *agent);

    if (!agent)
        return error_set(error, STATUS_NO_MEMORY, NULL, "out of memory");
    agent->config = config;
    agent->started_ns = clock_monotonic_ns();
    thread_kind_set(THREAD_PROMPT); /* and what starts from here, the socket threads as well */
    agent->zmq = zmq_ctx_new();
    enum status status = agent->zmq ? claim_endpoints(agent, error)
                                    : error_set(error, STATUS_NO_MEMORY, NULL, "out of memory");
    if (status == STATUS_OK)
        status = start_monitor(agent, error);
    /* The events' socket is there before the first event; the server's last, since then workers
     * come. */
    if (status == STATUS_OK)
        status = start_events(agent, error);
    if (status == STATUS_OK)
        status = start_backend(agent, error);
    if (status == STATUS_OK)
        status = start_server(agent, error);
    if (status != STATUS_OK) {
        (void) agent_stop(&agent, 0);
        return status;
    }
    health_serve(&agent->health, clock_monotonic_ns());
    *ret = agent;
    return STATUS_OK;
}

/* Names the keys that differ from what the agent was started with and cannot be taken over. */
static void list_keys_to_restart_for(const struct config *before, const struct config *after,
                                     struct text *text)
{
    const struct config_key *key;

    for (size_t i = 0; (key = config_key_at(i)) != NULL; i++) {
        AUTO_TEXT struct text old = {0};
        AUTO_TEXT struct text new = {0};

        config_key_write(key, before, &old);
        config_key_write(key, after, &new);
        if (strcmp(key->name, "log.level") != 0 &&
            strcmp(text_string(&old), text_string(&new)) != 0)
            text_append_format(text, "%s%s", text->size ? " " : "", key->name);
    }
}

void agent_reload(struct agent *agent, const struct config *config)
{
    AUTO_TEXT struct text keys = {0};
    enum log_level level;

    if (log_level_from_name(config->log_level, &level))
        log_set_level(level);
    if (agent->dispatch.table->reload)
        agent->dispatch.table->reload(agent->backend);
    list_keys_to_restart_for(agent->config, config, &keys);
    if (keys.size > 0)
        log_notice("config.reloaded", "log_level=%s what=\"these keys need a restart: %s\"",
                   config->log_level, text_string(&keys));
    else
        log_notice("config.reloaded", "log_level=%s", config->log_level);
}

bool agent_has_ended(struct agent *agent)
{
    return atomic_load(&agent->health.ended);
}

static bool stop_serving(struct agent *agent, unsigned drain_ms)
{
    void *drained = NULL;

    if (!agent->serving_started)
        return true;
    server_stop(agent->server, drain_ms);
    pthread_join(agent->serving, &drained);
    return drained != NULL;
}

/* False: it must not be destroyed, since threads of it hang. */
static bool drain_backend(struct agent *agent, uint64_t deadline_ns)
{
    struct error error = {0};

    if (!agent->backend || !agent->dispatch.table->drain)
        return true;
    enum status status = agent->dispatch.table->drain(agent->backend, deadline_ns, &error);
    if (status != STATUS_OK)
        log_warning("backend.drain", "reason=%s", LOG_VALUE(error.message));
    return status != STATUS_TIMEOUT;
}

bool agent_stop(struct agent **agent_address, unsigned drain_ms)
{
    struct agent *agent = TAKE_PTR(*agent_address);

    if (!agent)
        return true;
    uint64_t deadline_ns = clock_deadline_ms(drain_ms);
    health_stop(&agent->health);
    if (!stop_serving(agent, drain_ms)) {
        /* A request thread is still inside the backend. */
        endpoint_release(&agent->events_endpoint);
        endpoint_release(&agent->endpoint);
        return false;
    }
    monitor_stop(&agent->monitor);
    /* Clients notice at once that nobody answers any more; the backend's end may take a while. */
    server_destroy(&agent->server);
    if (!drain_backend(agent, deadline_ns)) {
        endpoint_release(&agent->events_endpoint);
        endpoint_release(&agent->endpoint);
        return false;
    }
    if (agent->backend)
        agent->dispatch.table->destroy(agent->backend);
    events_destroy(&agent->events);
    if (agent->zmq)
        (void) zmq_ctx_term(agent->zmq);
    endpoint_release(&agent->events_endpoint);
    endpoint_release(&agent->endpoint);
    free(agent->events_address);
    free(agent->index_directory);
    free(agent);
    return true;
}
