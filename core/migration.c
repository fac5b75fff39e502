#include "core/migration.h"

#include "core/fact_write.h"
#include "core/legacy.h"
#include "core/log.h"
#include "core/migration_files.h"
#include "core/migration_summaries.h"
#include "core/volume_private.h"
#include "core/write_source.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define READ_ATTEMPTS 3 /* of what changes although the lock is held */

/* What becomes one agent's: read and checked, then committed. */
struct step {
    struct scope scope;
    unsigned sources; /* of enum legacy_source */
    struct legacy_view view;
    struct change_set set;
    int agent_fd; /* of the directory with the agent's old file; -1 without one */
};

/* One migration. The manifest's facts and the agent's own may belong to two agents. */
struct migration {
    struct write_session *session;
    bool without_summaries;
    bool without_problems;
    struct step steps[2];
    size_t count;
    bool has_changed; /* something on the volume */
};

static enum status no_memory(struct error *error)
{
    return error_set(error, STATUS_NO_MEMORY, NULL, "no memory for a migration");
}

void migration_result_destroy(struct migration_result *result)
{
    json_decref(result->from_version);
    *result = (struct migration_result){0};
}

static void migration_destroy(struct migration *migration)
{
    for (size_t i = 0; i < migration->count; i++) {
        legacy_view_destroy(&migration->steps[i].view);
        change_set_destroy(&migration->steps[i].set);
        cleanup_close(&migration->steps[i].agent_fd);
    }
}
#define AUTO_MIGRATION CLEANUP(migration_destroy)

/* ---- is there anything? ---- */

static void agent_file_path(const struct scope *scope, char ret[SCOPE_PATH_MAX])
{
    char name[SCOPE_NAME_MAX + sizeof "agents//" LEGACY_AGENT_FILE];

    (void) snprintf(name, sizeof name, "agents/%s/" LEGACY_AGENT_FILE, scope->agent);
    scope_file_path(scope, name, ret);
}

static bool has_old_manifest(const struct write_session *session)
{
    return session->has_manifest && session->manifest.layout == MANIFEST_LAYOUT_1;
}

/* A directory below agents/, -1 when it is not there. */
static enum status open_below_agents(const struct write_session *session, const char *agent,
                                     int *ret, struct error *error)
{
    char name[SCOPE_NAME_MAX + sizeof "agents/"];
    char path[SCOPE_PATH_MAX];

    (void) snprintf(name, sizeof name, "agents/%s", agent);
    enum status status =
        volume_walk(session->store->volume, session->bucket_fd, name, false, ret, error);
    if (status != STATUS_NOT_FOUND) {
        scope_file_path(&session->scope, name, path);
        return volume_error_at(error, status, path);
    }
    *ret = -1;
    error_clear(error);
    return STATUS_OK;
}

/* One call where a name may simply be tried, else a listing. */
static enum status has_file(const struct volume *volume, int dir_fd, const char *name, bool *ret,
                            struct error *error)
{
    AUTO_LISTING struct listing listing = {0};
    struct file_stamp stamp;
    bool is_file = false;
    enum status status;

    if (volume_lookups_are_safe(volume)) {
        status = volume_stamp_at(volume, dir_fd, name, &stamp, NULL, &is_file);
        *ret = status == STATUS_OK && is_file;
        return status == STATUS_OK || status == STATUS_NOT_FOUND
                   ? STATUS_OK
                   : error_set(error, status, NULL, "cannot look for %s", name);
    }
    status = volume_list_fd(volume, dir_fd, &listing, error);
    const struct listing_entry *entry = status == STATUS_OK ? listing_find(&listing, name) : NULL;
    *ret = entry && entry->is_file;
    return status;
}

static enum status look_for_agent_file(const struct write_session *session,
                                       const struct scope *scope, bool *ret_found,
                                       struct error *error)
{
    AUTO_CLOSE int fd = -1;
    char path[SCOPE_PATH_MAX];

    enum status status = open_below_agents(session, scope->agent, &fd, error);
    if (status != STATUS_OK || fd < 0)
        return status;
    status = has_file(session->store->volume, fd, LEGACY_AGENT_FILE, ret_found, error);
    if (status == STATUS_OK)
        return status;
    agent_file_path(scope, path);
    return volume_error_at(error, status, path);
}

