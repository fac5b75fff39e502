/* What was evicted: eviction-audit.json. */
#include "core/side_data.h"

#include "core/clock.h"
#include "core/json_text.h"

#include <string.h>

enum status audit_parse(const char *bytes, size_t size, json_t **ret, bool *ret_malformed)
{
    AUTO_JSON json_t *audit = NULL;
    enum status status = json_text_read(bytes, size, JSON_TEXT_DEPTH_MAX, &audit, NULL);

    if (status == STATUS_NO_MEMORY)
        return status;
    *ret_malformed = status != STATUS_OK || !json_is_array(audit);
    *ret = *ret_malformed ? json_array() : TAKE_PTR(audit);
    return *ret ? STATUS_OK : STATUS_NO_MEMORY;
}

/* ---- making an entry ---- */

static const char *text_of(const struct capacity_fact *fact, const char *key)
{
    const char *text = json_string_value(json_object_get(fact->document, key));

    return text ? text : "";
}

static json_t *components_of(enum capacity_rule rule, const struct capacity_score *score)
{
    if (rule == CAPACITY_CONFIDENCE)
        return json_pack("{s:f}", "confidence", score->confidence);
    return json_pack("{s:f, s:f, s:f}", "confidence", score->confidence, "confirmation",
                     score->confirmation, "access", score->access);
}

/* The facts that the rule evicted, lowest score first. */
static json_t *evicted_of(const struct eviction *eviction)
{
    const struct capacity_choice *choice = eviction->choice;
    AUTO_JSON json_t *list = json_array();

    for (size_t i = 0; list && i < choice->evicted_count; i++) {
        size_t index = choice->evicted[i];
        const struct capacity_fact *fact = &eviction->facts[index];
        const struct capacity_score *score = &choice->scores[index];
        json_t *item = json_pack("{s:s, s:s, s:f, s:o}", "factId", text_of(fact, "id"), "category",
                                 text_of(fact, "category"), "score", score->total, "components",
                                 components_of(eviction->policy->rule, score));
        if (json_array_append_new(list, item) < 0)
            return NULL;
    }
    return TAKE_PTR(list);
}

static int compare_ids(const void *a, const void *b)
{
    return strcmp(*(const char *const *) a, *(const char *const *) b);
}

/* The ids that a choice evicted, sorted; NULL: out of memory. */
static const char **sorted_ids(const struct capacity_fact *facts,
                               const struct capacity_choice *choice)
{
    const char **ids = calloc(choice->evicted_count + 1, sizeof *ids);

    for (size_t i = 0; ids && i < choice->evicted_count; i++)
        ids[i] = text_of(&facts[choice->evicted[i]], "id");
    if (ids)
        qsort(ids, choice->evicted_count, sizeof *ids, compare_ids);
    return ids;
}

static bool is_same_list(const char *const *a, size_t a_count, const char *const *b, size_t b_count)
{
    for (size_t i = 0; i < a_count && i < b_count; i++) {
        if (strcmp(a[i], b[i]) != 0)
            return false;
    }
    return a_count == b_count;
}

/* What hybrid-v1 would have evicted instead. */
static json_t *shadow_of(const struct eviction *eviction)
{
    size_t would_count = eviction->shadow->evicted_count;
    size_t did_count = eviction->choice->evicted_count;
    AUTO_FREE const char **would = sorted_ids(eviction->facts, eviction->shadow);
    AUTO_FREE const char **did = sorted_ids(eviction->facts, eviction->choice);
    AUTO_JSON json_t *list = json_array();

    if (!would || !did)
        return NULL;
    for (size_t i = 0; i < would_count; i++) {
        if (json_array_append_new(list, json_string(would[i])) < 0)
            return NULL;
    }
    return json_pack("{s:s, s:O, s:b}", "policyVersion", capacity_rule_name(CAPACITY_HYBRID_V1),
                     "wouldEvict", list, "disagrees",
                     !is_same_list(would, would_count, did, did_count));
}

json_t *audit_entry_create(const struct eviction *eviction)
{
    char time[CLOCK_TEXT_SIZE];

    clock_format(eviction->at_ns, time);
    AUTO_JSON json_t *entry =
        json_pack("{s:s, s:s, s:s, s:I, s:I, s:o}", "occurredAt", time, "reason", "capacity",
                  "policyVersion", capacity_rule_name(eviction->policy->rule), "maxFacts",
                  (json_int_t) eviction->policy->max_facts, "reservedCorrectionSlots",
                  (json_int_t) eviction->choice->reserved, "evicted", evicted_of(eviction));
    if (!entry)
        return NULL;
    if (eviction->shadow && json_object_set_new(entry, "shadow", shadow_of(eviction)) < 0)
        return NULL;
    return TAKE_PTR(entry);
}

/* ---- the list ---- */

enum status audit_append(json_t *audit, json_t *entry, size_t entries_max)
{
    if (entries_max == 0)
        return STATUS_OK;
    if (json_array_append(audit, entry) < 0)
        return STATUS_NO_MEMORY;
    while (json_array_size(audit) > entries_max)
        (void) json_array_remove(audit, 0);
    return STATUS_OK;
}

/* Looks a fact up in an object that has the ids as keys. */
static bool is_among(const json_t *ids, const json_t *id)
{
    return json_is_string(id) &&
           json_object_getn(ids, json_string_value(id), json_string_length(id));
}

/* Removes the items of a list that are, or whose factId is, among the ids. */
static bool drop_items(json_t *list, const json_t *ids)
{
    size_t before = json_array_size(list);

    for (size_t i = before; i-- > 0;) {
        const json_t *item = json_array_get(list, i);
        if (is_among(ids, json_is_object(item) ? json_object_get(item, "factId") : item))
            (void) json_array_remove(list, i);
    }
    return json_array_size(list) != before;
}

static json_t *ids_as_keys(const char *const *fact_ids, size_t count)
{
    AUTO_JSON json_t *ids = json_object();

    for (size_t i = 0; ids && i < count; i++) {
        if (json_object_set_new(ids, fact_ids[i], json_true()) < 0)
            return NULL;
    }
    return TAKE_PTR(ids);
}

enum status audit_forget(json_t *audit, const char *const *fact_ids, size_t count,
                         bool *ret_changed)
{
    AUTO_JSON json_t *ids = ids_as_keys(fact_ids, count);

    if (!ids)
        return STATUS_NO_MEMORY;
    *ret_changed = false;
    for (size_t i = json_array_size(audit); i-- > 0;) {
        json_t *entry = json_array_get(audit, i);
        json_t *evicted = json_object_get(entry, "evicted");
        bool told = drop_items(evicted, ids);
        bool would =
            drop_items(json_object_get(json_object_get(entry, "shadow"), "wouldEvict"), ids);
        if (told && json_array_size(evicted) == 0)
            (void) json_array_remove(audit, i);
        *ret_changed = *ret_changed || told || would;
    }
    return STATUS_OK;
}
