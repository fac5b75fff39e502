/* create_fact, update_fact, delete_fact. */
#include "backends/deermem_write.h"

#include "backends/params.h"
#include "core/json_text.h"
#include "core/log.h"
#include "core/volume_side_data.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#define ID_TRIES 16

static enum status no_memory(struct error *error)
{
    return error_set(error, STATUS_NO_MEMORY, NULL, "out of memory");
}

/* ---- create ---- */

struct creation {
    struct deermem_write write;
    json_t *fields; /* as the request gives them */
    char id[FACT_ID_MAX + 1];
    bool is_refused; /* the new fact is not kept */
    json_t *evicted; /* an array of ids */
    json_t *audit;   /* what the eviction audit is going to tell; NULL: nothing */
};

static void creation_clear(struct creation *creation)
{
    json_decref(creation->fields);
    json_decref(creation->evicted);
    json_decref(creation->audit);
}
#define AUTO_CREATION CLEANUP(creation_clear)

/* As the peers make them: short, and free in this scope. */
static enum status make_id(struct draft *draft, char *ret, size_t size, struct error *error)
{
    for (unsigned i = 0; i < ID_TRIES; i++) {
        unsigned char bits[4];
        json_t *taken;
        if (getrandom(bits, sizeof bits, 0) != (ssize_t) sizeof bits)
            break;
        (void) snprintf(ret, size, "fact_%02x%02x%02x%02x", bits[0], bits[1], bits[2], bits[3]);
        enum status status = draft_find(draft, ret, &taken, error);
        if (status == STATUS_NOT_FOUND)
            return STATUS_OK;
        if (status != STATUS_OK)
            return status;
    }
    return error_set(error, STATUS_BUSY, NULL, "no free fact id was found");
}

static enum status refuse_duplicate(struct draft *draft, const json_t *fact, struct error *error)
{
    const json_t *content = json_object_get(fact, "content");
    char twin[FACT_ID_MAX + 1];

    enum status status = draft_find_content(draft, json_string_value(content),
                                            json_string_length(content), twin, error);
    if (status != STATUS_OK || !twin[0])
        return status;
    (void) error_set(error, STATUS_CONFLICT, NULL, "Duplicate fact: %s has this content already",
                     twin);
    error_add_member(error, "reason", "\"duplicate_fact\"");
    error_add_member(error, "fact_id", "\"%s\"", twin);
    return STATUS_CONFLICT;
}

/* All facts there would be, for the policy; the new one is the last. */
struct contest {
    json_t *documents; /* an array */
    json_t *usage;
    struct capacity_fact *facts;
    size_t count;
    struct capacity_choice choice;
    struct capacity_choice shadow;
};

static void contest_clear(struct contest *contest)
{
    capacity_choice_destroy(&contest->choice);
    capacity_choice_destroy(&contest->shadow);
    free(contest->facts);
    json_decref(contest->documents);
    json_decref(contest->usage);
}
#define AUTO_CONTEST CLEANUP(contest_clear)

static enum status hold_contest(const struct capacity_policy *policy, struct draft *draft,
                                json_t *newcomer, struct contest *contest, struct error *error)
{
    size_t limit = capacity_limit(policy);
    uint64_t now_ns = draft_wall_ns(draft);

    enum status status = draft_list(draft, &contest->documents, error);
    if (status != STATUS_OK)
        return status;
    contest->usage =
        policy->rule == CAPACITY_HYBRID_V1 || policy->shadow ? draft_usage(draft) : json_object();
    contest->count = json_array_size(contest->documents) + 1;
    contest->facts = calloc(contest->count, sizeof *contest->facts);
    if (!contest->usage || !contest->facts || json_array_append(contest->documents, newcomer) != 0)
        return no_memory(error);
    for (size_t i = 0; i < contest->count; i++) {
        const json_t *document = json_array_get(contest->documents, i);
        const char *id = json_string_value(json_object_get(document, "id"));
        contest->facts[i] = (struct capacity_fact){
            .document = document,
            .usage = id ? json_object_get(contest->usage, id) : NULL,
        };
    }
    status = capacity_choose(policy, policy->rule, limit, contest->facts, contest->count, now_ns,
                             &contest->choice);
    if (status == STATUS_OK && policy->shadow)
        status = capacity_choose(policy, CAPACITY_HYBRID_V1, limit, contest->facts, contest->count,
                                 now_ns, &contest->shadow);
    return status == STATUS_OK ? STATUS_OK : no_memory(error);
}

static enum status note_eviction(struct creation *creation, const struct draft *draft,
                                 const struct contest *contest, struct error *error)
{
    const struct deermem_settings *settings = &creation->write.backend->settings;
    const struct eviction eviction = {
        .at_ns = draft_wall_ns(draft),
        .policy = &settings->capacity,
        .facts = contest->facts,
        .choice = &contest->choice,
        .shadow = settings->capacity.shadow ? &contest->shadow : NULL,
    };

    if (settings->audit_entries_max == 0)
        return STATUS_OK;
    creation->audit = audit_entry_create(&eviction);
    return creation->audit ? STATUS_OK : no_memory(error);
}

