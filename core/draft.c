#include "core/draft.h"

#include "core/array.h"
#include "core/clock.h"
#include "core/content_key.h"
#include "core/fact_normalise.h"
#include "core/json_text.h"
#include "core/manifest_write.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* One fact that was looked at, or changed. */
struct draft_entry {
    char id[FACT_ID_MAX + 1];
    char *path;     /* relative to the bucket: where it lies or will lie */
    json_t *before; /* NULL: it was not there */
    json_t *after;  /* NULL: it is not there */
};

struct draft {
    struct draft_options options;
    struct draft_entry **entries; /* sorted by id */
    size_t count, capacity;
    json_t *summaries; /* merged changes; NULL: none */
    bool changed;
};

static enum status no_memory(struct error *error)
{
    return error_set(error, STATUS_NO_MEMORY, NULL, "no memory for a change");
}

static enum status without_agent(struct error *error)
{
    return error_set(error, STATUS_INVALID, NULL, "agent_name is missing: facts need an agent");
}

enum status draft_create(const struct draft_options *options, struct draft **ret)
{
    struct draft *draft = calloc(1, sizeof *draft);

    if (!draft)
        return STATUS_NO_MEMORY;
    draft->options = *options;
    *ret = draft;
    return STATUS_OK;
}

static void entry_destroy(struct draft_entry *entry)
{
    json_decref(entry->before);
    json_decref(entry->after);
    free(entry->path);
    free(entry);
}

void draft_destroy(struct draft **draft)
{
    if (!*draft)
        return;
    for (size_t i = 0; i < (*draft)->count; i++)
        entry_destroy((*draft)->entries[i]);
    free((*draft)->entries);
    json_decref((*draft)->summaries);
    free(*draft);
    *draft = NULL;
}

void draft_outcome_destroy(struct draft_outcome *outcome)
{
    json_decref(outcome->upserted);
    json_decref(outcome->deleted);
    *outcome = (struct draft_outcome){0};
}

const struct scope *draft_scope(const struct draft *draft)
{
    return draft->options.scope;
}

uint64_t draft_wall_ns(const struct draft *draft)
{
    return draft->options.wall_ns;
}

const struct manifest *draft_manifest(const struct draft *draft)
{
    return draft->options.manifest;
}

int64_t draft_revision(const struct draft *draft)
{
    return draft->options.manifest ? draft->options.manifest->revision : 0;
}

bool draft_has_changed(const struct draft *draft)
{
    return draft->changed;
}

void draft_touch(struct draft *draft)
{
    draft->changed = true;
}

const json_t *draft_summaries(const struct draft *draft)
{
    return draft->summaries;
}

/* ---- entries ---- */

/* Where the id is, or belongs. */
static size_t place_of(const struct draft *draft, const char *id, bool *ret_found)
{
    size_t low = 0;
    size_t high = draft->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(draft->entries[middle]->id, id);
        if (order == 0) {
            *ret_found = true;
            return middle;
        }
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    *ret_found = false;
    return low;
}

static struct draft_entry *entry_create(const struct draft *draft, const char *id, json_t *stored,
                                        const char *path)
{
    struct draft_entry *entry = calloc(1, sizeof *entry);
    char own[SCOPE_PATH_MAX];
    char shard[3];

    if (!entry)
        return NULL;
    fact_id_shard(id, shard);
    (void) snprintf(entry->id, sizeof entry->id, "%s", id);
    (void) snprintf(own, sizeof own, "agents/%s/facts/%s/%s.md", draft->options.scope->agent, shard,
                    id);
    entry->path = strdup(stored ? path : own);
    if (!entry->path) {
        free(entry);
        return NULL;
    }
    entry->before = json_incref(stored);
    entry->after = json_incref(stored);
    return entry;
}

/* The entry of an id, made from what is stored when it is looked at for the first time. */
static enum status look_up(struct draft *draft, const char *id, struct draft_entry **ret,
                           struct error *error)
{
    AUTO_JSON json_t *stored = NULL;
    char path[SCOPE_PATH_MAX];
    bool found;
    size_t place = place_of(draft, id, &found);

