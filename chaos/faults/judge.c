#include "chaos/faults/judge.h"

#include "chaos/faults/fault.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- errors ---- */

/* What a fault of the kind may be called. The rest would be a wrong word: nothing is wrong with the
 * request, the bytes on the volume or the rights on them. */
static bool is_proper(const struct fault_kind *kind, enum status status)
{
    switch (status) {
    case STATUS_UNAVAILABLE:
        return true;
    case STATUS_NO_MEMORY:
        return kind->source == FAULT_ALLOCATION || strcmp(kind->name, "step-memory") == 0;
    case STATUS_STORAGE_FULL:
        return strcmp(kind->name, "enospc") == 0 || strcmp(kind->name, "full") == 0;
    case STATUS_BUSY:
        return strcmp(kind->name, "step-busy") == 0 || strcmp(kind->name, "estale") == 0;
    case STATUS_TIMEOUT:  /* what moves under us is looked at again, for a while, */
    case STATUS_CONFLICT: /* and in a commit it was moved by somebody else */
        return strcmp(kind->name, "estale") == 0;
    case STATUS_STALE:
        return kind->source == FAULT_FILE;
    case STATUS_IO:
        return kind->source != FAULT_ALLOCATION;
    default:
        return false;
    }
}

static void judge_error(struct world *world, const char *what, const struct world_answer *answer)
{
    const struct fault_kind *kind = fault_armed_kind();

    if (!world->is_fault_expected || world->must_be_fresh)
        world_fails(world, "%s failed: %s: %s %s", what, status_name(answer->status),
                    answer->error.path, answer->error.message);
    else if (!is_proper(kind, answer->status))
        world_fails(world, "%s: no proper error: %s: %s %s", what, status_name(answer->status),
                    answer->error.path, answer->error.message);
}

/* ---- reading ---- */

static void add_fact(struct fact_list *list, const json_t *fact)
{
    const char *id = json_string_value(json_object_get(fact, "id"));
    const char *content = json_string_value(json_object_get(fact, "content"));

    fact_list_add(list, id ? id : "(no id)", content ? content : "(no content)");
}

/* The facts of an answer, wherever the method puts them; false for one that tells none. */
static bool read_facts(const json_t *result, struct truth *ret)
{
    const json_t *results = json_object_get(result, "results");
    const json_t *memory = json_object_get(result, "memory");
    const json_t *facts = results ? results : json_object_get(memory ? memory : result, "facts");
    struct fact_list *list;
    const json_t *item;
    size_t i;

    if (!json_is_array(facts))
        return false;
    list = fact_list_create();
    json_array_foreach(facts, i, item)
    {
        add_fact(list, results ? json_object_get(item, "fact") : item);
    }
    fact_list_finish(&list, ret);
    return true;
}

static const char *summary_of(const json_t *result)
{
    const json_t *memory = json_object_get(result, "memory");
    const json_t *document = memory ? memory : json_object_get(result, "summaries");
    const json_t *section = json_object_get(json_object_get(document, "user"), "workContext");

    return document ? json_string_value(json_object_get(section, "summary")) : NULL;
}

/* What an answer says of the scope; NULL where it says nothing. */
static const json_t *scope_of(const json_t *result)
{
    const json_t *scope = json_object_get(result, "scope");

    if (!scope && json_object_get(result, "results"))
        scope = json_array_get(json_object_get(result, "scopes"), 0);
    return scope;
}

static bool says_in_step(const json_t *scope)
{
    const char *state = json_string_value(json_object_get(scope, "state"));

    return state && (strcmp(state, "fresh") == 0 || strcmp(state, "refreshed") == 0);
}