/* Who has to go so that the new fact can stay, or whether it is the new one. */
static enum status make_room(struct creation *creation, struct draft *draft, json_t *newcomer,
                             struct change_set *set, bool *ret_stays, struct error *error)
{
    const struct capacity_policy *policy = &creation->write.backend->settings.capacity;
    AUTO_CONTEST struct contest contest = {0};
    AUTO_JSON json_t *losers = json_array();

    *ret_stays = true;
    if (draft_count(draft) < capacity_limit(policy))
        return STATUS_OK;
    enum status status = hold_contest(policy, draft, newcomer, &contest, error);
    if (status != STATUS_OK)
        return status;
    for (size_t i = 0; i < contest.choice.evicted_count; i++) {
        size_t number = contest.choice.evicted[i];
        json_t *loser = json_array_get(contest.documents, number);
        if (json_array_append(creation->evicted, json_object_get(loser, "id")) != 0)
            return no_memory(error);
        if (number + 1 == contest.count)
            *ret_stays = false;
        else if (json_array_append(losers, loser) != 0)
            return no_memory(error);
    }
    status = note_eviction(creation, draft, &contest, error);
    return status == STATUS_OK ? deermem_add_deletes(set, losers, error) : status;
}

static enum status build_creation(void *context, struct draft *draft, struct change_set *set,
                                  struct error *error)
{
    struct creation *creation = context;
    AUTO_CHANGE_SET struct change_set newcomer = {0};
    struct change_upsert *upsert;
    bool stays = true;

    json_decref(creation->evicted);
    json_decref(creation->audit);
    creation->audit = NULL;
    creation->evicted = json_array();
    if (!creation->evicted)
        return no_memory(error);
    enum status status = make_id(draft, creation->id, sizeof creation->id, error);
    if (status == STATUS_OK &&
        json_object_set_new(creation->fields, "id", json_string(creation->id)) != 0)
        status = no_memory(error);
    /* Normalised first: what would be stored is compared and weighed. */
    if (status == STATUS_OK)
        status = change_set_add_upsert(&newcomer, draft_scope(draft), creation->fields,
                                       draft_wall_ns(draft), &upsert, error);
    if (status == STATUS_OK)
        status = refuse_duplicate(draft, upsert->fact, error);
    if (status == STATUS_OK)
        status = make_room(creation, draft, upsert->fact, set, &stays, error);
    if (status == STATUS_OK && stays)
        status = change_set_add_upsert(set, draft_scope(draft), creation->fields,
                                       draft_wall_ns(draft), NULL, error);
    creation->is_refused = !stays;
    return status;
}

/* The audit is nobody's truth: a failure is only told. */
static void write_audit(void *context, struct write_session *session)
{
    struct creation *creation = context;
    const struct backend *backend = creation->write.backend;
    const struct scope *scope = creation->write.call->scope;
    struct error error = {0};
    char path[SCOPE_PATH_MAX];
    bool malformed = false;

    if (!creation->audit)
        return;
    enum status status =
        volume_audit_add(backend->store->volume, session->bucket_fd, scope->agent, creation->audit,
                         backend->settings.audit_entries_max, &malformed, &error);
    if (write_session_tells_side_data(session, scope, SIDE_DATA_AUDIT,
                                      status != STATUS_OK || malformed, &error, path))
        log_warning("side_data.audit", "user=%s agent=%s path=%s reason=%s",
                    LOG_VALUE(scope->has_user ? scope->user : NULL), scope->agent, LOG_VALUE(path),
                    LOG_VALUE(malformed ? "malformed" : error.message));
}

static enum status take_creation(const struct backend_call *call, struct creation *creation,
                                 struct error *error)
{
    creation->fields =
        json_pack("{s:s,s:s,s:f}", "source", "manual", "category", "context", "confidence", 0.5);
    if (!creation->fields)
        return no_memory(error);
    enum status status = deermem_check_memory(call, error);
    if (status == STATUS_OK)
        status = deermem_copy_fields(call->params, creation->fields, error);
    if (status == STATUS_OK && !json_object_get(creation->fields, "content"))
        status = error_set(error, STATUS_INVALID, NULL, "content is missing");
    return status;
}

static void append_json(struct text *result, const char *head, const json_t *value)
{
    text_append_string(result, head);
    if (value)
        json_text_write(result, value);
    else
        text_append_string(result, "null");
}

enum status deermem_create_fact(struct backend *backend, const struct backend_call *call,
                                struct text *result, struct error *error)
{
    AUTO_CREATION struct creation creation = {.write = {.backend = backend, .call = call}};
    AUTO_WRITE_RESULT struct write_result written = {0};
    const struct write_request how = {
        .has_agent = true,
        .need = WRITE_SOURCE_ALL,
        .retries = true,
        .build = build_creation,
        .after = write_audit,
        .context = &creation,
    };