enum status migration_awaits_lead(const struct write_session *session, bool *ret,
                                  struct error *error)
{
    AUTO_CLOSE int fd = -1;
    AUTO_LISTING struct listing listing = {0};
    struct scope scope = session->scope;
    char path[SCOPE_PATH_MAX];

    *ret = false;
    enum status status = open_below_agents(session, SCOPE_LEGACY_AGENT, &fd, error);
    if (status != STATUS_OK || fd < 0)
        return status;
    (void) snprintf(scope.agent, sizeof scope.agent, "%s", SCOPE_DEFAULT_AGENT);
    status = volume_list_fd(session->store->volume, fd, &listing, error);
    *ret = status == STATUS_OK && legacy_is_possible(&scope, NULL, NULL, &listing);
    scope_file_path(&scope, "agents/" SCOPE_LEGACY_AGENT, path);
    return volume_error_at(error, status, path);
}

/* Most writes end here, after two or three calls. */
static enum status look(const struct write_session *session,
                        const struct migration_request *request, bool *ret_found,
                        struct error *error)
{
    enum status status = STATUS_OK;

    *ret_found = has_old_manifest(session);
    if (*ret_found || !request->has_agent || !session->has_agents)
        return STATUS_OK;
    status = look_for_agent_file(session, request->scope, ret_found, error);
    if (status == STATUS_OK && !*ret_found &&
        strcmp(request->scope->agent, SCOPE_DEFAULT_AGENT) == 0)
        status = migration_awaits_lead(session, ret_found, error);
    return status;
}

/* ---- what is to be done ---- */

static struct step *step_for(struct migration *migration, const char *agent)
{
    for (size_t i = 0; i < migration->count; i++) {
        if (strcmp(migration->steps[i].scope.agent, agent) == 0)
            return &migration->steps[i];
    }
    struct step *step = &migration->steps[migration->count++];
    *step = (struct step){.scope = migration->session->scope, .agent_fd = -1};
    (void) snprintf(step->scope.agent, sizeof step->scope.agent, "%s", agent);
    return step;
}

static void plan_steps(struct migration *migration, const struct migration_request *request)
{
    const char *agent = request->scope->agent;

    if (has_old_manifest(migration->session))
        step_for(migration, request->force_agent ? agent : SCOPE_DEFAULT_AGENT)->sources |=
            LEGACY_FROM_LIST;
    if (request->has_agent)
        step_for(migration, agent)->sources |=
            LEGACY_FROM_AGENT_FILE |
            (strcmp(agent, SCOPE_DEFAULT_AGENT) == 0 ? LEGACY_FROM_LEAD : 0u);
}

/* ---- reading and checking: nothing is changed ---- */

static enum status read_view(const struct migration *migration, struct step *step,
                             const json_t *current, struct error *error)
{
    const struct write_session *session = migration->session;
    const struct legacy_request request = {
        .volume = session->store->volume,
        .scope = &step->scope,
        .sources = step->sources,
        .manifest_name = session->store->source.manifest_name,
        .manifest = session->has_manifest ? &session->manifest : NULL,
        .current = current,
    };
    enum status status = STATUS_STALE;

    for (unsigned i = 0; status == STATUS_STALE && i < READ_ATTEMPTS; i++) {
        legacy_view_destroy(&step->view);
        status = legacy_read_sources(&request, &step->view, error);
    }
    if (status == STATUS_STALE)
        return error_set(error, STATUS_UNAVAILABLE, NULL, "the user's files keep changing");
    return status;
}

static enum status check_problems(const struct migration *migration, const struct step *step,
                                  struct error *error)
{
    const json_t *problem = json_array_get(step->view.problems, 0);
    const char *path = json_string_value(json_object_get(problem, "path"));
    const char *cause = json_string_value(json_object_get(problem, "problem"));

    if (migration->without_problems && !step->view.has_lead)
        return STATUS_OK;
    return problem ? migration_stop(error, path, cause ? cause : "it cannot be understood")
                   : STATUS_OK;
}

