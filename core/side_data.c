#include "core/side_data.h"

#include "core/json_text.h"

enum status side_data_render(const json_t *value, struct text *ret)
{
    json_text_write_pretty(ret, value);
    if (!text_ok(ret))
        return STATUS_NO_MEMORY;
    return ret->size > SIDE_DATA_BYTES_MAX ? STATUS_TOO_LARGE : STATUS_OK;
}

bool side_data_is_empty(const json_t *value)
{
    return json_object_size(value) == 0 && json_array_size(value) == 0;
}
