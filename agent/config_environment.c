#include "agent/config.h"

#include "agent/config_table.h"

#include <ctype.h>
#include <string.h>

#define PREFIX "MEMSYNC_"
#define SHORT_ENDPOINT "MEMSYNC_ENDPOINT"

/* Known to other programs of ours, to libraries and to tests. */
static const char *const foreign_names[] = {
    SHORT_ENDPOINT, "MEMSYNC_PAUSE", "MEMSYNC_USER", "MEMSYNC_AGENT", "MEMSYNC_SHARED",
};

static bool is_foreign(const char *name, size_t length)
{
    for (size_t i = 0; i < ARRAY_SIZE(foreign_names); i++) {
        if (strlen(foreign_names[i]) == length && memcmp(foreign_names[i], name, length) == 0)
            return true;
    }
    return false;
}

static const struct config_key *find_by_environment(const char *name, size_t length)
{
    const struct config_key *key;

    for (size_t i = 0; (key = config_key_at(i)) != NULL; i++) {
        char known[CONFIG_ENVIRONMENT_NAME_SIZE];
        config_key_environment(key, known);
        if (strlen(known) == length && memcmp(known, name, length) == 0)
            return key;
    }
    return NULL;
}

static void warn_unknown(const char *name, size_t length, struct text *warnings)
{
    char guess[CONFIG_ENVIRONMENT_NAME_SIZE];
    const struct config_key *nearest = NULL;
    size_t prefix = strlen(PREFIX);

    /* As a dotted name: the first underscore is the one behind the section. */
    if (length - prefix < sizeof guess) {
        for (size_t i = prefix; i < length; i++)
            guess[i - prefix] = (char) tolower((unsigned char) name[i]);
        guess[length - prefix] = '\0';
        char *underscore = strchr(guess, '_');
        if (underscore)
            *underscore = '.';
        nearest = config_key_nearest(guess);
    }
    text_append_format(warnings, "environment: unknown variable %.*s is ignored",
                       (int) text_cut(name, length, 100), name);
    if (nearest) {
        config_key_environment(nearest, guess);
        text_append_format(warnings, "; did you mean %s?", guess);
    }
    text_append_char(warnings, '\n');
}

static enum status set_from(struct config *config, const struct config_key *key, const char *name,
                            size_t length, const char *value, struct error *error)
{
    struct error problem;
    enum status status = config_key_set(key, config, value, &problem);

    if (status)
        return error_set(error, status, NULL, "environment: %.*s: %s", (int) length, name,
                         problem.message);
    return STATUS_OK;
}

static enum status read_short_endpoint(struct config *config, char *const *environment,
                                       struct error *error)
{
    size_t length = strlen(SHORT_ENDPOINT);

    for (; *environment; environment++) {
        if (strncmp(*environment, SHORT_ENDPOINT "=", length + 1) == 0)
            return set_from(config, config_key_find("ipc.endpoint", 12), SHORT_ENDPOINT, length,
                            *environment + length + 1, error);
    }
    return STATUS_OK;
}

enum status config_read_environment(struct config *config, char *const *environment,
                                    struct text *warnings, struct error *error)
{
    enum status status = read_short_endpoint(config, environment, error);

    for (; !status && *environment; environment++) {
        const char *equals = strchr(*environment, '=');
        if (!equals || strncmp(*environment, PREFIX, strlen(PREFIX)) != 0)
            continue;
        size_t length = (size_t) (equals - *environment);
        const struct config_key *key = find_by_environment(*environment, length);
        if (key)
            status = set_from(config, key, *environment, length, equals + 1, error);
        else if (!is_foreign(*environment, length))
            warn_unknown(*environment, length, warnings);
    }
    return status;
}
