/* The peers' sequences of calls, given to the write engine: the same results, refusals and
 * revisions, but for the differences that are listed here.
 */
#include "core/writer.h"

#include "core/json_text.h"
#include "tests/support/files.h"
#include "tests/support/shared.h"
#include "tests/support/temp_store.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

/* Where we differ on purpose. */
static const struct difference {
    const char *sequence;
    int step;          /* -1: from here on the sequence has no meaning for us */
    const char *error; /* ours: a status' name; "" none */
    int64_t revision;  /* of the manifest after it */
    const char *why;
} differences[] = {
    {"delete-missing-empty-user", 0, "", 0, "nothing was to be done, so nothing is written"},
    {"delete-missing-empty-user", 1, "", 0, "and there is still no manifest"},
    {"misplaced-write", 0, "", 1, "a misplaced fact is found: it is in the index"},
    {"misplaced-write", 1, "conflict", 1, "so its id cannot be created a second time"},
    {"extra-keys-lost", 1, "", 2, "members of the manifest that we do not know stay"},
    {"v1-write-first", -1, "", 0, "the backend migrates before the first write"},
    {"v1-migrate-to-agent", -1, "", 0, "no call of the engine"},
    {"strict-user", -1, "", 0, "a setting of the backend"},
    {"clear-all", -1, "", 0, "several agents: a call of the backend"},
};

static struct temp_store *store;
static struct writer *writer;
static const char *sequence_name;
static int step_number;

static const struct difference *difference_of(int step)
{
    for (size_t i = 0; i < ARRAY_SIZE(differences); i++) {
        if (strcmp(differences[i].sequence, sequence_name) == 0 && differences[i].step == step)
            return &differences[i];
    }
    return NULL;
}

/* ---- comparing ---- */

static bool matches(const json_t *expected, const json_t *found)
{
    const char *name;
    json_t *value;
    size_t i;

    if (json_is_true(json_object_get(expected, "$varies")))
        return found != NULL;
    if (json_is_object(expected) && json_is_object(found)) {
        json_object_foreach(json_unconst(expected), name, value)
        {
            if (!matches(value, json_object_get(found, name)))
                return false;
        }
        return json_object_size(expected) == json_object_size(found);
    }
    if (json_is_array(expected) && json_is_array(found)) {
        json_array_foreach(json_unconst(expected), i, value)
        {
            if (!matches(value, json_array_get(found, i)))
                return false;
        }
        return json_array_size(expected) == json_array_size(found);
    }
    return json_equal(expected, found);
}

static void expect_match(const json_t *expected, const json_t *found, const char *what)
{
    if (matches(expected, found))
        return;
    AUTO_FREE char *wanted = json_dumps(expected, JSON_ENCODE_ANY);
    AUTO_FREE char *got = json_dumps(found, JSON_ENCODE_ANY);
    cr_expect(false, "%s, step %d: %s\n  is  %s\n  not %s", sequence_name, step_number, what, got,
              wanted);
}

/* ---- one call ---- */

struct call {
    const char *op;
    const json_t *arguments;
    json_t *facts;     /* what load, get_fact and list_facts see */
    json_t *summaries; /* of the manifest */
};

static void take_revision(const json_t *arguments, const char *name, bool *ret_has, int64_t *ret)
{
    const json_t *value = json_object_get(arguments, name);

    *ret_has = json_is_integer(value);
    *ret = json_integer_value(value);
}

static enum status add_upsert(struct change_set *set, struct draft *draft, const json_t *fact,
                              const json_t *arguments, struct error *error)
{
    struct change_upsert *upsert;
    bool has_expected;
    int64_t expected;

    enum status status =
        change_set_add_upsert(set, draft_scope(draft), fact, draft_wall_ns(draft), &upsert, error);
    take_revision(arguments, "expected_fact_revision", &has_expected, &expected);
    if (status == STATUS_OK && has_expected) {
        upsert->expects = CHANGE_EXPECTS_REVISION;
        upsert->revision = expected;
    }
    return status;
}

static enum status add_delete(struct change_set *set, const char *id, const json_t *arguments,
                              struct error *error)
{
    struct change_delete *removal = NULL;