static struct draft_options draft_options_of(const struct write_session *session,
                                             const struct step *step, struct write_source *source)
{
    return (struct draft_options){
        .scope = &step->scope,
        .has_agent = true,
        .manifest = session->has_manifest ? &session->manifest : NULL,
        .wall_ns = session->wall_ns,
        .source = write_source_functions(source),
    };
}

/* A refresh tells of the volume's faults without saying where. */
static enum status name_bucket(const struct step *step, enum status status, struct error *error)
{
    char path[SCOPE_PATH_MAX];

    if (!error || error->path[0] || status == STATUS_NO_MEMORY)
        return status;
    scope_bucket_path(&step->scope, path);
    return volume_error_at(error, status, path);
}

/* Those of the view's facts that the agent has already, by their ids. */
static enum status find_current(const struct migration *migration, const struct step *step,
                                json_t *current, struct error *error)
{
    AUTO_WRITE_SOURCE struct write_source source = {0};
    AUTO_DRAFT struct draft *draft = NULL;
    json_t *fact;
    size_t i;

    enum status status =
        write_source_open(migration->session, &step->scope, WRITE_SOURCE_ALL, &source, error);
    if (status != STATUS_OK)
        return name_bucket(step, status, error);
    const struct draft_options options = draft_options_of(migration->session, step, &source);
    if (draft_create(&options, &draft) != STATUS_OK)
        return no_memory(error);
    json_array_foreach(step->view.facts, i, fact)
    {
        const char *id = json_string_value(json_object_get(fact, "id"));
        json_t *stored = NULL;
        status = draft_find(draft, id, &stored, error);
        if (status == STATUS_OK && json_object_set(current, id, stored) != 0)
            return no_memory(error);
        if (status != STATUS_OK && status != STATUS_NOT_FOUND)
            return status;
    }
    error_clear(error);
    return STATUS_OK;
}

/* Facts that are files already are not taken again; where they differ it is a problem. */
static enum status leave_out_current(const struct migration *migration, struct step *step,
                                     struct error *error)
{
    AUTO_JSON json_t *current = json_object();

    if (!current)
        return no_memory(error);
    if (json_array_size(step->view.facts) == 0)
        return STATUS_OK;
    enum status status = find_current(migration, step, current, error);
    if (status == STATUS_OK && json_object_size(current) > 0)
        status = read_view(migration, step, current, error);
    return status == STATUS_OK ? check_problems(migration, step, error) : status;
}

/* What a fault of one fact names: the first of the step's sources. */
static void source_path(const struct migration *migration, const struct step *step,
                        char ret[SCOPE_PATH_MAX])
{
    if (step->sources & LEGACY_FROM_LIST)
        scope_file_path(&step->scope, migration->session->store->source.manifest_name, ret);
    else if (step->view.agent_root)
        agent_file_path(&step->scope, ret);
    else
        scope_file_path(&step->scope, "agents/" SCOPE_LEGACY_AGENT, ret);
}

static enum status take_fact(const struct migration *migration, struct step *step, json_t *fact,
                             struct error *error)
{
    AUTO_TEXT struct text bytes = {0};
    AUTO_TEXT struct text message = {0};
    struct error cause = {0};
    char path[SCOPE_PATH_MAX];

    enum status status = fact_write(fact, &step->scope, &bytes, &cause);
    if (status == STATUS_OK)
        return change_set_add_complete(&step->set, fact, error);
    if (status != STATUS_INVALID && status != STATUS_TOO_LARGE)
        return error_set(error, status, NULL, "%s", cause.message);
    text_append_format(&message, "fact %s: %s", json_string_value(json_object_get(fact, "id")),
                       cause.message);
    source_path(migration, step, path);
    return migration_stop(error, path, text_string(&message));
}

/* What a fact file could not hold is found out now and not half way. */
static enum status take_facts(const struct migration *migration, struct step *step,
                              struct error *error)
{
    enum status status = STATUS_OK;
    json_t *fact;
    size_t i;

    json_array_foreach(step->view.facts, i, fact)
    {
        status = take_fact(migration, step, fact, error);
        if (status != STATUS_OK)
            break;
    }
    return status;
}

