/* Any bytes as a configuration file: an error or a configuration that can be written, never a
 * crash. */
#include "agent/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    AUTO_TEXT struct text text = {0};
    AUTO_TEXT struct text errors = {0};
    struct config *config = NULL;
    struct error error;

    if (config_create(&config))
        return 0;
    if (config_read(config, "fuzz", (const char *) bytes, size, &text, &errors, &error) ==
            STATUS_OK &&
        (config->sync_readers < 1 || config->sync_readers > 256 || !config->ipc_endpoint ||
         !json_is_object(config->backend_config)))
        __builtin_trap();
    if (config_check(config, &error) == STATUS_OK && config->volume_path[0] != '/')
        __builtin_trap();
    config_write(&text, config);
    config_destroy(&config);
    return 0;
}