    enum status status = change_set_add_delete(set, id, &removal, error);
    if (status == STATUS_OK)
        take_revision(arguments, "expected_fact_revision", &removal->has_revision,
                      &removal->revision);
    return status;
}

/* The members of a change set are lists; that they are is the handlers' to see. */
static enum status add_lists(struct change_set *set, struct draft *draft, const json_t *given,
                             struct error *error)
{
    const json_t *upserts = json_object_get(given, "upserts");
    const json_t *deletes = json_object_get(given, "deletes");
    const json_t *summaries = json_object_get(given, "summaries");
    enum status status = STATUS_OK;
    json_t *value;
    size_t i;

    if ((upserts && !json_is_array(upserts)) || (deletes && !json_is_array(deletes)))
        return error_set(error, STATUS_INVALID, NULL, "not a list");
    json_array_foreach(json_unconst(upserts), i, value)
    {
        if (status == STATUS_OK)
            status = add_upsert(set, draft, value, NULL, error);
    }
    json_array_foreach(json_unconst(deletes), i, value)
    {
        if (status == STATUS_OK)
            status = add_delete(set, json_string_value(value), NULL, error);
    }
    return status == STATUS_OK && summaries ? change_set_set_summaries(set, summaries, error)
                                            : status;
}

static bool is_among(const json_t *facts, const char *id)
{
    json_t *fact;
    size_t i;

    json_array_foreach(json_unconst(facts), i, fact)
    {
        if (strcmp(json_string_value(json_object_get(fact, "id")), id) == 0)
            return true;
    }
    return false;
}

/* All facts are replaced: those that are not named go. */
static enum status add_whole(struct change_set *set, struct draft *draft, const json_t *memory,
                             struct error *error)
{
    const json_t *facts = json_object_get(memory, "facts");
    AUTO_JSON json_t *present = NULL;
    json_t *fact;
    size_t i;

    if (!json_is_array(facts))
        return error_set(error, STATUS_INVALID, NULL, "no facts");
    json_array_foreach(json_unconst(facts), i, fact)
    {
        enum status status = add_upsert(set, draft, fact, NULL, error);
        if (status != STATUS_OK)
            return status;
    }
    enum status status = draft_list(draft, &present, error);
    if (status != STATUS_OK)
        return status;
    json_array_foreach(present, i, fact)
    {
        const char *id = json_string_value(json_object_get(fact, "id"));
        if (!is_among(facts, id) && change_set_add_delete(set, id, NULL, error) != STATUS_OK)
            return STATUS_INVALID;
    }
    /* One without a revision may replace what is there. */
    for (i = 0; i < set->upsert_count; i++) {
        if (!set->upserts[i].has_own_revision)
            set->upserts[i].expects = CHANGE_EXPECTS_ANYTHING;
    }
    return STATUS_OK;
}

/* What only looks. */
static enum status look(struct call *call, struct draft *draft, struct error *error)
{
    const struct manifest *manifest = draft_manifest(draft);
    json_t *fact = NULL;

    if (manifest)
        call->summaries = json_pack("{s:O?,s:O?}", "user", json_object_get(manifest->root, "user"),
                                    "history", json_object_get(manifest->root, "history"));
    if (strcmp(call->op, "get_summaries") == 0)
        return STATUS_OK;
    if (strcmp(call->op, "get_fact") != 0)
        return draft_list(draft, &call->facts, error);
    const char *id = json_string_value(json_object_get(call->arguments, "fact_id"));
    enum status status = draft_find(draft, id, &fact, error);
    call->facts = status == STATUS_OK ? json_incref(fact) : json_null();
    return status == STATUS_NOT_FOUND ? STATUS_OK : status;
}

static enum status build(void *context, struct draft *draft, struct change_set *set,
                         struct error *error)
{
    struct call *call = context;
    const json_t *arguments = call->arguments;

