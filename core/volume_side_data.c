#include "core/volume_side_data.h"

#include "core/scope.h"
#include "core/volume_private.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#define DIRECTORY ".metadata"
#define USAGE_NAME "fact-usage.json"
#define AUDIT_NAME "eviction-audit.json"

/* One agent's directory of side data. */
struct place {
    const struct volume *volume;
    const char *agent;
    int agent_fd; /* -1: there is none, and so with the next */
    int fd;
};
#define PLACE_NONE                                                                                 \
    {                                                                                              \
        .agent_fd = -1, .fd = -1                                                                   \
    }

static void place_destroy(struct place *place)
{
    cleanup_close(&place->agent_fd);
    cleanup_close(&place->fd);
}
#define AUTO_SIDE_PLACE CLEANUP(place_destroy)

static enum status out_of_memory(struct error *error)
{
    return error_set(error, STATUS_NO_MEMORY, NULL, "no memory for the side data");
}

static enum status error_in_place(const struct place *place, enum status status, const char *name,
                                  struct error *error)
{
    char path[SCOPE_PATH_MAX];

    (void) snprintf(path, sizeof path, "agents/%s/" DIRECTORY "%s%s", place->agent,
                    name[0] ? "/" : "", name);
    return volume_error_at(error, status, path);
}

/* Opens into PLACE_NONE the directories that are there; a missing one is made when `may_create`,
 * else it is fine. */
static enum status open_place(const struct volume *volume, int bucket_fd, const char *agent,
                              bool may_create, struct place *ret, struct error *error)
{
    char path[SCOPE_PATH_MAX];

    ret->volume = volume;
    ret->agent = agent;
    (void) snprintf(path, sizeof path, "agents/%s", agent);
    enum status status = volume_walk(volume, bucket_fd, path, may_create, &ret->agent_fd, error);
    if (status == STATUS_OK)
        status = volume_walk(volume, ret->agent_fd, DIRECTORY, may_create, &ret->fd, error);
    if (status == STATUS_NOT_FOUND && !may_create)
        return STATUS_OK;
    return error_in_place(ret, status, "", error);
}

/* Is there a file of this name, as far as can be told without remembering that there is none? */
static enum status find_file(const struct volume *volume, int dir_fd, const char *name, bool *ret,
                             struct error *error)
{
    AUTO_LISTING struct listing listing = {0};
    struct file_stamp stamp;
    enum status status;

    *ret = false;
    if (volume_lookups_are_safe(volume)) {
        status = volume_stamp_at(volume, dir_fd, name, &stamp, NULL, ret);
        if (status == STATUS_NOT_FOUND)
            return STATUS_OK;
        return status == STATUS_OK ? status
                                   : error_set(error, status, name, "cannot look at the file");
    }
    status = volume_list_fd(volume, dir_fd, &listing, error);
    if (status != STATUS_OK)
        return status;
    const struct listing_entry *entry = listing_find(&listing, name);
    *ret = entry && entry->is_file;
    return STATUS_OK;
}

typedef enum status (*parser)(const char *bytes, size_t size, json_t **ret, bool *ret_malformed);

/* A missing file is an empty value, and so is one that is malformed. */
static enum status read_value(const struct place *place, const char *name, parser parse,
                              json_t **ret, bool *ret_malformed, struct error *error)
{
    AUTO_IMAGE struct file_image image = {0};
    enum status status = STATUS_OK;
    bool exists = false;
    bool malformed = false;

    if (place->fd >= 0)
        status = find_file(place->volume, place->fd, name, &exists, error);
    if (status == STATUS_OK && exists)
        status =
            volume_read_file(place->volume, place->fd, name, SIDE_DATA_BYTES_MAX, &image, error);
    bool too_large = status == STATUS_TOO_LARGE;
    if (status != STATUS_OK && !too_large)
        return error_in_place(place, status, name, error);

    status = parse(image.bytes ? image.bytes : "", image.size, ret, &malformed);
    if (status != STATUS_OK)
        return out_of_memory(error);
    if (exists && malformed)
        *ret_malformed = true;
    return STATUS_OK;
}

static enum status write_value(const struct place *place, const char *name, const json_t *value,
                               struct error *error)
{
    AUTO_TEXT struct text text = {0};
    enum status status = side_data_render(value, &text);

