#include "core/legacy.h"

#include "core/clock.h"
#include "core/legacy_reading.h"

#include <stdio.h>
#include <string.h>

#define LEAD_CONFIG "config.yaml"

static bool is_default(const struct scope *scope)
{
    return strcmp(scope->agent, SCOPE_DEFAULT_AGENT) == 0;
}

static const char *user_of(const struct scope *scope)
{
    return scope->has_user ? scope->user : NULL;
}

struct legacy_owner legacy_owner_of(const struct scope *scope, const json_t *root,
                                    const char *file_date)
{
    const char *date = json_string_value(json_object_get(root, "lastUpdated"));

    return (struct legacy_owner){
        .user = user_of(scope),
        .agent = scope->agent,
        .date = date && *date ? date : file_date,
    };
}

/* `file_time_ns`: of the file that the list is in. */
static enum status read_list(struct legacy_reading *reading, const char *path, const json_t *root,
                             uint64_t file_time_ns)
{
    const json_t *facts = json_object_get(root, "facts");
    char file_date[CLOCK_TEXT_SIZE];
    AUTO_JSON json_t *made_up = json_object();

    clock_format(file_time_ns, file_date);
    struct legacy_owner owner = legacy_owner_of(reading->scope, root, file_date);

    if (!made_up)
        return STATUS_NO_MEMORY;
    for (size_t i = 0; i < json_array_size(facts); i++) {
        json_t *document = NULL;
        const char *problem = NULL;
        enum status status =
            legacy_fact_convert(json_array_get(facts, i), &owner, made_up, &document, &problem);

        if (!status)
            status = legacy_collect_fact(reading->collect, path, document);
        else if (status == STATUS_CORRUPT)
            status = legacy_collect_problem(reading->collect, path, "fact number %zu: %s", i + 1,
                                            problem);
        if (status)
            return status;
    }
    return STATUS_OK;
}

enum status legacy_list_agent(struct legacy_reading *reading, const char *agent,
                              char path[SCOPE_PATH_MAX], const struct listing **ret)
{
    char name[SCOPE_NAME_MAX + sizeof "agents/"];
    const struct listing_entry *entry = NULL;

    (void) snprintf(name, sizeof name, "agents/%s", agent);
    scope_file_path(reading->scope, name, path);
    enum status status =
        legacy_files_find(reading->files, reading->bucket, name, &entry, reading->error);
    if (status)
        return status;
    if (!entry || !entry->is_dir) {
        *ret = NULL;
        return STATUS_OK;
    }
    return legacy_files_list(reading->files, path, ret, reading->error);
}

static enum status read_manifest(struct legacy_reading *reading, const char *name,
                                 const struct manifest *manifest)
{
    char path[SCOPE_PATH_MAX];
    json_t *facts = manifest ? json_object_get(manifest->root, "facts") : NULL;

    if (!manifest || manifest->layout != MANIFEST_LAYOUT_1)
        return STATUS_OK;
    reading->collect->found = true;
    if (!facts || json_is_null(facts) || !(reading->sources & LEGACY_FROM_LIST))
        return STATUS_OK;

    scope_file_path(reading->scope, name, path);
    if (json_is_array(facts))
        return read_list(reading, path, manifest->root, manifest->file_time_ns);
    if (json_is_object(facts))
        return legacy_read_mapping(reading, path, facts);
    return legacy_collect_problem(reading->collect, path,
                                  "\"facts\" is neither a list nor a mapping");
}

/* Takes the facts of a file that belongs to one agent. */
static enum status read_agent_file(struct legacy_reading *reading, const char *path)
{
    struct legacy_collect *collect = reading->collect;
    struct file_image *image = &collect->agent_file;
    AUTO_MANIFEST struct manifest manifest = {0};
    struct error problem = {0};