    take_revision(arguments, "expected_manifest_revision", &set->has_manifest_revision,
                  &set->manifest_revision);
    if (strcmp(call->op, "upsert_fact") == 0) {
        set->may_rebase = true;
        return add_upsert(set, draft, json_object_get(arguments, "fact"), arguments, error);
    }
    if (strcmp(call->op, "delete_fact") == 0) {
        set->may_rebase = true;
        return add_delete(set, json_string_value(json_object_get(arguments, "fact_id")), arguments,
                          error);
    }
    if (strcmp(call->op, "apply_changes") == 0) {
        set->may_rebase = json_is_true(json_object_get(arguments, "allow_manifest_rebase"));
        return add_lists(set, draft, json_object_get(arguments, "change_set"), error);
    }
    if (strcmp(call->op, "update_summaries") == 0 || strcmp(call->op, "save") == 0)
        take_revision(arguments, "expected_revision", &set->has_manifest_revision,
                      &set->manifest_revision);
    if (strcmp(call->op, "update_summaries") == 0)
        return change_set_set_summaries(set, json_object_get(arguments, "summaries"), error);
    if (strcmp(call->op, "save") == 0)
        return add_whole(set, draft, json_object_get(arguments, "memory_data"), error);
    return look(call, draft, error);
}

/* "" as a name of a user or an agent is not the same as none. */
static enum status scope_of(const json_t *arguments, struct scope *ret, bool *ret_has_agent,
                            struct error *error)
{
    const char *user = json_string_value(json_object_get(arguments, "user_id"));
    const char *agent = json_string_value(json_object_get(arguments, "agent_name"));

    *ret_has_agent = agent != NULL;
    return scope_create(user, agent, ret, error);
}

static enum status run_call(struct call *call, struct write_result *ret, struct error *error)
{
    struct scope scope;
    bool has_agent;

    enum status status = scope_of(call->arguments, &scope, &has_agent, error);
    if (status != STATUS_OK)
        return status;
    if (strcmp(call->op, "get_fact") == 0 && !has_agent)
        return error_set(error, STATUS_INVALID, NULL, "facts need an agent");
    const struct write_request request = {
        .scope = &scope,
        .has_agent = has_agent,
        .need = has_agent ? WRITE_SOURCE_ALL : WRITE_SOURCE_SOME,
        .retries = true,
        .build = build,
        .context = call,
        .deadline_ns = clock_deadline_ms(10000),
    };
    return writer_run(writer, &request, ret, error);
}

/* ---- one step ---- */

/* A time that the sequence has from an earlier answer. */
static void settle_times(json_t *value)
{
    const char *name;
    json_t *member;

    json_object_foreach(value, name, member)
    {
        if (json_object_get(member, "$varies"))
            (void) json_object_set_new(value, name, json_string("2026-01-01T00:00:00Z"));
        else
            settle_times(member);
    }
}

/* The kinds of the peers' errors, as our statuses and reasons. */
static bool is_error(const char *kind, enum status status, const struct error *error)
{
    if (strcmp(kind, "fact-conflict") == 0)
        return status == STATUS_CONFLICT && strstr(error->members, "\"fact_revision\"");
    if (strcmp(kind, "manifest-conflict") == 0)
        return status == STATUS_CONFLICT && strstr(error->members, "\"manifest_revision\"");
    return strcmp(kind, "value") == 0 && status == STATUS_INVALID;
}

static void check_result(const struct call *call, const json_t *expected,
                         const struct write_result *result)
{
    const json_t *upserted = json_object_get(expected, "upsertedFacts");

    if (upserted) {
        expect_match(upserted, result->upserted, "upserted");
        expect_match(json_object_get(expected, "deletedFactIds"), result->deleted, "deleted");
        cr_expect_eq(result->revision, json_integer_value(json_object_get(expected, "revision")),
                     "%s, step %d", sequence_name, step_number);
        cr_expect(result->last_updated[0]);
    } else if (strcmp(call->op, "get_fact") == 0) {
        expect_match(expected, call->facts, "fact");
    } else if (strcmp(call->op, "load") == 0) {
        if (call->facts)
            expect_match(json_object_get(expected, "facts"), call->facts, "facts");
        if (call->summaries)
            expect_match(json_object_get(expected, "user"),
                         json_object_get(call->summaries, "user"), "user");
    } else if (strcmp(call->op, "get_summaries") == 0) {
        expect_match(json_object_get(expected, "user"), json_object_get(call->summaries, "user"),
                     "user");
        expect_match(json_object_get(expected, "history"),
                     json_object_get(call->summaries, "history"), "history");
    }
}

