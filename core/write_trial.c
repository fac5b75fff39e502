#include "core/write_trial.h"

#include "core/legacy.h"
#include "core/migration_files.h"

#define READ_ATTEMPTS 5

/* What the draft of a trial asks. Facts of an earlier layout are nowhere in the index, nor in files
 * where a write would look, until they are migrated. */
struct trial_source {
    struct write_source source;
    struct draft_source functions; /* those of `source` */
    json_t *old;                   /* facts of an earlier layout by id; NULL: there are none */
};

static void trial_source_close(struct trial_source *trial)
{
    write_source_close(&trial->source);
    json_decref(trial->old);
    trial->old = NULL;
}
#define AUTO_TRIAL_SOURCE CLEANUP(trial_source_close)

static enum status no_memory(struct error *error)
{
    return error_set(error, STATUS_NO_MEMORY, NULL, "no memory to try a write");
}

/* ---- a user without a directory ---- */

static enum status find_nothing(void *context, const char *id, json_t **ret, char *ret_path,
                                struct error *error)
{
    (void) context;
    (void) ret;
    ret_path[0] = '\0';
    return error_set(error, STATUS_NOT_FOUND, NULL, "there is no fact with the id %s", id);
}

static enum status list_nothing(void *context, draft_fact_sink sink, void *sink_context,
                                struct error *error)
{
    (void) context;
    (void) sink;
    (void) sink_context;
    (void) error;
    return STATUS_OK;
}

static enum status find_no_content(void *context, uint64_t key, draft_fact_sink sink,
                                   void *sink_context, struct error *error)
{
    (void) key;
    return list_nothing(context, sink, sink_context, error);
}

static uint64_t count_nothing(void *context)
{
    (void) context;
    return 0;
}

static json_t *use_nothing(void *context)
{
    (void) context;
    return json_object();
}

static const struct draft_source nothing = {
    .find = find_nothing,
    .list = list_nothing,
    .find_content = find_no_content,
    .count = count_nothing,
    .usage = use_nothing,
};

/* ---- an earlier layout ---- */

static enum status find(void *context, const char *id, json_t **ret, char *ret_path,
                        struct error *error)
{
    struct trial_source *trial = context;
    json_t *fact = json_object_get(trial->old, id);

    if (!fact)
        return trial->functions.find(&trial->source, id, ret, ret_path, error);
    ret_path[0] = '\0'; /* nothing is written to it */
    *ret = json_incref(fact);
    return STATUS_OK;
}

static enum status list_old(const struct trial_source *trial, draft_fact_sink sink,
                            void *sink_context)
{
    enum status status = STATUS_OK;
    const char *id;
    json_t *fact;

    json_object_foreach(trial->old, id, fact)
    {
        if (status == STATUS_OK)
            status = sink(sink_context, fact);
    }
    return status;
}

/* The draft sorts them. */
static enum status list(void *context, draft_fact_sink sink, void *sink_context,
                        struct error *error)
{
    struct trial_source *trial = context;
    enum status status = trial->functions.list(&trial->source, sink, sink_context, error);

    return status == STATUS_OK ? list_old(trial, sink, sink_context) : status;
}

static enum status find_content(void *context, uint64_t key, draft_fact_sink sink,
                                void *sink_context, struct error *error)
{
    struct trial_source *trial = context;
    enum status status =
        trial->functions.find_content(&trial->source, key, sink, sink_context, error);

    return status == STATUS_OK ? list_old(trial, sink, sink_context) : status;
}

static uint64_t count(void *context)
{
    struct trial_source *trial = context;

    return trial->functions.count(&trial->source) + json_object_size(trial->old);
}

static json_t *usage(void *context)
{
    struct trial_source *trial = context;

    return trial->functions.usage(&trial->source);
}

static enum status collect(void *context, json_t *fact)
{
    json_t *facts = context;
    const char *id = json_string_value(json_object_get(fact, "id"));

    return !id || json_object_set(facts, id, fact) == 0 ? STATUS_OK : STATUS_NO_MEMORY;
}

static bool is_unmigrated(const struct write_session *session, const struct write_source *source)
{
    return (session->has_manifest && session->manifest.layout == MANIFEST_LAYOUT_1) ||
           (source->in_index && source->row.unmigrated);
}