static void judge_in_step(struct world *world, const char *name, const json_t *result,
                          const struct truth *told, bool has_facts)
{
    const char *summary = summary_of(result);
    struct truth truth;

    truth_read(world->volume, name, &truth);
    if (!truth.is_whole)
        world_fails(world, "%s is called fresh, and a commit is half done there", name);
    if (told->revision != truth.revision)
        world_fails(world, "%s is called fresh at revision %" PRId64 " instead of %" PRId64, name,
                    told->revision, truth.revision);
    if (has_facts && strcmp(told->facts, truth.facts) != 0)
        world_fails(world, "%s is called fresh with {%s} instead of {%s}", name, told->facts,
                    truth.facts);
    if (summary && strcmp(summary, truth.summary) != 0)
        world_fails(world, "%s is called fresh with the summary {%s} instead of {%s}", name,
                    summary, truth.summary);
}

/* Searches find nothing of an earlier layout before it is migrated. */
static void judge_answer(struct world *world, const char *name, const json_t *result)
{
    const json_t *scope = scope_of(result);
    struct truth told = {.revision = json_integer_value(json_object_get(scope, "revision"))};
    bool has_facts = read_facts(result, &told) && !json_object_get(scope, "unmigrated");

    if (!scope)
        return;
    if (says_in_step(scope))
        judge_in_step(world, name, result, &told, has_facts);
    else if (world->must_be_fresh || !world->is_fault_expected)
        world_fails(world, "%s is not called fresh: %s", name,
                    json_string_value(json_object_get(scope, "reason")));
    else if (has_facts && !world_remembers(world, name, told.revision, told.facts))
        world_fails(world, "%s never was {%s} at revision %" PRId64 " (%s)", name, told.facts,
                    told.revision, json_string_value(json_object_get(scope, "state")));
}

bool judge_read(struct world *world, backend_method method, const char *scope, const char *params)
{
    AUTO_ANSWER struct world_answer answer = world_call(world, method, scope, params);

    world_remember(world); /* a journal may have been dealt with */
    if (answer.status != STATUS_OK)
        judge_error(world, params, &answer);
    else
        judge_answer(world, scope, answer.result);
    return answer.status == STATUS_OK;
}

/* ---- writing ---- */

static void add_candidate(struct world *world, const char *contents)
{
    (void) snprintf(world->candidates[world->candidate_count++], TRUTH_TEXT_MAX, "%s", contents);
}

void judge_begin(struct world *world)
{
    struct truth truth;

    truth_read(world->volume, world->scopes[0], &truth);
    if (!truth.is_whole)
        return;
    world->candidate_count = 0;
    add_candidate(world, truth.contents);
}

static void judge_written(struct world *world, const char *after)
{
    struct truth truth;

    truth_read(world->volume, world->scopes[0], &truth);
    world->candidate_count = 0;
    add_candidate(world, after);
    if (strcmp(truth.contents, after) != 0)
        world_fails(world, "a write is answered, and the volume has {%s} instead of {%s}",
                    truth.contents, after);
}

static bool may_be_there(const struct error *error)
{
    return strstr(error->members, "\"unconfirmed\"") != NULL;
}

bool judge_write(struct world *world, backend_method method, const char *params, const char *after)
{
    AUTO_ANSWER struct world_answer answer = world_call(world, method, world->scopes[0], params);

    if (answer.status == STATUS_OK) {
        judge_written(world, after);
    } else {
        judge_error(world, params, &answer);
        if (world->is_fault_expected && may_be_there(&answer.error))
            add_candidate(world, after);
    }
    world_remember(world);
    return answer.status == STATUS_OK;
}

void judge_contents(struct world *world)
{
    char expected[WORLD_CANDIDATES_MAX * TRUTH_TEXT_MAX] = "";
    size_t used = 0;
    struct truth truth;

    truth_read(world->volume, world->scopes[0], &truth);
    for (size_t i = 0; i < world->candidate_count; i++) {
        if (strcmp(truth.contents, world->candidates[i]) == 0)
            return;
        used += (size_t) snprintf(expected + used, sizeof expected - used, "%s{%s}",
                                  i > 0 ? " or " : "", world->candidates[i]);
    }
    world_fails(world, "the volume has {%s} and may have %s", truth.contents, expected);
}
