/* clear_memory and delete_memory. */
#include "backends/deermem_write.h"

#include "backends/params.h"
#include "core/json_text.h"
#include "core/log.h"
#include "core/manifest_write.h"
#include "core/migration.h"
#include "core/volume_bucket.h"
#include "core/volume_side_data.h"
#include "core/write_source.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define BACKUP_SUFFIX ".v1.bak" /* what a migration keeps of an earlier layout */

struct clearing {
    struct deermem_write write;
    bool has_revision; /* that the manifest must have */
    int64_t revision;
    bool all;
    bool erase;     /* delete_memory: backups of earlier layouts go as well */
    json_t *agents; /* an array of names */
    uint64_t cleared;
    uint64_t erased;             /* backups that went */
    struct write_result written; /* the sum of what was done; upserted and deleted are not set */
};

static void clearing_clear(struct clearing *clearing)
{
    json_decref(clearing->agents);
    write_result_destroy(&clearing->written);
}
#define AUTO_CLEARING CLEANUP(clearing_clear)

static enum status no_memory(struct error *error)
{
    return error_set(error, STATUS_NO_MEMORY, NULL, "out of memory");
}

/* ---- what follows a commit ---- */

/* `path` is relative to the user's directory. */
static void tell_failure(const struct scope *scope, enum status status, const char *path,
                         const struct error *error)
{
    char full[SCOPE_PATH_MAX];

    scope_file_path(scope, path, full);
    if (status != STATUS_OK && status != STATUS_NOT_FOUND)
        log_warning("clear.leftover", "user=%s agent=%s path=%s reason=%s",
                    LOG_VALUE(scope->has_user ? scope->user : NULL), scope->agent, LOG_VALUE(full),
                    LOG_VALUE(error->message));
}

/* A file that listings may not have shown yet; `dir_fd` is that of its directory, the path from the
 * user's. */
static void remove_if_there(struct clearing *clearing, const struct scope *scope, int dir_fd,
                            const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    const struct volume *volume = clearing->write.backend->store->volume;
    AUTO_LISTING struct listing listing = {0};
    struct error error = {0};

    enum status status = volume_list_fd(volume, dir_fd, &listing, &error);
    if (status == STATUS_OK && listing_find(&listing, name)) {
        status = volume_remove_file(volume, dir_fd, name, &error);
        clearing->erased += status == STATUS_OK;
    }
    tell_failure(scope, status, path, &error);
}

static void remove_agent_backup(struct clearing *clearing, const struct write_session *session,
                                const struct scope *scope)
{
    const struct volume *volume = clearing->write.backend->store->volume;
    AUTO_CLOSE int agent_fd = -1;
    char path[SCOPE_PATH_MAX];

    (void) snprintf(path, sizeof path, "agents/%s", scope->agent);
    if (volume_open_dir(volume, session->bucket_fd, path, &agent_fd, NULL) == STATUS_OK) {
        (void) snprintf(path, sizeof path, "agents/%s/memory.json" BACKUP_SUFFIX, scope->agent);
        remove_if_there(clearing, scope, agent_fd, path);
    }
}

static void remove_bucket_backup(struct clearing *clearing, const struct write_session *session)
{
    const struct store *store = clearing->write.backend->store;
    char name[SCOPE_NAME_MAX + sizeof BACKUP_SUFFIX];

    (void) snprintf(name, sizeof name, "%s" BACKUP_SUFFIX, store->source.manifest_name);
    remove_if_there(clearing, &session->scope, session->bucket_fd, name);
}

static void remove_side_data(struct clearing *clearing, const struct write_session *session,
                             const struct scope *scope)
{
    struct error error = {0};
    bool left = false;

    enum status status = volume_side_data_clear(clearing->write.backend->store->volume,
                                                session->bucket_fd, scope->agent, &left, &error);
    tell_failure(scope, status, error.path, &error);
    if (clearing->erase)
        remove_agent_backup(clearing, session, scope);
}

