/* apply_changes and update_summaries. */
#include "backends/deermem_write.h"

#include "backends/params.h"
#include "core/json_text.h"

#include <string.h>

struct changes {
    struct deermem_write write;
    const json_t *upserts;
    const json_t *deletes;
    const json_t *summaries;
    const json_t *fact_revisions; /* an object, or NULL */
    bool has_revision;
    int64_t revision;
    bool may_rebase;
};

/* ---- checks that need no memory to look at ---- */

static enum status check_texts(const json_t *list, const char *name, struct error *error)
{
    const json_t *item;
    size_t i;

    json_array_foreach(list, i, item)
    {
        const char *text = json_string_value(item);
        if (!text || strlen(text) != json_string_length(item))
            return error_set(error, STATUS_INVALID, NULL, "%s must be a list of fact ids", name);
    }
    return STATUS_OK;
}

static enum status check_fact_revisions(const json_t *revisions, struct error *error)
{
    const char *id;
    json_t *revision;

    json_object_foreach(json_unconst(revisions), id, revision)
    {
        if (!json_is_null(revision) &&
            (!json_is_integer(revision) || json_integer_value(revision) < 1))
            return error_set(error, STATUS_INVALID, NULL,
                             "expected_fact_revisions must map fact ids to revisions or null");
    }
    return STATUS_OK;
}

static enum status collect_ids(const struct changes *changes, json_t *upserted, json_t *deleted,
                               struct error *error)
{
    const json_t *item;
    size_t i;
    int failed = upserted && deleted ? 0 : -1;

    json_array_foreach(changes->upserts, i, item)
    {
        const char *id = json_string_value(json_object_get(item, "id"));
        if (id && failed == 0)
            failed = json_object_set_new(upserted, id, json_true());
    }
    json_array_foreach(changes->deletes, i, item)
    {
        if (failed == 0)
            failed = json_object_set_new(deleted, json_string_value(item), json_true());
    }
    return failed == 0 ? STATUS_OK : error_set(error, STATUS_NO_MEMORY, NULL, "out of memory");
}

/* An expectation that nothing checks would be taken for one that holds. */
static enum status check_guards(const struct changes *changes, struct error *error)
{
    AUTO_JSON json_t *upserted = json_object();
    AUTO_JSON json_t *deleted = json_object();
    const char *id;
    json_t *revision;

    enum status status = collect_ids(changes, upserted, deleted, error);
    json_object_foreach(json_unconst(changes->fact_revisions), id, revision)
    {
        if (status != STATUS_OK)
            break;
        if (!json_object_get(upserted, id) && !json_object_get(deleted, id))
            status = error_set(error, STATUS_INVALID, NULL,
                               "expected_fact_revisions names \"%s\", which is neither written nor "
                               "deleted",
                               id);
        else if (json_is_null(revision) && json_object_get(deleted, id))
            status = error_set(error, STATUS_INVALID, NULL,
                               "expected_fact_revisions says that \"%s\" must not exist, but it is "
                               "to be deleted",
                               id);
    }
    return status;
}

/* Other members count for nothing, so that an answer of get_summaries can be given back; an object
 * of such alone is a slip, and not a wish to change nothing. */
static enum status check_summaries(const json_t *summaries, struct error *error)
{
    static const char *const groups[] = {"user", "history"};
    const char *name;
    json_t *section;

    if (json_object_size(summaries) > 0 && !json_object_get(summaries, "user") &&
        !json_object_get(summaries, "history"))
        return error_set(error, STATUS_INVALID, NULL, "summaries has neither user nor history");
    for (size_t i = 0; i < ARRAY_SIZE(groups); i++) {
        json_object_foreach(json_object_get(summaries, groups[i]), name, section)
        {
            enum status status =
                deermem_check_section(section, "summaries", groups[i], name, error);
            if (status != STATUS_OK)
                return status;
        }
    }
    return STATUS_OK;
}

static enum status take_summaries(const json_t *params, struct changes *changes,
                                  struct error *error)
{
    enum status status = params_object(params, "summaries", &changes->summaries, error);

    return status == STATUS_OK ? check_summaries(changes->summaries, error) : status;
}

static enum status take_changes(const struct backend_call *call, struct changes *changes,
                                struct error *error)
{
    const json_t *params = call->params;