static enum status take_summaries(const struct migration *migration, struct step *step,
                                  struct error *error)
{
    const struct write_session *session = migration->session;
    AUTO_JSON json_t *summaries = NULL;
    char path[SCOPE_PATH_MAX];
    char cause[ERROR_MESSAGE_MAX];

    if (!step->view.agent_root || migration->without_summaries)
        return STATUS_OK;
    enum status status =
        migration_merge_summaries(session->has_manifest ? session->manifest.root : NULL,
                                  step->view.agent_root, &summaries, cause);
    if (status == STATUS_CONFLICT) {
        agent_file_path(&step->scope, path);
        return migration_stop(error, path, cause);
    }
    if (status != STATUS_OK)
        return no_memory(error);
    return json_object_size(summaries) > 0 ? change_set_set_summaries(&step->set, summaries, error)
                                           : STATUS_OK;
}

/* ---- the old files ---- */

typedef enum status (*source_function)(const struct volume *volume,
                                       const struct migration_source *source, struct error *error);

static enum status with_manifest(const struct migration *migration, const struct step *step,
                                 source_function function, struct error *error)
{
    const struct write_session *session = migration->session;
    const char *name = session->store->source.manifest_name;
    char path[SCOPE_PATH_MAX];

    if (!(step->sources & LEGACY_FROM_LIST))
        return STATUS_OK;
    scope_file_path(&step->scope, name, path);
    const struct migration_source source = {
        .dir_fd = session->bucket_fd,
        .name = name,
        .path = path,
        .bytes = session->image.bytes,
        .size = session->image.size,
    };
    return function(session->store->volume, &source, error);
}

static enum status with_agent_file(const struct migration *migration, const struct step *step,
                                   source_function function, struct error *error)
{
    char path[SCOPE_PATH_MAX];

    if (!step->view.agent_root)
        return STATUS_OK;
    agent_file_path(&step->scope, path);
    const struct migration_source source = {
        .dir_fd = step->agent_fd,
        .name = LEGACY_AGENT_FILE,
        .path = path,
        .bytes = step->view.agent_file.bytes,
        .size = step->view.agent_file.size,
    };
    return function(migration->session->store->volume, &source, error);
}

static enum status prepare(const struct migration *migration, struct step *step,
                           struct error *error)
{
    enum status status = read_view(migration, step, NULL, error);

    if (status == STATUS_OK)
        status = check_problems(migration, step, error);
    if (status == STATUS_OK)
        status = leave_out_current(migration, step, error);
    if (status == STATUS_OK)
        status = take_facts(migration, step, error);
    if (status == STATUS_OK)
        status = take_summaries(migration, step, error);
    if (status == STATUS_OK)
        status = step->view.agent_root ? open_below_agents(migration->session, step->scope.agent,
                                                           &step->agent_fd, error)
                                       : STATUS_OK;
    if (status == STATUS_OK)
        status = with_manifest(migration, step, migration_check_copy, error);
    if (status == STATUS_OK)
        status = with_agent_file(migration, step, migration_check_copy, error);
    return status;
}

/* ---- doing it ---- */

static enum status commit(struct migration *migration, struct step *step, struct error *error)
{
    struct write_session *session = migration->session;
    AUTO_WRITE_SOURCE struct write_source source = {0};
    AUTO_OUTCOME struct draft_outcome outcome = {0};
    AUTO_DRAFT struct draft *draft = NULL;

    enum status status =
        write_source_open(session, &step->scope, WRITE_SOURCE_SOME, &source, error);
    if (status != STATUS_OK)
        return status;
    const struct draft_options options = draft_options_of(session, step, &source);
    if (draft_create(&options, &draft) != STATUS_OK)
        return no_memory(error);
    status = draft_apply(draft, &step->set, &outcome, NULL, error);
    if (status != STATUS_OK)
        return status;
    if (step->sources & LEGACY_FROM_LIST)
        draft_touch(draft);
    write_source_close(&source);
    if (!draft_has_changed(draft))
        return STATUS_OK;
    migration->has_changed = true; /* told before: an error does not say that nothing happened */
    status = write_session_commit_migration(session, draft, error);
    return status == STATUS_OK ? write_session_load(session, error) : status;
}