/* ---- one agent ---- */

static enum status build_clearing(void *context, struct draft *draft, struct change_set *set,
                                  struct error *error)
{
    const struct clearing *clearing = context;
    AUTO_JSON json_t *facts = NULL;

    if (!clearing->all) {
        set->has_manifest_revision = clearing->has_revision;
        set->manifest_revision = clearing->revision;
    }
    enum status status = draft_list(draft, &facts, error);
    return status == STATUS_OK ? deermem_add_deletes(set, facts, error) : status;
}

static void after_clearing(void *context, struct write_session *session)
{
    struct clearing *clearing = context;

    remove_side_data(clearing, session, clearing->write.call->scope);
}

static enum status clear_one(struct clearing *clearing, struct error *error)
{
    const struct write_request how = {
        .has_agent = true,
        .need = WRITE_SOURCE_RELISTED,
        .retries = true,
        .build = build_clearing,
        .after = after_clearing,
        .context = clearing,
    };

    enum status status = deermem_write_run(&clearing->write, &how, &clearing->written, error);
    if (status != STATUS_OK)
        return status;
    clearing->cleared = json_array_size(clearing->written.deleted);
    return json_array_append_new(clearing->agents,
                                 json_string(clearing->write.call->scope->agent)) == 0
               ? STATUS_OK
               : no_memory(error);
}

/* ---- everything ---- */

static enum status collect_agent(void *context, const char *agent)
{
    json_t *agents = context;

    return json_array_append_new(agents, json_string(agent)) == 0 ? STATUS_OK : STATUS_NO_MEMORY;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(json_string_value(*(json_t *const *) a), json_string_value(*(json_t *const *) b));
}

/* In the order of their names, so that a repeat meets them in the same one. */
static enum status list_agents(struct clearing *clearing, struct write_session *session,
                               struct error *error)
{
    struct store *store = clearing->write.backend->store;
    AUTO_JSON json_t *unsorted = json_array();

    if (!unsorted)
        return no_memory(error);
    enum status status =
        bucket_list_agents(store->buckets, session->bucket_fd, collect_agent, unsorted, error);
    if (status != STATUS_OK)
        return status == STATUS_NOT_FOUND ? STATUS_OK : status;
    size_t count = json_array_size(unsorted);
    AUTO_FREE json_t **names = calloc(count + 1, sizeof(json_t *));
    if (!names)
        return no_memory(error);
    for (size_t i = 0; i < count; i++)
        names[i] = json_array_get(unsorted, i);
    qsort(names, count, sizeof(json_t *), compare_names);
    for (size_t i = 0; i < count; i++) {
        if (json_array_append(clearing->agents, names[i]) != 0)
            return no_memory(error);
    }
    return STATUS_OK;
}

/* `ret_misled`: it failed because the index shows what is broken by now. */
static enum status try_commit(struct clearing *clearing, struct write_session *session,
                              const struct scope *scope, bool has_agent, write_build build,
                              uint64_t *ret_deleted, bool *ret_misled, struct error *error)
{
    AUTO_WRITE_SOURCE struct write_source source = {0};
    AUTO_DRAFT struct draft *draft = NULL;
    AUTO_CHANGE_SET struct change_set set = {0};
    AUTO_OUTCOME struct draft_outcome outcome = {0};

    enum status status = write_session_load(session, error);
    if (status == STATUS_OK && has_agent)
        status = write_source_open(session, scope, WRITE_SOURCE_RELISTED, &source, error);
    if (status != STATUS_OK)
        return status;
    const struct draft_options options = {
        .scope = scope,
        .has_agent = has_agent,
        .manifest = session->has_manifest ? &session->manifest : NULL,
        .wall_ns = session->wall_ns,
        .source = write_source_functions(&source),
    };
    if (draft_create(&options, &draft) != STATUS_OK)
        return no_memory(error);
    status = build(clearing, draft, &set, error);
    if (status == STATUS_OK)
        status = draft_apply(draft, &set, &outcome, NULL, error);
    write_source_close(&source);
    *ret_misled = source.is_misled;
    int64_t revision = draft_revision(draft) + outcome.changed;
    if (status == STATUS_OK)
        status = write_session_commit(session, draft, source.is_empty, error);
    if (status != STATUS_OK)
        return status;
    clearing->written.revision = revision;
    clearing->written.changed = clearing->written.changed || outcome.changed;
    *ret_deleted += json_array_size(outcome.deleted);
    return STATUS_OK;
}