    if (found) {
        *ret = draft->entries[place];
        return STATUS_OK;
    }
    if (!array_make_room(&draft->entries, draft->count, &draft->capacity, sizeof(void *)))
        return no_memory(error);
    enum status status =
        draft->options.source.find(draft->options.source.context, id, &stored, path, error);
    if (status != STATUS_OK && status != STATUS_NOT_FOUND)
        return status;
    struct draft_entry *entry = entry_create(draft, id, stored, path);
    if (!entry)
        return no_memory(error);
    memmove(draft->entries + place + 1, draft->entries + place,
            (draft->count - place) * sizeof(void *));
    draft->entries[place] = entry;
    draft->count++;
    *ret = entry;
    return STATUS_OK;
}

enum status draft_find(struct draft *draft, const char *id, json_t **ret, struct error *error)
{
    struct draft_entry *entry;

    if (!draft->options.has_agent)
        return without_agent(error);
    if (!fact_id_is_valid(id))
        return error_set(error, STATUS_INVALID, NULL, "fact_id is no id that a fact can have");
    enum status status = look_up(draft, id, &entry, error);
    if (status == STATUS_OK && !entry->after)
        return error_set(error, STATUS_NOT_FOUND, NULL, "there is no fact with the id %s", id);
    if (status == STATUS_OK)
        *ret = entry->after;
    return status;
}

/* ---- all facts ---- */

struct listing_of_facts {
    const struct draft *draft;
    json_t *facts;
};

/* Stored facts that were not touched; the others are added from their entries. */
static enum status collect_untouched(void *context, json_t *fact)
{
    struct listing_of_facts *listing = context;
    const char *id = json_string_value(json_object_get(fact, "id"));
    bool found = true;

    if (id)
        (void) place_of(listing->draft, id, &found);
    if (found)
        return STATUS_OK;
    return json_array_append(listing->facts, fact) == 0 ? STATUS_OK : STATUS_NO_MEMORY;
}

static int compare_facts(const void *a, const void *b)
{
    const char *left = json_string_value(json_object_get(*(json_t *const *) a, "id"));
    const char *right = json_string_value(json_object_get(*(json_t *const *) b, "id"));

    return strcmp(left ? left : "", right ? right : "");
}

/* A new array with the same facts in the order of their ids. */
static json_t *sort_facts(const json_t *facts)
{
    size_t count = json_array_size(facts);
    AUTO_FREE json_t **order = calloc(count + 1, sizeof(json_t *));
    AUTO_JSON json_t *sorted = json_array();

    if (!order || !sorted)
        return NULL;
    for (size_t i = 0; i < count; i++)
        order[i] = json_array_get(facts, i);
    qsort(order, count, sizeof(json_t *), compare_facts);
    for (size_t i = 0; i < count; i++) {
        if (json_array_append(sorted, order[i]) != 0)
            return NULL;
    }
    return TAKE_PTR(sorted);
}

enum status draft_list(struct draft *draft, json_t **ret, struct error *error)
{
    AUTO_JSON json_t *facts = json_array();
    struct listing_of_facts listing = {.draft = draft, .facts = facts};

    if (!facts)
        return no_memory(error);
    enum status status = draft->options.source.list(draft->options.source.context,
                                                    collect_untouched, &listing, error);
    if (status != STATUS_OK)
        return status;
    for (size_t i = 0; i < draft->count; i++) {
        if (draft->entries[i]->after && json_array_append(facts, draft->entries[i]->after) != 0)
            return no_memory(error);
    }
    *ret = sort_facts(facts);
    return *ret ? STATUS_OK : no_memory(error);
}

uint64_t draft_count(const struct draft *draft)
{
    uint64_t count = draft->options.source.count(draft->options.source.context);

    for (size_t i = 0; i < draft->count; i++) {
        count += draft->entries[i]->after && !draft->entries[i]->before;
        count -= !draft->entries[i]->after && draft->entries[i]->before;
    }
    return count;
}

json_t *draft_usage(struct draft *draft)
{
    return draft->options.source.usage(draft->options.source.context);
}

/* ---- equal contents ---- */

struct twin_search {
    const struct draft *draft;
    const char *content;
    size_t size;
    char *id; /* "" until one is found */
};