    enum status status =
        legacy_files_read(reading->files, path, MANIFEST_BYTES_MAX, image, reading->error);
    if (status == STATUS_TOO_LARGE)
        return legacy_collect_problem(collect, path, "the file is too large");
    if (status)
        return status;
    status = manifest_parse(image->bytes, image->size, &manifest, &problem);
    if (status == STATUS_CORRUPT)
        return legacy_collect_problem(collect, path, "%s", problem.message);
    if (status)
        return status;

    const json_t *facts = json_object_get(manifest.root, "facts");
    if (manifest.layout != MANIFEST_LAYOUT_1)
        return legacy_collect_problem(collect, path, "the file is not of version 1");
    if (facts && !json_is_null(facts) && !json_is_array(facts))
        return legacy_collect_problem(collect, path, "\"facts\" is no list");
    collect->agent_root = json_incref(manifest.root);
    return read_list(reading, path, manifest.root, image->stamp.mtime_ns);
}

static enum status read_agent(struct legacy_reading *reading)
{
    char directory[SCOPE_PATH_MAX];
    char path[SCOPE_PATH_MAX + sizeof LEGACY_AGENT_FILE];
    const struct listing *listing = NULL;

    enum status status = legacy_list_agent(reading, reading->scope->agent, directory, &listing);
    if (status || !legacy_is_possible(reading->scope, NULL, listing, NULL))
        return status;
    reading->collect->found = true;
    (void) snprintf(path, sizeof path, "%s/" LEGACY_AGENT_FILE, directory);
    return read_agent_file(reading, path);
}

bool legacy_is_possible(const struct scope *scope, const struct manifest *manifest,
                        const struct listing *agent_directory, const struct listing *lead_directory)
{
    const struct listing_entry *file =
        agent_directory ? listing_find(agent_directory, LEGACY_AGENT_FILE) : NULL;

    if (manifest && manifest->layout == MANIFEST_LAYOUT_1)
        return true;
    if (file && file->is_file)
        return true;
    return is_default(scope) && lead_directory && lead_directory->count > 0 &&
           !listing_find(lead_directory, LEAD_CONFIG);
}

enum status legacy_read_sources(const struct legacy_request *request, struct legacy_view *ret,
                                struct error *error)
{
    AUTO_LEGACY_COLLECT struct legacy_collect collect = {0};
    AUTO_LEGACY_FILES struct legacy_files *files = NULL;
    struct legacy_reading reading = {
        .scope = request->scope,
        .sources = request->sources,
        .collect = &collect,
        .error = error,
    };

    enum status status = legacy_files_create(request->volume, &files);
    if (!status)
        status = legacy_collect_start(&collect, request->current);
    if (status)
        return status;
    reading.files = files;
    scope_bucket_path(request->scope, reading.bucket);

    status = read_manifest(&reading, request->manifest_name, request->manifest);
    if (!status && request->sources & LEGACY_FROM_AGENT_FILE)
        status = read_agent(&reading);
    if (!status && request->sources & LEGACY_FROM_LEAD)
        status = legacy_read_lead(&reading);
    if (!status)
        status = legacy_collect_end(&collect, ret);
    return status;
}

enum status legacy_read(const struct volume *volume, const struct scope *scope,
                        const char *manifest_name, const struct manifest *manifest,
                        const json_t *current, struct legacy_view *ret, struct error *error)
{
    const struct legacy_request request = {
        .volume = volume,
        .scope = scope,
        .sources =
            LEGACY_FROM_AGENT_FILE | (is_default(scope) ? LEGACY_FROM_LIST | LEGACY_FROM_LEAD : 0u),
        .manifest_name = manifest_name,
        .manifest = manifest,
        .current = current,
    };

    return legacy_read_sources(&request, ret, error);
}

void legacy_view_destroy(struct legacy_view *view)
{
    json_decref(view->facts);
    json_decref(view->problems);
    json_decref(view->files);
    file_image_destroy(&view->agent_file);
    json_decref(view->agent_root);
    *view = (struct legacy_view){0};
}