/* One commit of a draft that `build` fills. */
static enum status commit_one(struct clearing *clearing, struct write_session *session,
                              const struct scope *scope, bool has_agent, write_build build,
                              uint64_t *ret_deleted, struct error *error)
{
    bool is_misled = false;

    enum status status =
        try_commit(clearing, session, scope, has_agent, build, ret_deleted, &is_misled, error);
    if (status == STATUS_OK || !is_misled)
        return status;
    write_source_reread(session, scope);
    error_clear(error);
    return try_commit(clearing, session, scope, has_agent, build, ret_deleted, &is_misled, error);
}

static enum status build_blank(void *context, struct draft *draft, struct change_set *set,
                               struct error *error)
{
    (void) context;
    if (!draft_manifest(draft))
        return STATUS_OK;
    AUTO_JSON json_t *blank = manifest_blank_summaries(draft_manifest(draft));
    return blank ? change_set_set_summaries(set, blank, error) : no_memory(error);
}

/* Asked once, before the first of several commits. */
static enum status check_revision(const struct clearing *clearing,
                                  const struct write_session *session, struct error *error)
{
    int64_t current = session->has_manifest ? session->manifest.revision : 0;

    if (!clearing->has_revision || clearing->revision == current)
        return STATUS_OK;
    return draft_manifest_conflict(clearing->revision, current, error);
}

/* What an agent still has in a file of an earlier layout is its memory too. Its summaries are going
 * to be blank anyhow. */
static enum status migrate_agent(const struct clearing *clearing, struct write_session *session,
                                 const struct scope *scope, struct error *error)
{
    AUTO_MIGRATION_RESULT struct migration_result result = {0};
    const struct migration_request request = {
        .scope = scope,
        .has_agent = true,
        .without_summaries = true,
        .without_problems = clearing->erase,
    };

    enum status status = write_session_load(session, error);
    return status == STATUS_OK ? migration_run(session, &request, &result, error) : status;
}

/* An agent at a time, then the summaries: what was done stands if something later fails. */
static enum status clear_all(void *context, struct write_session *session, struct error *error)
{
    struct clearing *clearing = context;
    struct scope scope = session->scope;
    uint64_t ignored = 0;
    const json_t *name;
    size_t i;

    enum status status = check_revision(clearing, session, error);
    if (status == STATUS_OK)
        status = migrate_agent(clearing, session, &session->scope, error);
    if (status == STATUS_OK)
        status = list_agents(clearing, session, error);
    if (status != STATUS_OK)
        return status;
    json_array_foreach(clearing->agents, i, name)
    {
        (void) snprintf(scope.agent, sizeof scope.agent, "%s", json_string_value(name));
        status = migrate_agent(clearing, session, &scope, error);
        if (status == STATUS_OK)
            status = commit_one(clearing, session, &scope, true, build_clearing, &clearing->cleared,
                                error);
        if (status != STATUS_OK)
            return status;
        remove_side_data(clearing, session, &scope);
    }
    status = commit_one(clearing, session, &session->scope, false, build_blank, &ignored, error);
    if (status == STATUS_OK)
        status = write_session_load(session, error);
    if (status == STATUS_OK)
        write_session_last_updated(session, clearing->written.last_updated);
    if (status == STATUS_OK && clearing->erase)
        remove_bucket_backup(clearing, session);
    return status;
}