static enum status compare_content(struct twin_search *search, const json_t *fact)
{
    const json_t *content = json_object_get(fact, "content");
    const char *id = json_string_value(json_object_get(fact, "id"));
    bool equal = false;

    if (!content || !id || search->id[0])
        return STATUS_OK;
    enum status status =
        content_key_equal(search->content, search->size, json_string_value(content),
                          json_string_length(content), &equal);
    if (status == STATUS_OK && equal)
        (void) snprintf(search->id, FACT_ID_MAX + 1, "%s", id);
    return status;
}

static enum status compare_untouched(void *context, json_t *fact)
{
    struct twin_search *search = context;
    const char *id = json_string_value(json_object_get(fact, "id"));
    bool touched = true;

    if (id)
        (void) place_of(search->draft, id, &touched);
    return touched ? STATUS_OK : compare_content(search, fact);
}

enum status draft_find_content(struct draft *draft, const char *content, size_t size, char *ret_id,
                               struct error *error)
{
    struct twin_search search = {.draft = draft, .content = content, .size = size, .id = ret_id};
    uint64_t key = 0;

    ret_id[0] = '\0';
    enum status status = content_key_hash(content, size, &key);
    for (size_t i = 0; status == STATUS_OK && i < draft->count; i++) {
        if (draft->entries[i]->after)
            status = compare_content(&search, draft->entries[i]->after);
    }
    if (status != STATUS_OK)
        return error_set(error, status, NULL, "the content cannot be compared");
    return draft->options.source.find_content(draft->options.source.context, key, compare_untouched,
                                              &search, error);
}

/* ---- change sets ---- */

enum status draft_manifest_conflict(int64_t expected, int64_t current, struct error *error)
{
    (void) error_set(error, STATUS_CONFLICT, NULL,
                     "the memory is at revision %" PRId64 ", not at %" PRId64
                     ": read it again, then decide",
                     current, expected);
    error_add_member(error, "reason", "\"manifest_revision\"");
    error_add_member(error, "expected", "%" PRId64, expected);
    error_add_member(error, "current", "%" PRId64, current);
    return STATUS_CONFLICT;
}

static enum status fact_conflict(const struct draft_entry *entry, bool has_expected,
                                 int64_t expected, struct error *error)
{
    int64_t current = json_integer_value(
        json_object_get(entry->after ? entry->after : entry->before, "revision"));

    if (!entry->after)
        (void) error_set(error, STATUS_CONFLICT, NULL,
                         "there is no fact %s, which should be at revision %" PRId64, entry->id,
                         expected);
    else if (!has_expected)
        (void) error_set(error, STATUS_CONFLICT, NULL,
                         "there is a fact %s already, at revision %" PRId64, entry->id, current);
    else
        (void) error_set(error, STATUS_CONFLICT, NULL,
                         "the fact %s is at revision %" PRId64 ", not at %" PRId64
                         ": read it again, then decide",
                         entry->id, current, expected);
    error_add_member(error, "reason", "\"fact_revision\"");
    error_add_member(error, "fact_id", "\"%s\"", entry->id);
    if (has_expected)
        error_add_member(error, "expected", "%" PRId64, expected);
    else
        error_add_member(error, "expected", "null");
    if (entry->after)
        error_add_member(error, "current", "%" PRId64, current);
    else
        error_add_member(error, "current", "null");
    return STATUS_CONFLICT;
}

static enum status check_upsert(const struct draft_entry *entry, const struct change_upsert *upsert,
                                struct error *error)
{
    int64_t current =
        entry->after ? json_integer_value(json_object_get(entry->after, "revision")) : 0;

    switch (upsert->expects) {
    case CHANGE_EXPECTS_ANYTHING:
        return STATUS_OK;
    case CHANGE_EXPECTS_ABSENT:
        return entry->after ? fact_conflict(entry, false, 0, error) : STATUS_OK;
    case CHANGE_EXPECTS_REVISION:
        break;
    }
    if (!entry->after || current != upsert->revision)
        return fact_conflict(entry, true, upsert->revision, error);
    if (upsert->has_own_revision && upsert->own_revision != current)
        return fact_conflict(entry, true, upsert->own_revision, error);
    return STATUS_OK;
}