    if (status != STATUS_OK)
        (void) error_set(error, status, NULL, "the side data would be too large");
    else
        status = volume_replace_file(place->volume, place->fd, name, text.bytes, text.size, error);
    return error_in_place(place, status, name, error);
}

/* ---- usage ---- */

enum status volume_usage_read(const struct volume *volume, int bucket_fd, const char *agent,
                              json_t **ret, bool *ret_malformed, struct error *error)
{
    AUTO_SIDE_PLACE struct place place = PLACE_NONE;
    enum status status = open_place(volume, bucket_fd, agent, false, &place, error);

    if (status != STATUS_OK)
        return status;
    return read_value(&place, USAGE_NAME, usage_parse, ret, ret_malformed, error);
}

static enum status fact_exists(const struct place *place, const char *fact_id, bool *ret,
                               struct error *error)
{
    AUTO_CLOSE int fd = -1;
    char path[SCOPE_PATH_MAX];
    char name[NAME_MAX + 1];
    char shard[3];

    *ret = false;
    fact_id_shard(fact_id, shard);
    (void) snprintf(path, sizeof path, "facts/%s", shard);
    (void) snprintf(name, sizeof name, "%s.md", fact_id);
    enum status status = volume_walk(place->volume, place->agent_fd, path, false, &fd, error);
    if (status == STATUS_NOT_FOUND)
        return STATUS_OK;
    if (status == STATUS_OK)
        status = find_file(place->volume, fd, name, ret, error);
    return status;
}

/* The same, asked of the volume only once for each fact: `known` has what was learnt. */
static enum status fact_is_known(const struct place *place, json_t *known, const char *fact_id,
                                 bool *ret, struct error *error)
{
    const json_t *answer = json_object_get(known, fact_id);

    *ret = json_is_true(answer);
    if (answer || !fact_id_is_valid(fact_id))
        return STATUS_OK;
    enum status status = fact_exists(place, fact_id, ret, error);
    if (status == STATUS_OK && json_object_set_new(known, fact_id, json_boolean(*ret)) < 0)
        status = out_of_memory(error);
    return status;
}

/* Counts the hits of facts that are there. */
static enum status count_hits(const struct place *place, json_t *usage,
                              const struct usage_hit *hits, size_t count, double half_life_days,
                              bool *ret_changed, struct error *error)
{
    AUTO_JSON json_t *known = json_object();

    *ret_changed = false;
    for (size_t i = 0; i < count; i++) {
        bool exists = false;
        enum status status = fact_is_known(place, known, hits[i].fact_id, &exists, error);

        if (status == STATUS_OK && exists &&
            usage_count_hit(usage, &hits[i], half_life_days) != STATUS_OK)
            status = out_of_memory(error);
        if (status != STATUS_OK)
            return error_in_place(place, status, USAGE_NAME, error);
        *ret_changed = *ret_changed || exists;
    }
    return STATUS_OK;
}

enum status volume_usage_add(const struct volume *volume, int bucket_fd, const char *agent,
                             const struct usage_hit *hits, size_t count, double half_life_days,
                             bool *ret_malformed, struct error *error)
{
    AUTO_SIDE_PLACE struct place place = PLACE_NONE;
    AUTO_JSON json_t *usage = NULL;
    bool changed = false;

    enum status status = open_place(volume, bucket_fd, agent, false, &place, error);
    if (status != STATUS_OK || place.agent_fd < 0)
        return status;
    status = read_value(&place, USAGE_NAME, usage_parse, &usage, ret_malformed, error);
    if (status == STATUS_OK)
        status = count_hits(&place, usage, hits, count, half_life_days, &changed, error);
    if (status == STATUS_OK && changed && place.fd < 0)
        status = volume_walk(volume, place.agent_fd, DIRECTORY, true, &place.fd, error);
    if (status != STATUS_OK || !changed)
        return status;
    return write_value(&place, USAGE_NAME, usage, error);
}

/* ---- audit ---- */

/* Writes the list; while it is too large, without its older half. */
static enum status write_audit(const struct place *place, json_t *audit, struct error *error)
{
    enum status status = write_value(place, AUDIT_NAME, audit, error);

    while (status == STATUS_TOO_LARGE && json_array_size(audit) > 1) {
        for (size_t half = json_array_size(audit) / 2; half > 0; half--)
            (void) json_array_remove(audit, 0);
        status = write_value(place, AUDIT_NAME, audit, error);
    }
    return status;
}

