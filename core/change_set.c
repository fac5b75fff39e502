#include "core/change_set.h"

#include "core/array.h"
#include "core/fact_normalise.h"
#include "core/json_text.h"

#include <string.h>

void change_set_destroy(struct change_set *set)
{
    for (size_t i = 0; i < set->upsert_count; i++)
        json_decref(set->upserts[i].fact);
    for (size_t i = 0; i < set->delete_count; i++)
        free(set->deletes[i].id);
    free(set->upserts);
    free(set->deletes);
    json_decref(set->summaries);
    *set = (struct change_set){0};
}

static enum status no_memory(struct error *error)
{
    return error_set(error, STATUS_NO_MEMORY, NULL, "no memory for a change");
}

/* The revision that the caller's document names; normalising has checked its form. */
static void take_own_revision(struct change_upsert *upsert, const json_t *fact)
{
    const json_t *revision = json_object_get(fact, "revision");

    if (!json_is_integer(revision))
        return;
    upsert->has_own_revision = true;
    upsert->own_revision = json_integer_value(revision);
    upsert->expects = CHANGE_EXPECTS_REVISION;
    upsert->revision = upsert->own_revision;
}

enum status change_set_add_upsert(struct change_set *set, const struct scope *scope,
                                  const json_t *fact, uint64_t wall_ns, struct change_upsert **ret,
                                  struct error *error)
{
    AUTO_JSON json_t *complete = NULL;

    if (!json_is_object(fact))
        return error_set(error, STATUS_INVALID, NULL, "a fact must be an object");
    if (!array_make_room(&set->upserts, set->upsert_count, &set->upsert_capacity,
                         sizeof *set->upserts))
        return no_memory(error);
    enum status status = fact_normalise(fact, scope, wall_ns, &complete, error);
    if (status != STATUS_OK)
        return status;

    struct change_upsert *upsert = &set->upserts[set->upsert_count++];
    *upsert = (struct change_upsert){.expects = CHANGE_EXPECTS_ABSENT};
    take_own_revision(upsert, fact);
    upsert->id = json_string_value(json_object_get(complete, "id"));
    upsert->fact = TAKE_PTR(complete);
    if (ret)
        *ret = upsert;
    return STATUS_OK;
}

enum status change_set_add_complete(struct change_set *set, json_t *fact, struct error *error)
{
    const char *id = json_string_value(json_object_get(fact, "id"));

    if (!id || !fact_id_is_valid(id))
        return error_set(error, STATUS_INVALID, NULL, "a fact has no id that a fact can have");
    if (!array_make_room(&set->upserts, set->upsert_count, &set->upsert_capacity,
                         sizeof *set->upserts))
        return no_memory(error);
    set->upserts[set->upsert_count++] = (struct change_upsert){
        .fact = json_incref(fact),
        .id = id,
        .expects = CHANGE_EXPECTS_ABSENT,
    };
    return STATUS_OK;
}

enum status change_set_add_delete(struct change_set *set, const char *id,
                                  struct change_delete **ret, struct error *error)
{
    if (!fact_id_is_valid(id))
        return error_set(error, STATUS_INVALID, NULL, "\"%.64s\" is no fact id", id);
    if (!array_make_room(&set->deletes, set->delete_count, &set->delete_capacity,
                         sizeof *set->deletes))
        return no_memory(error);
    char *copy = strdup(id);
    if (!copy)
        return no_memory(error);
    struct change_delete *removal = &set->deletes[set->delete_count++];
    *removal = (struct change_delete){.id = copy};
    if (ret)
        *ret = removal;
    return STATUS_OK;
}

enum status change_set_set_summaries(struct change_set *set, const json_t *summaries,
                                     struct error *error)
{
    static const char *const groups[] = {"user", "history"};
    AUTO_JSON json_t *kept = json_object();

    if (!json_is_object(summaries))
        return error_set(error, STATUS_INVALID, NULL, "summaries must be an object");
    if (!kept)
        return no_memory(error);
    for (size_t i = 0; i < ARRAY_SIZE(groups); i++) {
        json_t *group = json_object_get(summaries, groups[i]);
        if (!group)
            continue;
        if (!json_is_object(group))
            return error_set(error, STATUS_INVALID, NULL, "summaries.%s must be an object",
                             groups[i]);
        if (json_object_set(kept, groups[i], group) != 0)
            return no_memory(error);
    }
    json_decref(set->summaries);
    set->summaries = TAKE_PTR(kept);
    return STATUS_OK;
}

static int compare_ids(const void *a, const void *b)
{
    return strcmp(*(const char *const *) a, *(const char *const *) b);
}

enum status change_set_check(const struct change_set *set, struct error *error)
{
    size_t count = set->upsert_count + set->delete_count;
    AUTO_FREE const char **ids = NULL;

    if (count > CHANGE_SET_FACTS_MAX)
        return error_set(error, STATUS_TOO_LARGE, NULL, "more than %d facts in one change",
                         CHANGE_SET_FACTS_MAX);
    ids = calloc(count + 1, sizeof *ids);
    if (!ids)
        return no_memory(error);
    for (size_t i = 0; i < set->upsert_count; i++)
        ids[i] = set->upserts[i].id;
    for (size_t i = 0; i < set->delete_count; i++)
        ids[set->upsert_count + i] = set->deletes[i].id;
    qsort(ids, count, sizeof *ids, compare_ids);
    for (size_t i = 1; i < count; i++) {
        if (strcmp(ids[i - 1], ids[i]) == 0)
            return error_set(error, STATUS_INVALID, NULL, "the fact id \"%s\" is there twice",
                             ids[i]);
    }
    return STATUS_OK;
}

bool change_set_can_rebase(const struct change_set *set)
{
    if (!set->may_rebase || set->summaries)
        return false;
    for (size_t i = 0; i < set->delete_count; i++) {
        if (!set->deletes[i].has_revision)
            return false;
    }
    return set->upsert_count + set->delete_count > 0;
}