static enum status check_delete(const struct draft_entry *entry,
                                const struct change_delete *removal, struct error *error)
{
    if (!entry->after || !removal->has_revision)
        return STATUS_OK;
    int64_t current = json_integer_value(json_object_get(entry->after, "revision"));
    return current == removal->revision ? STATUS_OK
                                        : fact_conflict(entry, true, removal->revision, error);
}

static enum status check_set(struct draft *draft, const struct change_set *set, bool *ret_rebased,
                             struct error *error)
{
    struct draft_entry *entry;

    if (set->upsert_count + set->delete_count > 0 && !draft->options.has_agent)
        return without_agent(error);
    enum status status = change_set_check(set, error);
    if (status != STATUS_OK)
        return status;
    bool fits = !set->has_manifest_revision || set->manifest_revision == draft_revision(draft);
    if (!fits && !change_set_can_rebase(set))
        return draft_manifest_conflict(set->manifest_revision, draft_revision(draft), error);
    if (ret_rebased)
        *ret_rebased = !fits;
    for (size_t i = 0; status == STATUS_OK && i < set->upsert_count; i++) {
        status = look_up(draft, set->upserts[i].id, &entry, error);
        if (status == STATUS_OK)
            status = check_upsert(entry, &set->upserts[i], error);
    }
    for (size_t i = 0; status == STATUS_OK && i < set->delete_count; i++) {
        status = look_up(draft, set->deletes[i].id, &entry, error);
        if (status == STATUS_OK)
            status = check_delete(entry, &set->deletes[i], error);
    }
    return status;
}

/* What the store decides of a fact that replaces another: its time of creation, revision and time
 * of change. New reference. */
static json_t *successor(const struct draft *draft, const json_t *before, const json_t *wanted)
{
    AUTO_JSON json_t *fact = json_text_copy(wanted);
    char now[CLOCK_TEXT_SIZE];
    int64_t revision = json_integer_value(json_object_get(before, "revision"));

    clock_format(draft->options.wall_ns, now);
    if (!fact || json_object_set(fact, "createdAt", json_object_get(before, "createdAt")) != 0)
        return NULL;
    if (fact_same_material(fact, before))
        return json_incref(json_unconst(before));
    if (json_object_set_new(fact, "revision", json_integer(revision + 1)) != 0 ||
        json_object_set_new(fact, "updatedAt", json_string(now)) != 0)
        return NULL;
    return TAKE_PTR(fact);
}

/* What each upsert comes to, before anything of the draft is changed. */
static enum status prepare_upserts(struct draft *draft, const struct change_set *set,
                                   json_t **prepared, struct error *error)
{
    struct draft_entry *entry;

    for (size_t i = 0; i < set->upsert_count; i++) {
        enum status status = look_up(draft, set->upserts[i].id, &entry, error);
        if (status != STATUS_OK)
            return status;
        if (entry->after &&
            json_integer_value(json_object_get(entry->after, "revision")) == INT64_MAX)
            return error_set(error, STATUS_INVALID, NULL, "the fact %s has no revision left",
                             entry->id);
        prepared[i] = entry->after ? successor(draft, entry->after, set->upserts[i].fact)
                                   : json_incref(set->upserts[i].fact);
        if (!prepared[i])
            return no_memory(error);
    }
    return STATUS_OK;
}

/* The entry of an id that was looked up before. */
static struct draft_entry *known_entry(const struct draft *draft, const char *id)
{
    bool found;
    size_t place = place_of(draft, id, &found);

    return draft->entries[place];
}

/* What the caller is told. */
static enum status list_outcome(const struct draft *draft, const struct change_set *set,
                                json_t *const *prepared, struct draft_outcome *outcome,
                                struct error *error)
{
    for (size_t i = 0; i < set->upsert_count; i++) {
        if (known_entry(draft, set->upserts[i].id)->after == prepared[i])
            continue;
        if (json_array_append(outcome->upserted, prepared[i]) != 0)
            return no_memory(error);
        outcome->changed = true;
    }
    for (size_t i = 0; i < set->delete_count; i++) {
        const struct draft_entry *entry = known_entry(draft, set->deletes[i].id);
        if (!entry->after)
            continue;
        if (json_array_append_new(outcome->deleted, json_string(entry->id)) != 0)
            return no_memory(error);
        outcome->changed = true;
    }
    return STATUS_OK;
}

