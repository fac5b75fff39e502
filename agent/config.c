#include "agent/config.h"

#include "agent/config_table.h"

#include <string.h>

enum status config_create(struct config **ret)
{
    struct config *config = calloc(1, sizeof *config);
    const struct config_key *key;

    if (!config)
        return STATUS_NO_MEMORY;
    for (size_t i = 0; (key = config_key_at(i)) != NULL; i++) {
        if (key->standard && config_key_set(key, config, key->standard, NULL)) {
            config_destroy(&config);
            return STATUS_NO_MEMORY;
        }
    }
    *ret = config;
    return STATUS_OK;
}

void config_destroy(struct config **config)
{
    const struct config_key *key;

    if (!*config)
        return;
    for (size_t i = 0; (key = config_key_at(i)) != NULL; i++)
        config_key_release(key, *config);
    free(*config);
    *config = NULL;
}

enum status config_set(struct config *config, const char *key, const char *value,
                       struct error *error)
{
    const struct config_key *row = config_key_find(key, strlen(key));
    struct error problem;

    if (!row)
        return error_set(error, STATUS_NOT_FOUND, NULL, "there is no key \"%s\"", key);
    enum status status = config_key_set(row, config, value, &problem);
    if (status)
        return error_set(error, status, NULL, "%s: %s", key, problem.message);
    return STATUS_OK;
}

/* True for an index that lies on the volume. */
static bool index_is_on_volume(const struct config *config)
{
    size_t length = strlen(config->volume_path);

    if (!config->index_path)
        return false;
    if (config->index_path[0] != '/')
        return true;
    while (length > 1 && config->volume_path[length - 1] == '/')
        length--;
    return strncmp(config->index_path, config->volume_path, length) == 0 &&
           (length == 1 || config->index_path[length] == '/' || config->index_path[length] == '\0');
}

enum status config_check(const struct config *config, struct error *error)
{
    if (!config->volume_path)
        return error_set(error, STATUS_INVALID, NULL,
                         "volume.path: must be given: in the file, by MEMSYNC_VOLUME_PATH or by "
                         "--volume");
    if (config->volume_read_only && index_is_on_volume(config))
        return error_set(error, STATUS_INVALID, NULL,
                         "index.path: must be outside of the volume when volume.read_only is true");
    if (config->sync_poll_interval_min_ms > config->sync_poll_interval_max_ms)
        return error_set(error, STATUS_INVALID, NULL,
                         "sync.poll_interval_min_ms: must not be above sync.poll_interval_max_ms");
    if (config->ipc_timeout_ms > config->ipc_timeout_max_ms)
        return error_set(error, STATUS_INVALID, NULL,
                         "ipc.timeout_ms: must not be above ipc.timeout_max_ms");
    if (config->ipc_queue_per_client > config->ipc_queue_total)
        return error_set(error, STATUS_INVALID, NULL,
                         "ipc.queue_per_client: must not be above ipc.queue_total");
    if (strcmp(config->ipc_events, config->ipc_endpoint) == 0)
        return error_set(error, STATUS_INVALID, NULL,
                         "ipc.events: must be another address than ipc.endpoint");
    return STATUS_OK;
}

void config_write(struct text *text, const struct config *config)
{
    const struct config_key *key;

    for (size_t i = 0; (key = config_key_at(i)) != NULL; i++) {
        text_append_format(text, "%s = ", key->name);
        config_key_write(key, config, text);
        text_append_char(text, '\n');
    }
}
