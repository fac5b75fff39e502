/* Stored documents. */
#include "core/index_private.h"

#include "core/json_text.h"

int document_read(const char *bytes, size_t size, json_t **ret_tree)
{
    enum status status = json_text_read(bytes, size, JSON_TEXT_DEPTH_MAX, ret_tree, NULL);

    if (status == STATUS_OK)
        return SQLITE_OK;
    return status == STATUS_NO_MEMORY ? SQLITE_NOMEM : SQLITE_CORRUPT;
}

const char *document_content(const json_t *tree, size_t *ret_size)
{
    const json_t *content = json_object_get(tree, "content");

    *ret_size = json_is_string(content) ? json_string_length(content) : 0;
    return json_is_string(content) ? json_string_value(content) : "";
}