    enum status status = params_array(params, "upserts", &changes->upserts, error);
    if (status == STATUS_OK)
        status = params_array(params, "deletes", &changes->deletes, error);
    if (status == STATUS_OK)
        status = check_texts(changes->deletes, "deletes", error);
    if (status == STATUS_OK)
        status = take_summaries(params, changes, error);
    if (status == STATUS_OK)
        status = params_object(params, "expected_fact_revisions", &changes->fact_revisions, error);
    if (status == STATUS_OK)
        status = check_fact_revisions(changes->fact_revisions, error);
    if (status == STATUS_OK)
        status = check_guards(changes, error);
    if (status == STATUS_OK)
        status = params_boolean(params, "allow_rebase", &changes->may_rebase, error);
    if (status == STATUS_OK)
        status = deermem_take_revision(params, &changes->has_revision, &changes->revision, error);
    return status;
}

/* ---- the set ---- */

static enum status add_upsert(const struct changes *changes, const struct draft *draft,
                              const json_t *fact, struct change_set *set, struct error *error)
{
    struct change_upsert *upsert;

    enum status status =
        change_set_add_upsert(set, draft_scope(draft), fact, draft_wall_ns(draft), &upsert, error);
    if (status != STATUS_OK)
        return status;
    const json_t *expected = json_object_get(changes->fact_revisions, upsert->id);
    if (json_is_null(expected)) {
        upsert->expects = CHANGE_EXPECTS_ABSENT;
    } else if (expected) {
        upsert->expects = CHANGE_EXPECTS_REVISION;
        upsert->revision = json_integer_value(expected);
    }
    return STATUS_OK;
}

static enum status add_delete(const struct changes *changes, const json_t *id,
                              struct change_set *set, struct error *error)
{
    struct change_delete *removal;

    enum status status = change_set_add_delete(set, json_string_value(id), &removal, error);
    if (status != STATUS_OK)
        return status;
    const json_t *expected = json_object_get(changes->fact_revisions, removal->id);
    removal->has_revision = json_is_integer(expected);
    removal->revision = json_integer_value(expected);
    return STATUS_OK;
}

static enum status build(void *context, struct draft *draft, struct change_set *set,
                         struct error *error)
{
    const struct changes *changes = context;
    enum status status = STATUS_OK;
    const json_t *item;
    size_t i;

    set->has_manifest_revision = changes->has_revision;
    set->manifest_revision = changes->revision;
    set->may_rebase = changes->may_rebase;
    json_array_foreach(changes->upserts, i, item)
    {
        status = add_upsert(changes, draft, item, set, error);
        if (status != STATUS_OK)
            return status;
    }
    json_array_foreach(changes->deletes, i, item)
    {
        status = add_delete(changes, item, set, error);
        if (status != STATUS_OK)
            return status;
    }
    return changes->summaries ? change_set_set_summaries(set, changes->summaries, error)
                              : STATUS_OK;
}

/* ---- methods ---- */

enum status deermem_apply_changes(struct backend *backend, const struct backend_call *call,
                                  struct text *result, struct error *error)
{
    AUTO_WRITE_RESULT struct write_result written = {0};
    struct changes changes = {.write = {.backend = backend, .call = call}};

    enum status status = deermem_check_memory(call, error);
    if (status == STATUS_OK)
        status = take_changes(call, &changes, error);
    if (status != STATUS_OK)
        return status;
    const struct write_request how = {
        .has_agent = true,
        .retries = changes.may_rebase && !changes.summaries,
        .build = build,
        .context = &changes,
    };
    status = deermem_write_run(&changes.write, &how, &written, error);
    if (status != STATUS_OK)
        return status;
    text_append_string(result, "{\"upserted\":");
    json_text_write(result, written.upserted);
    text_append_string(result, ",\"deleted\":");
    json_text_write(result, written.deleted);
    text_append_char(result, ',');
    deermem_write_common(result, &written);
    status = deermem_append_memory(backend, call, result, error);
    return deermem_end_answer(result, status, &written, error);
}

enum status deermem_update_summaries(struct backend *backend, const struct backend_call *call,
                                     struct text *result, struct error *error)
{
    AUTO_WRITE_RESULT struct write_result written = {0};
    struct changes changes = {.write = {.backend = backend, .call = call}};
    const struct write_request how = {.build = build, .context = &changes};

    enum status status = take_summaries(call->params, &changes, error);
    if (status == STATUS_OK && !changes.summaries)
        status = error_set(error, STATUS_INVALID, NULL, "summaries is missing");
    if (status == STATUS_OK)
        status =
            deermem_take_revision(call->params, &changes.has_revision, &changes.revision, error);
    if (status == STATUS_OK)
        status = deermem_write_run(&changes.write, &how, &written, error);
    if (status != STATUS_OK)
        return status;
    text_append_char(result, '{');
    deermem_write_common(result, &written);
    status = deermem_append_answer(backend, call, deermem_get_summaries, result, error);
    return deermem_end_answer(result, status, &written, error);
}