/* ---- methods ---- */

/* A missing name never widens what is cleared. */
static enum status take_clearing(struct clearing *clearing, struct error *error)
{
    const struct backend_call *call = clearing->write.call;

    enum status status = params_boolean(call->params, "all", &clearing->all, error);
    if (status == STATUS_OK)
        status = deermem_take_revision(call->params, &clearing->has_revision, &clearing->revision,
                                       error);
    if (status != STATUS_OK)
        return status;
    if (clearing->all == call->agent_given)
        return error_set(error, STATUS_INVALID, NULL,
                         "agent_name or \"all\": true is required, and not both");
    clearing->agents = json_array();
    return clearing->agents ? STATUS_OK : no_memory(error);
}

/* Of a user without a directory nothing can be cleared, and a lock would make one. */
static enum status look_for_user(const struct clearing *clearing, bool *ret_absent,
                                 struct error *error)
{
    const struct store *store = clearing->write.backend->store;
    AUTO_CLOSE int fd = -1;

    enum status status = bucket_open(store->buckets, clearing->write.call->scope, &fd, error);
    *ret_absent = status == STATUS_NOT_FOUND;
    if (!*ret_absent)
        return status;
    error_clear(error);
    if (clearing->has_revision && clearing->revision != 0)
        return draft_manifest_conflict(clearing->revision, 0, error);
    return STATUS_OK;
}

/* What clear_one() has to say of an agent that has no facts. */
static enum status clear_nothing(struct clearing *clearing, struct error *error)
{
    const struct scope *scope = clearing->write.call->scope;

    if (!clearing->all && json_array_append_new(clearing->agents, json_string(scope->agent)) != 0)
        return no_memory(error);
    return STATUS_OK;
}

static enum status clear(struct clearing *clearing, struct text *result, struct error *error)
{
    const struct backend_call *call = clearing->write.call;
    struct backend *backend = clearing->write.backend;
    bool is_absent = false;

    enum status status = take_clearing(clearing, error);
    if (status != STATUS_OK)
        return status;
    if (!call->may_block)
        return STATUS_WOULD_BLOCK;
    clearing->written.attempts = 1;
    status = look_for_user(clearing, &is_absent, error);
    if (status != STATUS_OK)
        return status;
    if (is_absent)
        status = clear_nothing(clearing, error);
    else if (clearing->all)
        status = writer_run_alone(backend->writer, call->scope, call->deadline_ns, call->thread,
                                  clear_all, clearing, &clearing->written.index_behind, error);
    else
        status = clear_one(clearing, error);
    if (status != STATUS_OK)
        return status;
    clearing->written.changed = clearing->written.changed || clearing->erased > 0;
    text_append_format(result, "{\"cleared\":%" PRIu64, clearing->cleared);
    if (clearing->erase)
        text_append_format(result, ",\"erased\":%" PRIu64, clearing->erased);
    text_append_string(result, ",\"agents\":");
    json_text_write(result, clearing->agents);
    text_append_char(result, ',');
    deermem_write_common(result, &clearing->written);
    return deermem_append_kept(backend, call, clearing->agents, result, error);
}

enum status deermem_clear_memory(struct backend *backend, const struct backend_call *call,
                                 struct text *result, struct error *error)
{
    AUTO_CLEARING struct clearing clearing = {.write = {.backend = backend, .call = call}};

    enum status status = clear(&clearing, result, error);
    if (status == STATUS_OK)
        status = deermem_append_answer(backend, call, deermem_get_memory, result, error);
    return deermem_end_answer(result, status, &clearing.written, error);
}

enum status deermem_delete_memory(struct backend *backend, const struct backend_call *call,
                                  struct text *result, struct error *error)
{
    AUTO_CLEARING struct clearing clearing = {
        .write = {.backend = backend, .call = call},
        .erase = true,
    };

    enum status status = clear(&clearing, result, error);
    return deermem_end_answer(result, status, &clearing.written, error);
}