/* A refused save answers false. */
static bool is_refused(const json_t *step, const char *op)
{
    return strcmp(op, "save") == 0 && json_is_false(json_object_get(step, "result"));
}

static void check_step(const json_t *step, struct call *call)
{
    const struct difference *difference = difference_of(step_number);
    const json_t *peers_error = json_object_get(step, "error");
    AUTO_WRITE_RESULT struct write_result result = {0};
    struct error error = {0};

    enum status status = run_call(call, &result, &error);
    int64_t revision = json_integer_value(json_object_get(step, "manifest_revision"));
    if (difference) {
        cr_expect_str_eq(status == STATUS_OK ? "" : status_name(status), difference->error,
                         "%s, step %d (%s): %s %s", sequence_name, step_number, difference->why,
                         status_name(status), error.message);
        revision = difference->revision;
    } else if (peers_error) {
        const char *kind = json_string_value(json_object_get(peers_error, "kind"));
        cr_expect(is_error(kind, status, &error), "%s, step %d: %s instead of %s: %s {%s}",
                  sequence_name, step_number, status_name(status), kind, error.message,
                  error.members);
    } else if (is_refused(step, call->op)) {
        cr_expect_eq(status, STATUS_INVALID, "%s, step %d: %s", sequence_name, step_number,
                     status_name(status));
    } else {
        cr_expect_eq(status, STATUS_OK, "%s, step %d: %s: %s", sequence_name, step_number,
                     status_name(status), error.message);
        if (status == STATUS_OK)
            check_result(call, json_object_get(step, "result"), &result);
    }
    const char *user = json_string_value(json_object_get(call->arguments, "user_id"));
    if (user && *user)
        cr_expect_eq(temp_volume_revision(store->volume, user), revision, "%s, step %d: %d",
                     sequence_name, step_number, (int) temp_volume_revision(store->volume, user));
}

/* Those that need no engine: paging, searching, migrating. */
static bool is_ours(const char *op)
{
    static const char *const ours[] = {"upsert_fact",      "delete_fact",
                                       "apply_changes",    "save",
                                       "update_summaries", "get_summaries",
                                       "get_fact",         "load"};

    for (size_t i = 0; i < ARRAY_SIZE(ours); i++) {
        if (strcmp(ours[i], op) == 0)
            return true;
    }
    return false;
}

static unsigned run_sequence(const json_t *sequence)
{
    const struct writer_options options = {.lock_timeout_ms = 2000};
    const char *start = json_string_value(json_object_get(sequence, "start_from_case"));
    unsigned checked = 0;
    char path[PATH_MAX];
    json_t *step;
    size_t i;

    sequence_name = json_string_value(json_object_get(sequence, "name"));
    if (difference_of(-1))
        return 0;
    store = temp_store_create();
    if (start) {
        shared_path(path, "volumes/%s/volume", start);
        temp_volume_copy_in(store->volume, path);
    }
    temp_store_open(store);
    cr_assert_eq(writer_create(store->store, &options, &writer), STATUS_OK);
    json_array_foreach(json_object_get(sequence, "steps"), i, step)
    {
        AUTO_JSON json_t *arguments = json_deep_copy(json_object_get(step, "args"));
        settle_times(arguments);
        struct call call = {
            .op = json_string_value(json_object_get(step, "op")),
            .arguments = arguments,
        };
        step_number = (int) i;
        if (!is_ours(call.op))
            continue;
        check_step(step, &call);
        json_decref(call.facts);
        json_decref(call.summaries);
        checked++;
    }
    writer_destroy(&writer);
    temp_store_destroy(&store);
    return checked;
}

Test(shared_ops, end_as_the_peers_end_them, .timeout = 120)
{
    unsigned checked = 0;
    json_t *sequence;
    size_t i;

    if (!shared_is_there())
        return;
    AUTO_JSON json_t *all = shared_json("volumes/ops.json");
    json_array_foreach(json_object_get(all, "sequences"), i, sequence)
    {
        checked += run_sequence(sequence);
    }
    cr_expect(checked > 100, "%u steps", checked);
}