    enum status status = take_creation(call, &creation, error);
    if (status == STATUS_OK)
        status = deermem_write_run(&creation.write, &how, &written, error);
    if (status != STATUS_OK)
        return status;
    if (creation.is_refused)
        text_append_format(result, "{\"fact_id\":null,\"refused_id\":\"%s\"", creation.id);
    else
        text_append_format(result, "{\"fact_id\":\"%s\",\"refused_id\":null", creation.id);
    append_json(result, ",\"fact\":", json_array_get(written.upserted, 0));
    append_json(result, ",\"evicted\":", creation.evicted);
    text_append_char(result, ',');
    deermem_write_common(result, &written);
    status = deermem_append_memory(backend, call, result, error);
    return deermem_end_answer(result, status, &written, error);
}

/* ---- update ---- */

struct alteration {
    struct deermem_write write;
    const char *id;
    bool has_revision;
    int64_t revision;
    json_t *fact; /* as it is in the end */
};

static void alteration_clear(struct alteration *alteration)
{
    json_decref(alteration->fact);
}
#define AUTO_ALTERATION CLEANUP(alteration_clear)

static enum status take_alteration(const struct backend_call *call, struct alteration *alteration,
                                   struct error *error)
{
    alteration->has_revision = json_is_integer(json_object_get(call->params, "expected_revision"));
    enum status status = deermem_check_memory(call, error);
    if (status == STATUS_OK)
        status = deermem_take_id(call->params, &alteration->id, error);
    if (status == STATUS_OK)
        status = params_integer(call->params, "expected_revision", 1, INT64_MAX,
                                &alteration->revision, error);
    return status;
}

static enum status build_update(void *context, struct draft *draft, struct change_set *set,
                                struct error *error)
{
    struct alteration *alteration = context;
    struct change_upsert *upsert;
    json_t *stored;

    enum status status = draft_find(draft, alteration->id, &stored, error);
    if (status != STATUS_OK)
        return status;
    AUTO_JSON json_t *fact = json_text_copy(stored);
    if (!fact)
        return no_memory(error);
    status = deermem_copy_fields(alteration->write.call->params, fact, error);
    if (status == STATUS_OK)
        status = change_set_add_upsert(set, draft_scope(draft), fact, draft_wall_ns(draft), &upsert,
                                       error);
    if (status == STATUS_OK && alteration->has_revision)
        upsert->revision = alteration->revision;
    if (status != STATUS_OK)
        return status;
    json_decref(alteration->fact);
    alteration->fact = json_incref(stored);
    return STATUS_OK;
}

enum status deermem_update_fact(struct backend *backend, const struct backend_call *call,
                                struct text *result, struct error *error)
{
    AUTO_ALTERATION struct alteration update = {.write = {.backend = backend, .call = call}};
    AUTO_WRITE_RESULT struct write_result written = {0};
    const struct write_request how = {
        .has_agent = true,
        .retries = true,
        .build = build_update,
        .context = &update,
    };

    enum status status = take_alteration(call, &update, error);
    if (status == STATUS_OK)
        status = deermem_write_run(&update.write, &how, &written, error);
    if (status != STATUS_OK)
        return status;
    append_json(result,
                "{\"fact\":", written.changed ? json_array_get(written.upserted, 0) : update.fact);
    text_append_char(result, ',');
    deermem_write_common(result, &written);
    status = deermem_append_memory(backend, call, result, error);
    return deermem_end_answer(result, status, &written, error);
}

/* ---- delete ---- */

static enum status build_deletion(void *context, struct draft *draft, struct change_set *set,
                                  struct error *error)
{
    const struct alteration *alteration = context;
    struct change_delete *removal;
    json_t *stored;

    enum status status = draft_find(draft, alteration->id, &stored, error);
    if (status == STATUS_OK)
        status = change_set_add_delete(set, alteration->id, &removal, error);
    if (status == STATUS_OK && alteration->has_revision) {
        removal->has_revision = true;
        removal->revision = alteration->revision;
    }
    return status;
}

enum status deermem_delete_fact(struct backend *backend, const struct backend_call *call,
                                struct text *result, struct error *error)
{
    AUTO_ALTERATION struct alteration deletion = {.write = {.backend = backend, .call = call}};
    AUTO_WRITE_RESULT struct write_result written = {0};
    const struct write_request how = {
        .has_agent = true,
        .retries = true,
        .build = build_deletion,
        .context = &deletion,
    };

    enum status status = take_alteration(call, &deletion, error);
    if (status == STATUS_OK)
        status = deermem_write_run(&deletion.write, &how, &written, error);
    if (status != STATUS_OK)
        return status;
    append_json(result, "{\"deleted\":", written.deleted);
    text_append_char(result, ',');
    deermem_write_common(result, &written);
    status = deermem_append_memory(backend, call, result, error);
    return deermem_end_answer(result, status, &written, error);
}
