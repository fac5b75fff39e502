#include "core/volume_bucket.h"

#include "core/journal.h"
#include "core/manifest.h"
#include "core/volume_private.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define USERS_DIR "users"
#define AGENTS_DIR "agents"
#define FACTS_DIR "facts"

/* What listings have shown of one bucket. */
struct shown {
    char *bucket; /* NULL: an empty slot */
    bool manifest;
};

struct bucket_table {
    const struct volume *volume;
    char *manifest_name;
    pthread_mutex_t lock; /* a leaf; guards what follows; never held over a system call */
    struct shown *slots;  /* open addressing, a power of two, at most half full */
    size_t slot_count, used;
};

enum status bucket_table_create(const struct volume *volume, const char *manifest_name,
                                struct bucket_table **ret)
{
    struct bucket_table *table = calloc(1, sizeof *table);

    if (!table)
        return STATUS_NO_MEMORY;
    table->volume = volume;
    pthread_mutex_init(&table->lock, NULL);
    table->manifest_name = strdup(manifest_name);
    table->slot_count = 64;
    table->slots = calloc(table->slot_count, sizeof *table->slots);
    if (!table->manifest_name || !table->slots) {
        bucket_table_destroy(&table);
        return STATUS_NO_MEMORY;
    }
    *ret = table;
    return STATUS_OK;
}

void bucket_table_destroy(struct bucket_table **table_address)
{
    struct bucket_table *table = TAKE_PTR(*table_address);

    if (!table)
        return;
    for (size_t i = 0; table->slots && i < table->slot_count; i++)
        free(table->slots[i].bucket);
    free(table->slots);
    free(table->manifest_name);
    pthread_mutex_destroy(&table->lock);
    free(table);
}

const char *bucket_table_manifest_name(const struct bucket_table *table)
{
    return table->manifest_name;
}

static struct shown *slot_locked(struct shown *slots, size_t slot_count, const char *bucket)
{
    size_t at = (size_t) signature_digest(bucket, strlen(bucket)) & (slot_count - 1);

    while (slots[at].bucket && strcmp(slots[at].bucket, bucket) != 0)
        at = (at + 1) & (slot_count - 1);
    return &slots[at];
}

/* Doubles the slots; on failure the table stays as it is. */
static void grow_locked(struct bucket_table *table)
{
    size_t slot_count = table->slot_count * 2;
    struct shown *slots = calloc(slot_count, sizeof *slots);

    if (!slots)
        return;
    for (size_t i = 0; i < table->slot_count; i++) {
        if (table->slots[i].bucket)
            *slot_locked(slots, slot_count, table->slots[i].bucket) = table->slots[i];
    }
    free(table->slots);
    table->slots = slots;
    table->slot_count = slot_count;
}

/* Key of the root bucket: no user's directory has an empty name. */
static const char *key_of(const struct scope *scope)
{
    return scope->has_user ? scope->bucket : "";
}

static void remember(struct bucket_table *table, const char *key, bool manifest)
{
    pthread_mutex_lock(&table->lock);
    if (table->used * 2 >= table->slot_count)
        grow_locked(table);
    struct shown *slot = slot_locked(table->slots, table->slot_count, key);
    if (!slot->bucket && table->used * 2 < table->slot_count) {
        slot->bucket = strdup(key);
        table->used += slot->bucket != NULL;
    }
    if (slot->bucket)
        slot->manifest = manifest;
    pthread_mutex_unlock(&table->lock);
}

static bool was_shown(struct bucket_table *table, const char *key, bool *ret_manifest)
{
    pthread_mutex_lock(&table->lock);
    const struct shown *slot = slot_locked(table->slots, table->slot_count, key);
    bool shown = slot->bucket != NULL;
    *ret_manifest = shown && slot->manifest;
    pthread_mutex_unlock(&table->lock);
    return shown;
}

/* A listing of the users shows the bucket. What is known of its manifest stays. */
static void remember_bucket(struct bucket_table *table, const char *key)
{
    bool manifest;

    if (!was_shown(table, key, &manifest))
        remember(table, key, false);
}

/* Opening it failed: only a new listing may bring it back. (The slot stays, so that probing chains
 * hold.) */
static void forget_manifest(struct bucket_table *table, const char *key)
{
    pthread_mutex_lock(&table->lock);
    struct shown *slot = slot_locked(table->slots, table->slot_count, key);
    if (slot->bucket)
        slot->manifest = false;
    pthread_mutex_unlock(&table->lock);
}

/* Opens users/ where a listing of the root shows it. */
static enum status open_users(struct bucket_table *table, int *ret, struct error *error)
{
    if (!volume_lookups_are_safe(table->volume)) {
        AUTO_LISTING struct listing root = {0};
        enum status status = volume_list(table->volume, -1, ".", &root, error);
        if (status != STATUS_OK)
            return status;
        if (!listing_find(&root, USERS_DIR))
            return error_set(error, STATUS_NOT_FOUND, USERS_DIR, "there is no such directory");
    }
    return volume_open_dir(table->volume, -1, USERS_DIR, ret, error);
}