/* The summaries that were named by now; NULL where these change nothing. */
static enum status merge_summaries(const struct draft *draft, const json_t *summaries, json_t **ret,
                                   struct error *error)
{
    AUTO_JSON json_t *merged =
        draft->summaries ? json_text_deep_copy(draft->summaries) : json_object();
    const char *group;
    json_t *sections;

    *ret = NULL;
    if (!merged)
        return no_memory(error);
    json_object_foreach(json_unconst(summaries), group, sections)
    {
        json_t *target = json_object_get(merged, group);
        if (!target) {
            target = json_object();
            if (json_object_set_new(merged, group, target) != 0)
                return no_memory(error);
        }
        if (json_object_update(target, sections) != 0)
            return no_memory(error);
    }
    if (manifest_summaries_differ(draft->options.manifest, draft->summaries, merged))
        *ret = TAKE_PTR(merged);
    return STATUS_OK;
}

/* Cannot fail: all that could was done before. */
static void take(struct draft *draft, const struct change_set *set, json_t *const *prepared,
                 json_t *merged)
{
    for (size_t i = 0; i < set->upsert_count; i++) {
        struct draft_entry *entry = known_entry(draft, set->upserts[i].id);
        json_t *before = entry->after;
        entry->after = json_incref(prepared[i]);
        json_decref(before);
    }
    for (size_t i = 0; i < set->delete_count; i++) {
        struct draft_entry *entry = known_entry(draft, set->deletes[i].id);
        json_decref(entry->after);
        entry->after = NULL;
    }
    if (merged) {
        json_decref(draft->summaries);
        draft->summaries = json_incref(merged);
    }
}

enum status draft_apply(struct draft *draft, const struct change_set *set,
                        struct draft_outcome *ret, bool *ret_rebased, struct error *error)
{
    AUTO_OUTCOME struct draft_outcome outcome = {
        .upserted = json_array(),
        .deleted = json_array(),
    };
    AUTO_JSON json_t *guard = json_array(); /* owns what is prepared */
    AUTO_JSON json_t *merged = NULL;
    AUTO_FREE json_t **prepared = calloc(set->upsert_count + 1, sizeof(json_t *));

    if (!outcome.upserted || !outcome.deleted || !guard || !prepared)
        return no_memory(error);
    enum status status = check_set(draft, set, ret_rebased, error);
    if (status == STATUS_OK)
        status = prepare_upserts(draft, set, prepared, error);
    for (size_t i = 0; i < set->upsert_count; i++) {
        if (prepared[i] && json_array_append_new(guard, prepared[i]) != 0)
            status = no_memory(error);
    }
    if (status == STATUS_OK)
        status = list_outcome(draft, set, prepared, &outcome, error);
    if (status == STATUS_OK && set->summaries)
        status = merge_summaries(draft, set->summaries, &merged, error);
    if (status != STATUS_OK)
        return status;
    take(draft, set, prepared, merged);
    outcome.changed = outcome.changed || merged;
    draft->changed = draft->changed || outcome.changed;
    *ret = outcome;
    outcome = (struct draft_outcome){0};
    return STATUS_OK;
}

/* ---- the result ---- */

enum status draft_changes(const struct draft *draft, struct draft_change **ret, size_t *ret_count)
{
    struct draft_change *changes = calloc(draft->count + 1, sizeof *changes);
    size_t count = 0;

    if (!changes)
        return STATUS_NO_MEMORY;
    for (size_t i = 0; i < draft->count; i++) {
        const struct draft_entry *entry = draft->entries[i];
        if (entry->before == entry->after)
            continue;
        changes[count++] = (struct draft_change){
            .id = entry->id,
            .path = entry->path,
            .existed = entry->before != NULL,
            .fact = entry->after,
        };
    }
    *ret = changes;
    *ret_count = count;
    return STATUS_OK;
}

void draft_each_kept(const struct draft *draft, draft_kept_sink sink, void *context)
{
    for (size_t i = 0; i < draft->count; i++) {
        const struct draft_entry *entry = draft->entries[i];
        if (entry->before == entry->after)
            sink(context, entry->id, entry->path, entry->before);
    }
}
