#include "core/legacy_reading.h"

#include <string.h>

static const char *plain_string(const json_t *value)
{
    const char *text = json_string_value(value);

    return text && strlen(text) == json_string_length(value) ? text : NULL;
}

static enum status read_entry(struct legacy_reading *reading, const char *manifest_path,
                              const char *id, const json_t *entry)
{
    const json_t *hash = json_object_get(entry, "contentHash");
    const char *digest = plain_string(hash);
    const char *path = plain_string(json_object_get(entry, "path"));
    const struct listing_entry *file = NULL;
    char full[SCOPE_PATH_MAX];

    if (!fact_id_is_valid(id))
        return legacy_collect_problem(reading->collect, manifest_path, "\"%s\" is no fact id", id);
    if (!path || !relative_path_is_plain(path) ||
        strlen(path) > sizeof full - sizeof "users/" - SCOPE_NAME_MAX - 2)
        return legacy_collect_problem(reading->collect, manifest_path,
                                      "fact %s names no file of this user", id);
    if (hash && !json_is_null(hash) && !digest)
        return legacy_collect_problem(reading->collect, manifest_path,
                                      "the contentHash of fact %s is no text", id);

    scope_file_path(reading->scope, path, full);
    enum status status =
        legacy_files_find(reading->files, reading->bucket, path, &file, reading->error);
    if (status)
        return status;
    if (!file || !file->is_file)
        return legacy_collect_problem(reading->collect, full, "the file of fact %s is not there",
                                      id);
    return legacy_read_fact_file(reading, full, id, digest);
}

enum status legacy_read_mapping(struct legacy_reading *reading, const char *path, json_t *facts)
{
    const char *id = NULL;
    json_t *entry = NULL;

    json_object_foreach(facts, id, entry)
    {
        enum status status = read_entry(reading, path, id, entry);
        if (status)
            return status;
    }
    return STATUS_OK;
}
