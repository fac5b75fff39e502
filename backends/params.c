#include "backends/params.h"

#include <inttypes.h>
#include <string.h>

static const json_t *get(const json_t *params, const char *name)
{
    const json_t *value = json_object_get(params, name);

    return json_is_null(value) ? NULL : value;
}

static enum status refuse(struct error *error, const char *name, const char *wanted)
{
    return error_set(error, STATUS_INVALID, NULL, "%s must be %s", name, wanted);
}

enum status params_string(const json_t *params, const char *name, bool required, const char **ret,
                          size_t *ret_size, struct error *error)
{
    const json_t *value = get(params, name);

    if (!value)
        return required ? error_set(error, STATUS_INVALID, NULL, "%s is missing", name) : STATUS_OK;
    if (!json_is_string(value))
        return refuse(error, name, "a string");
    *ret = json_string_value(value);
    *ret_size = json_string_length(value);
    return STATUS_OK;
}

enum status params_name(const json_t *params, const char *name, bool required, const char **ret,
                        struct error *error)
{
    const char *value = NULL;
    size_t size = 0;
    enum status status = params_string(params, name, required, &value, &size, error);

    if (status == STATUS_OK && value && strlen(value) != size)
        status = refuse(error, name, "a string without NUL");
    if (status == STATUS_OK && value)
        *ret = value;
    return status;
}

enum status params_integer(const json_t *params, const char *name, int64_t low, int64_t high,
                           int64_t *ret, struct error *error)
{
    const json_t *value = get(params, name);

    if (!value)
        return STATUS_OK;
    if (!json_is_integer(value) || json_integer_value(value) < low ||
        json_integer_value(value) > high)
        return error_set(error, STATUS_INVALID, NULL,
                         "%s must be an integer from %" PRId64 " to %" PRId64, name, low, high);
    *ret = json_integer_value(value);
    return STATUS_OK;
}

enum status params_boolean(const json_t *params, const char *name, bool *ret, struct error *error)
{
    const json_t *value = get(params, name);

    if (!value)
        return STATUS_OK;
    if (!json_is_boolean(value))
        return refuse(error, name, "true or false");
    *ret = json_is_true(value);
    return STATUS_OK;
}

enum status params_object(const json_t *params, const char *name, const json_t **ret,
                          struct error *error)
{
    const json_t *value = get(params, name);

    if (!value)
        return STATUS_OK;
    if (!json_is_object(value))
        return refuse(error, name, "an object");
    *ret = value;
    return STATUS_OK;
}

enum status params_array(const json_t *params, const char *name, const json_t **ret,
                         struct error *error)
{
    const json_t *value = get(params, name);

    if (!value)
        return STATUS_OK;
    if (!json_is_array(value))
        return refuse(error, name, "a list");
    *ret = value;
    return STATUS_OK;
}