static enum status open_listed_user(struct bucket_table *table, const struct scope *scope, int *ret,
                                    struct error *error)
{
    AUTO_CLOSE int users = -1;
    AUTO_LISTING struct listing listing = {0};

    enum status status = open_users(table, &users, error);
    if (status == STATUS_OK)
        status = volume_list_fd(table->volume, users, &listing, error);
    if (status != STATUS_OK)
        return status;
    if (!listing_find(&listing, scope->bucket))
        return error_set(error, STATUS_NOT_FOUND, scope->bucket, "there is no such user");
    return volume_open_dir(table->volume, users, scope->bucket, ret, error);
}

enum status bucket_open(struct bucket_table *table, const struct scope *scope, int *ret,
                        struct error *error)
{
    char path[SCOPE_PATH_MAX];
    bool manifest;

    scope_bucket_path(scope, path);
    if (!scope->has_user || volume_lookups_are_safe(table->volume) ||
        was_shown(table, scope->bucket, &manifest)) {
        enum status status = volume_open_dir(table->volume, -1, path, ret, error);
        if (status != STATUS_NOT_FOUND || volume_lookups_are_safe(table->volume) ||
            !scope->has_user)
            return status;
        forget_manifest(table, scope->bucket);
    }
    return open_listed_user(table, scope, ret, error);
}

enum status bucket_read_manifest(struct bucket_table *table, const struct scope *scope,
                                 struct file_image *ret, struct error *error)
{
    char path[SCOPE_PATH_MAX];
    bool manifest;

    if (!volume_lookups_are_safe(table->volume) &&
        (!was_shown(table, key_of(scope), &manifest) || !manifest))
        return error_set(error, STATUS_NOT_FOUND, table->manifest_name, "not listed yet");

    scope_file_path(scope, table->manifest_name, path);
    enum status status =
        volume_read_file_once(table->volume, -1, path, MANIFEST_BYTES_MAX, ret, error);
    if (status == STATUS_NOT_FOUND)
        forget_manifest(table, key_of(scope));
    return status;
}

enum status bucket_view_read(struct bucket_table *table, const struct scope *scope, int bucket_fd,
                             struct bucket_view *ret, struct error *error)
{
    struct bucket_view view = {0};
    enum status status = volume_list_fd(table->volume, bucket_fd, &view.listing, error);

    if (status != STATUS_OK)
        return status;
    view.has_manifest = listing_find(&view.listing, table->manifest_name) != NULL;
    view.has_journal = listing_find(&view.listing, JOURNAL_NAME) != NULL;
    view.has_agents = listing_find(&view.listing, AGENTS_DIR) != NULL;
    if (!volume_lookups_are_safe(table->volume))
        remember(table, key_of(scope), view.has_manifest);
    *ret = view;
    return STATUS_OK;
}

void bucket_view_destroy(struct bucket_view *view)
{
    listing_destroy(&view->listing);
    *view = (struct bucket_view){0};
}

/* Opens a directory that `listing` shows; `ret` stays -1 when it shows none of that name. */
static enum status open_listed_dir(const struct volume *volume, int parent_fd,
                                   const struct listing *listing, const char *name, int *ret,
                                   struct error *error)
{
    const struct listing_entry *entry = listing_find(listing, name);

    if (!entry)
        return STATUS_OK;
    /* Not "nothing there": what lies in the directory's place may hide it. */
    if (!entry->is_dir)
        return error_set(error, STATUS_DENIED, name,
                         "a file or a link lies where a directory belongs");
    enum status status = volume_open_dir(volume, parent_fd, name, ret, error);
    /* Listed a moment ago and not there: it changes under us. */
    return status == STATUS_NOT_FOUND ? STATUS_STALE : status;
}

/* Opens and lists a directory that `parent` shows. */
static enum status list_listed_dir(const struct volume *volume, int parent_fd,
                                   const struct listing *parent, const char *name, int *ret_fd,
                                   struct listing *ret, bool *ret_found, struct error *error)
{
    enum status status = open_listed_dir(volume, parent_fd, parent, name, ret_fd, error);

    if (status == STATUS_OK && *ret_fd >= 0)
        status = volume_list_fd(volume, *ret_fd, ret, error);
    *ret_found = status == STATUS_OK && *ret_fd >= 0;
    return status;
}

static struct facts_place place_take(struct facts_place *place)
{
    struct facts_place taken = *place;

    *place = (struct facts_place) FACTS_PLACE_NONE;
    return taken;
}

static bool is_listed_dir(const struct listing *listing, const char *name)
{
    const struct listing_entry *entry = listing_find(listing, name);

    return entry && entry->is_dir;
}