static enum status remove_sources(struct migration *migration, const struct step *step,
                                  struct error *error)
{
    const struct write_session *session = migration->session;
    enum status status = STATUS_OK;

    migration->has_changed = migration->has_changed || step->view.found;
    status = with_agent_file(migration, step, migration_remove_source, error);
    if (status == STATUS_OK && step->view.has_lead)
        status = migration_remove_lead(session->store->volume, session->bucket_fd, &step->scope,
                                       step->view.files, error);
    return status;
}

static enum status carry_out(struct migration *migration, struct step *step, struct error *error)
{
    enum status status = with_manifest(migration, step, migration_keep_copy, error);

    if (status == STATUS_OK)
        status = with_agent_file(migration, step, migration_keep_copy, error);
    if (status == STATUS_OK)
        status = commit(migration, step, error);
    if (status == STATUS_OK)
        status = remove_sources(migration, step, error);
    return status;
}

/* ---- the whole ---- */

/* No revision proves the rows of what a migration wrote and moved: they are built once more. */
static void tell_index(const struct write_session *session)
{
    struct store *store = session->store;
    struct error error = {0};
    uint64_t place = install_queue_enter(store->installs);

    install_queue_wait(store->installs, place);
    enum status status = index_forget_bucket(store->index, &session->scope, &error);
    install_queue_leave(store->installs, place);
    if (status != STATUS_OK)
        log_warning("write.index", "user=%s kind=%s reason=%s what=\"after a migration\"",
                    LOG_VALUE(session->scope.has_user ? session->scope.user : NULL),
                    status_name(status), LOG_VALUE(error.message));
}

static const json_t *old_version(const struct migration *migration)
{
    const struct write_session *session = migration->session;

    for (size_t i = 0; !has_old_manifest(session) && i < migration->count; i++) {
        if (migration->steps[i].view.agent_root)
            return json_object_get(migration->steps[i].view.agent_root, "version");
    }
    return session->has_manifest ? json_object_get(session->manifest.root, "version") : NULL;
}

static enum status migrate(struct migration *migration, struct migration_result *result,
                           struct error *error)
{
    enum status status = STATUS_OK;

    for (size_t i = 0; status == STATUS_OK && i < migration->count; i++)
        status = prepare(migration, &migration->steps[i], error);
    result->from_version = json_incref(json_unconst(old_version(migration)));
    for (size_t i = 0; status == STATUS_OK && i < migration->count; i++) {
        result->facts += migration->steps[i].set.upsert_count;
        status = carry_out(migration, &migration->steps[i], error);
    }
    if (migration->has_changed)
        tell_index(migration->session);
    return status;
}

static void log_outcome(const struct write_session *session, const struct migration_result *result)
{
    log_notice("volume.migrated",
               "user=%s facts=%" PRIu64 " revision=%" PRId64
               " what=\"a memory of an earlier layout was migrated\"",
               LOG_VALUE(session->scope.has_user ? session->scope.user : NULL), result->facts,
               result->revision);
}

enum status migration_run(struct write_session *session, const struct migration_request *request,
                          struct migration_result *ret, struct error *error)
{
    AUTO_MIGRATION struct migration migration = {
        .session = session,
        .without_summaries = request->without_summaries,
        .without_problems = request->without_problems,
    };
    AUTO_MIGRATION_RESULT struct migration_result result = {0};
    bool found = false;

    enum status status = look(session, request, &found, error);
    if (status == STATUS_OK && found) {
        plan_steps(&migration, request);
        status = migrate(&migration, &result, error);
    } else if (status == STATUS_OK) {
        result.from_version = json_incref(json_unconst(old_version(&migration)));
    }
    if (status != STATUS_OK)
        return status;
    result.migrated = migration.has_changed;
    result.revision = session->has_manifest ? session->manifest.revision : 0;
    if (result.migrated)
        log_outcome(session, &result);
    *ret = result;
    result = (struct migration_result){0};
    return STATUS_OK;
}