enum status volume_audit_add(const struct volume *volume, int bucket_fd, const char *agent,
                             json_t *entry, size_t entries_max, bool *ret_malformed,
                             struct error *error)
{
    AUTO_SIDE_PLACE struct place place = PLACE_NONE;
    AUTO_JSON json_t *audit = NULL;

    if (entries_max == 0)
        return STATUS_OK;
    enum status status = open_place(volume, bucket_fd, agent, true, &place, error);
    if (status == STATUS_OK)
        status = read_value(&place, AUDIT_NAME, audit_parse, &audit, ret_malformed, error);
    if (status != STATUS_OK)
        return status;
    if (audit_append(audit, entry, entries_max) != STATUS_OK)
        return out_of_memory(error);
    return write_audit(&place, audit, error);
}

/* ---- removal ---- */

/* Writes what is left, or removes the file. */
static enum status put_back(const struct place *place, const char *name, const json_t *value,
                            struct error *error)
{
    if (!side_data_is_empty(value))
        return write_value(place, name, value, error);
    return error_in_place(place, volume_remove_file(place->volume, place->fd, name, error), name,
                          error);
}

static enum status forget_usage(const struct place *place, const char *const *fact_ids,
                                size_t count, bool *ret_malformed, struct error *error)
{
    AUTO_JSON json_t *usage = NULL;
    enum status status = read_value(place, USAGE_NAME, usage_parse, &usage, ret_malformed, error);

    if (status != STATUS_OK || !usage_forget(usage, fact_ids, count))
        return status;
    return put_back(place, USAGE_NAME, usage, error);
}

static enum status forget_audit(const struct place *place, const char *const *fact_ids,
                                size_t count, bool *ret_malformed, struct error *error)
{
    AUTO_JSON json_t *audit = NULL;
    bool changed = false;
    enum status status = read_value(place, AUDIT_NAME, audit_parse, &audit, ret_malformed, error);

    if (status == STATUS_OK && audit_forget(audit, fact_ids, count, &changed) != STATUS_OK)
        status = out_of_memory(error);
    if (status != STATUS_OK || !changed)
        return status;
    return put_back(place, AUDIT_NAME, audit, error);
}

/* A directory that still holds something refuses to go, which is right. */
static enum status remove_if_empty(const struct place *place, struct error *error)
{
    if (volume_do_unlink(place->volume, place->agent_fd, DIRECTORY, AT_REMOVEDIR) < 0) {
        if (errno == ENOTEMPTY || errno == EEXIST || errno == ENOENT)
            return STATUS_OK;
        return error_set_errno(error, errno, NULL, "cannot remove the directory");
    }
    if (volume_do_sync(place->volume, place->agent_fd) < 0)
        return error_set_errno(error, errno, NULL, "cannot sync the directory");
    return STATUS_OK;
}

enum status volume_side_data_forget(const struct volume *volume, int bucket_fd, const char *agent,
                                    const char *const *fact_ids, size_t count, bool *ret_malformed,
                                    struct error *error)
{
    AUTO_SIDE_PLACE struct place place = PLACE_NONE;

    enum status status = open_place(volume, bucket_fd, agent, false, &place, error);
    if (status != STATUS_OK || place.fd < 0)
        return status;
    status = forget_usage(&place, fact_ids, count, ret_malformed, error);
    if (status != STATUS_OK) { /* one file's failure does not keep the other */
        (void) forget_audit(&place, fact_ids, count, ret_malformed, NULL);
        return status;
    }
    status = forget_audit(&place, fact_ids, count, ret_malformed, error);
    if (status != STATUS_OK)
        return status;
    return error_in_place(&place, remove_if_empty(&place, error), "", error);
}

enum status volume_side_data_clear(const struct volume *volume, int bucket_fd, const char *agent,
                                   bool *ret_left, struct error *error)
{
    AUTO_SIDE_PLACE struct place place = PLACE_NONE;

    *ret_left = false;
    enum status status = open_place(volume, bucket_fd, agent, false, &place, error);
    if (status != STATUS_OK || place.fd < 0)
        return status;
    status = volume_remove_dir(volume, place.agent_fd, DIRECTORY, ret_left, error);
    return error_in_place(&place, status, "", error);
}