/* People look for the place from the volume's root. `agent`, `name`: "" where it was not so deep.
 */
static enum status error_in_agents(struct error *error, enum status status,
                                   const struct scope *scope, const char *agent, const char *name)
{
    char bucket[SCOPE_PATH_MAX];
    char path[2 * SCOPE_PATH_MAX];

    scope_bucket_path(scope, bucket);
    (void) snprintf(path, sizeof path, "%s/%s%s%s%s%s", bucket, AGENTS_DIR, *agent ? "/" : "",
                    agent, *name ? "/" : "", name);
    return volume_error_at(error, status, path);
}

enum status bucket_find_facts(struct bucket_table *table, const struct scope *scope, int bucket_fd,
                              struct facts_place *ret, struct error *error)
{
    AUTO_CLOSE int agents = -1;
    AUTO_CLOSE int agent = -1;
    AUTO_CLOSE int lead = -1;
    AUTO_LISTING struct listing listing = {0};
    AUTO_PLACE struct facts_place place = FACTS_PLACE_NONE;

    enum status status = volume_open_dir(table->volume, bucket_fd, AGENTS_DIR, &agents, error);
    if (status == STATUS_NOT_FOUND)
        return STATUS_STALE;
    if (status == STATUS_OK)
        status = volume_list_fd(table->volume, agents, &listing, error);
    if (status != STATUS_OK)
        return error_in_agents(error, status, scope, "", "");
    status = list_listed_dir(table->volume, agents, &listing, scope->agent, &agent, &place.agent,
                             &place.has_agent, error);
    if (status != STATUS_OK)
        return error_in_agents(error, status, scope, scope->agent, "");
    if (strcmp(scope->agent, SCOPE_DEFAULT_AGENT) == 0 &&
        is_listed_dir(&listing, SCOPE_LEGACY_AGENT))
        status = list_listed_dir(table->volume, agents, &listing, SCOPE_LEGACY_AGENT, &lead,
                                 &place.lead, &place.has_lead, error);
    if (status != STATUS_OK)
        return error_in_agents(error, status, scope, SCOPE_LEGACY_AGENT, "");
    if (place.has_agent)
        status =
            open_listed_dir(table->volume, agent, &place.agent, FACTS_DIR, &place.facts_fd, error);
    if (status != STATUS_OK)
        return error_in_agents(error, status, scope, scope->agent, FACTS_DIR);
    *ret = place_take(&place);
    return STATUS_OK;
}

void facts_place_destroy(struct facts_place *place)
{
    if (place->facts_fd >= 0)
        (void) close(place->facts_fd);
    listing_destroy(&place->agent);
    listing_destroy(&place->lead);
    *place = (struct facts_place) FACTS_PLACE_NONE;
}

enum status bucket_list_all(struct bucket_table *table, bucket_sink sink, void *context,
                            struct error *error)
{
    AUTO_LISTING struct listing root = {0};
    AUTO_LISTING struct listing users = {0};

    enum status status = volume_list(table->volume, -1, ".", &root, error);
    if (status != STATUS_OK)
        return status;
    if (listing_find(&root, table->manifest_name) || listing_find(&root, AGENTS_DIR) ||
        listing_find(&root, JOURNAL_NAME))
        status = sink(context, false, "");
    if (status != STATUS_OK || !listing_find(&root, USERS_DIR))
        return status;

    status = volume_list(table->volume, -1, USERS_DIR, &users, error);
    for (size_t i = 0; status == STATUS_OK && i < users.count; i++) {
        const char *name = users.entries[i].name;
        if (!users.entries[i].is_dir || !scope_bucket_is_valid(name))
            continue;
        if (!volume_lookups_are_safe(table->volume))
            remember_bucket(table, name);
        status = sink(context, true, name);
    }
    return status;
}

/* Agents' directories carry names in lower case; anything else there is not ours. */
static bool is_agent_dir(const struct listing_entry *entry)
{
    char folded[SCOPE_NAME_MAX + 1];

    return entry->is_dir && scope_agent_fold(entry->name, folded, NULL) == STATUS_OK &&
           strcmp(folded, entry->name) == 0;
}

enum status bucket_list_agents(struct bucket_table *table, int bucket_fd, agent_sink sink,
                               void *context, struct error *error)
{
    AUTO_LISTING struct listing bucket = {0};
    AUTO_LISTING struct listing agents = {0};

    enum status status = volume_list_fd(table->volume, bucket_fd, &bucket, error);
    if (status != STATUS_OK || !listing_find(&bucket, AGENTS_DIR))
        return status;
    status = volume_list(table->volume, bucket_fd, AGENTS_DIR, &agents, error);
    for (size_t i = 0; status == STATUS_OK && i < agents.count; i++) {
        if (is_agent_dir(&agents.entries[i]))
            status = sink(context, agents.entries[i].name);
    }
    return status;
}