static enum status read_legacy(const struct write_session *session, const struct scope *scope,
                               const json_t *current, struct legacy_view *ret, struct error *error)
{
    const struct store *store = session->store;
    enum status status = STATUS_STALE;

    for (unsigned i = 0; status == STATUS_STALE && i < READ_ATTEMPTS; i++) {
        legacy_view_destroy(ret);
        status =
            legacy_read(store->volume, scope, store->source.manifest_name,
                        session->has_manifest ? &session->manifest : NULL, current, ret, error);
    }
    return status == STATUS_STALE
               ? error_set(error, STATUS_UNAVAILABLE, NULL, "the user's files keep changing")
               : status;
}

/* Of a memory that a write would migrate first. What stops a migration stops the trial. */
static enum status take_old(struct write_session *session, const struct scope *scope,
                            struct trial_source *trial, struct error *error)
{
    AUTO_LEGACY_VIEW struct legacy_view view = {0};
    AUTO_JSON json_t *current = json_object();
    json_t *fact;
    size_t i;

    trial->old = json_object();
    if (!current || !trial->old)
        return no_memory(error);
    enum status status = trial->functions.list(&trial->source, collect, current, error);
    if (status == STATUS_OK)
        status = read_legacy(session, scope, current, &view, error);
    if (status != STATUS_OK)
        return status;
    const json_t *problem = json_array_get(view.problems, 0);
    const char *cause = json_string_value(json_object_get(problem, "problem"));
    if (problem)
        return migration_stop(error, json_string_value(json_object_get(problem, "path")),
                              cause ? cause : "it cannot be understood");
    json_array_foreach(view.facts, i, fact)
    {
        if (collect(trial->old, fact) != STATUS_OK)
            return no_memory(error);
    }
    return STATUS_OK;
}

static enum status open_source(struct write_session *session, const struct write_trial *trial,
                               struct trial_source *source, struct draft_source *ret,
                               struct error *error)
{
    if (session->bucket_fd < 0) {
        *ret = nothing;
        return STATUS_OK;
    }
    enum status status =
        write_source_open(session, trial->scope, trial->need, &source->source, error);
    if (status != STATUS_OK)
        return status;
    source->functions = write_source_functions(&source->source);
    *ret = (struct draft_source){
        .context = source,
        .find = find,
        .list = list,
        .find_content = find_content,
        .count = count,
        .usage = usage,
    };
    return trial->need != WRITE_SOURCE_SOME && is_unmigrated(session, &source->source)
               ? take_old(session, trial->scope, source, error)
               : STATUS_OK;
}

/* ---- the trial ---- */

/* `ret_misled`: the index shows what is broken by now. */
static enum status try_once(struct write_session *session, const struct write_trial *trial,
                            struct draft_outcome *ret, bool *ret_unmigrated, bool *ret_misled,
                            struct error *error)
{
    AUTO_TRIAL_SOURCE struct trial_source source = {0};
    AUTO_DRAFT struct draft *draft = NULL;
    AUTO_CHANGE_SET struct change_set set = {0};
    struct draft_options options = {
        .scope = trial->scope,
        .has_agent = true,
        .manifest = session->has_manifest ? &session->manifest : NULL,
        .wall_ns = session->wall_ns,
    };

    enum status status = open_source(session, trial, &source, &options.source, error);
    if (status != STATUS_OK)
        return status;
    if (draft_create(&options, &draft) != STATUS_OK)
        return no_memory(error);
    status = trial->build(trial->context, draft, &set, error);
    if (status == STATUS_OK)
        status = draft_apply(draft, &set, ret, NULL, error);
    *ret_unmigrated = is_unmigrated(session, &source.source);
    *ret_misled = source.source.is_misled;
    return status;
}

enum status write_trial_run(struct write_session *session, const struct write_trial *trial,
                            struct draft_outcome *ret, bool *ret_unmigrated, struct error *error)
{
    bool is_misled = false;

    enum status status = try_once(session, trial, ret, ret_unmigrated, &is_misled, error);
    if (!is_misled)
        return status;
    write_source_reread(session, trial->scope);
    error_clear(error);
    draft_outcome_destroy(ret);
    return try_once(session, trial, ret, ret_unmigrated, &is_misled, error);
}
