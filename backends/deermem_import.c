/* import_memory: an agent's facts become those of a document. */
#include "backends/deermem_write.h"

#include "backends/params.h"
#include "core/json_number.h"
#include "core/json_text.h"
#include "core/manifest_write.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define CONFIDENCE_DEFAULT 0.5

struct import {
    struct deermem_write write;
    const json_t *facts; /* NULL: the document has none, and the stored ones stay */
    const json_t *user;
    const json_t *history;
    bool has_revision;
    int64_t revision;
    bool is_dry;                /* say what would be, and write nothing */
    json_t *stored;             /* an object: the ids that are there before */
    json_t *evicted;            /* an array of ids that were left out */
    json_t *replaced_summaries; /* arrays of "user.workContext" */
    json_t *added_summaries;
    size_t kept; /* facts of the document that are stored */
};

static void import_clear(struct import *import)
{
    json_decref(import->stored);
    json_decref(import->evicted);
    json_decref(import->replaced_summaries);
    json_decref(import->added_summaries);
}
#define AUTO_IMPORT CLEANUP(import_clear)

static enum status no_memory(struct error *error)
{
    return error_set(error, STATUS_NO_MEMORY, NULL, "out of memory");
}

/* ---- the document ---- */

static enum status take_group(const json_t *data, const char *name, const json_t **ret,
                              struct error *error)
{
    json_t *group = json_object_get(data, name);
    const char *key;
    json_t *section;

    if (!group)
        return STATUS_OK;
    if (!json_is_object(group))
        return error_set(error, STATUS_INVALID, NULL, "memory_data.%s must be an object", name);
    json_object_foreach(group, key, section)
    {
        enum status status = json_is_string(section)
                                 ? STATUS_OK
                                 : deermem_check_section(section, "memory_data", name, key, error);
        if (status != STATUS_OK)
            return status;
    }
    *ret = group;
    return STATUS_OK;
}

/* Malformed never means "clear": a list that is none is refused, one that is missing counts for
 * nothing. */
static enum status take_facts(const json_t *data, const json_t **ret, struct error *error)
{
    const json_t *facts = json_object_get(data, "facts");
    const json_t *fact;
    size_t i;

    if (!facts)
        return STATUS_OK;
    if (!json_is_array(facts))
        return error_set(error, STATUS_INVALID, NULL, "memory_data.facts must be a list");
    json_array_foreach(facts, i, fact)
    {
        if (!json_is_object(fact))
            return error_set(error, STATUS_INVALID, NULL,
                             "memory_data.facts[%zu] must be an object", i);
    }
    *ret = facts;
    return STATUS_OK;
}

static enum status take_document(const struct backend_call *call, struct import *import,
                                 struct error *error)
{
    const json_t *data = json_object_get(call->params, "memory_data");

    if (!data)
        return error_set(error, STATUS_INVALID, NULL, "memory_data is missing");
    if (!json_is_object(data))
        return error_set(error, STATUS_INVALID, NULL, "memory_data must be an object");
    if (manifest_is_newer(data))
        return error_set(error, STATUS_INVALID, NULL,
                         "memory_data.version is of a newer format than " MANIFEST_VERSION
                         ", which this version reads");
    enum status status = deermem_check_memory(call, error);
    if (status == STATUS_OK)
        status = params_boolean(call->params, "dry_run", &import->is_dry, error);
    if (status == STATUS_OK)
        status =
            deermem_take_revision(call->params, &import->has_revision, &import->revision, error);
    if (status == STATUS_OK)
        status = take_group(data, "user", &import->user, error);
    if (status == STATUS_OK)
        status = take_group(data, "history", &import->history, error);
    if (status == STATUS_OK)
        status = take_facts(data, &import->facts, error);
    return status;
}

/* ---- facts ---- */

/* An import is lenient here, as the peers are: what is no number counts as the default. */
static json_t *lenient_confidence(const json_t *value)
{
    double number;

    if (!json_number_read_text(value, &number) || !isfinite(number))
        number = CONFIDENCE_DEFAULT;
    return json_real(fmin(1, fmax(0, number)));
}

/* The position is told, since a fact may have no id to know it by. */
static enum status at_fact(size_t i, enum status status, struct error *error)
{
    if (status != STATUS_INVALID || !error)
        return status;
    struct error inner = *error;
    (void) error_set(error, status, inner.path, "memory_data.facts[%zu]: %s", i, inner.message);
    return status;
}

/* All facts of the document as they would be stored. */
static enum status normalise_facts(const struct import *import, const struct draft *draft,
                                   struct change_set *set, struct error *error)
{
    json_t *given;
    size_t i;

    json_array_foreach(import->facts, i, given)
    {
        struct change_upsert *upsert;
        AUTO_JSON json_t *fact = json_text_copy(given);
        if (!fact || json_object_set_new(fact, "confidence",
                                         lenient_confidence(json_object_get(given, "confidence"))))
            return no_memory(error);
        enum status status = change_set_add_upsert(set, draft_scope(draft), fact,
                                                   draft_wall_ns(draft), &upsert, error);
        if (status != STATUS_OK)
            return at_fact(i, status, error);
        upsert->expects = CHANGE_EXPECTS_ANYTHING;
    }
    return STATUS_OK;
}

static void drop_upsert(struct change_set *set, size_t i)
{
    json_decref(set->upserts[i].fact);
    memmove(&set->upserts[i], &set->upserts[i + 1],
            (set->upsert_count - i - 1) * sizeof *set->upserts);
    set->upsert_count--;
}

static int compare_down(const void *a, const void *b)
{
    size_t left = *(const size_t *) a;
    size_t right = *(const size_t *) b;

    return left < right ? 1 : -(left > right);
}

/* What the capacity policy would evict is not stored in the first place. */
static enum status select_facts(struct import *import, struct draft *draft, struct change_set *set,
                                struct error *error)
{
    const struct capacity_policy *policy = &import->write.backend->settings.capacity;
    AUTO_CHOICE struct capacity_choice choice = {0};
    AUTO_JSON json_t *usage = NULL;
    AUTO_FREE struct capacity_fact *facts = NULL;

    if (set->upsert_count <= capacity_limit(policy))
        return STATUS_OK;
    usage = policy->rule == CAPACITY_HYBRID_V1 ? draft_usage(draft) : json_object();
    facts = calloc(set->upsert_count + 1, sizeof *facts);
    if (!usage || !facts)
        return no_memory(error);
    for (size_t i = 0; i < set->upsert_count; i++)
        facts[i] = (struct capacity_fact){
            .document = set->upserts[i].fact,
            .usage = json_object_get(usage, set->upserts[i].id),
        };
    if (capacity_choose(policy, policy->rule, capacity_limit(policy), facts, set->upsert_count,
                        draft_wall_ns(draft), &choice) != STATUS_OK)
        return no_memory(error);
    for (size_t i = 0; i < choice.evicted_count; i++) {
        if (json_array_append_new(import->evicted,
                                  json_string(set->upserts[choice.evicted[i]].id)) != 0)
            return no_memory(error);
    }
    qsort(choice.evicted, choice.evicted_count, sizeof *choice.evicted, compare_down);
    for (size_t i = 0; i < choice.evicted_count; i++)
        drop_upsert(set, choice.evicted[i]);
    return STATUS_OK;
}

/* Stored facts that the document does not have. */
static enum status remove_others(struct import *import, struct draft *draft, struct change_set *set,
                                 struct error *error)
{
    AUTO_JSON json_t *stored = NULL;
    AUTO_JSON json_t *incoming = json_object();
    AUTO_JSON json_t *others = json_array();
    json_t *fact;
    size_t i;

    enum status status = draft_list(draft, &stored, error);
    if (status != STATUS_OK)
        return status;
    for (i = 0; incoming && i < set->upsert_count; i++) {
        if (json_object_set_new(incoming, set->upserts[i].id, json_true()) != 0)
            return no_memory(error);
    }
    if (!incoming || !others)
        return no_memory(error);
    json_array_foreach(stored, i, fact)
    {
        const char *id = json_string_value(json_object_get(fact, "id"));
        if (id && json_object_set_new(import->stored, id, json_true()) != 0)
            return no_memory(error);
        if (id && !json_object_get(incoming, id) && json_array_append(others, fact) != 0)
            return no_memory(error);
    }
    return deermem_add_deletes(set, others, error);
}

/* ---- summaries ---- */

/* A section as it is stored: the text alone becomes an object where readers expect one. New
 * reference, NULL without memory. */
static json_t *whole_section(const char *group, const char *name, json_t *section)
{
    return json_is_string(section) && manifest_section_is_known(group, name)
               ? json_pack("{s:O}", "summary", section)
               : json_incref(section);
}

static const json_t *text_of(const json_t *section)
{
    return json_is_string(section) ? section : json_object_get(section, "summary");
}

/* The text of a section as it is by now, or NULL. */
static const json_t *stored_text(const struct draft *draft, const char *group, const char *name)
{
    const struct manifest *manifest = draft_manifest(draft);
    const json_t *named = json_object_get(json_object_get(draft_summaries(draft), group), name);

    if (!named && manifest)
        named = json_object_get(json_object_get(manifest->root, group), name);
    return text_of(named);
}

/* Whoever imports is told which texts go, and which come where none was. */
static enum status note_section(const struct import *import, const struct draft *draft,
                                const char *group, const char *name, const json_t *section,
                                struct error *error)
{
    const json_t *before = stored_text(draft, group, name);

    if (json_equal(before, text_of(section)))
        return STATUS_OK;
    json_t *list =
        json_string_length(before) > 0 ? import->replaced_summaries : import->added_summaries;
    return json_array_append_new(list, json_sprintf("%s.%s", group, name)) == 0 ? STATUS_OK
                                                                                : no_memory(error);
}

/* Sections with a text replace the stored ones. Empty ones erase nothing: an export of an agent
 * carries all sections, also those that had no text then. */
static enum status add_sections(const struct import *import, const struct draft *draft,
                                json_t *summaries, const char *name, const json_t *group,
                                struct error *error)
{
    AUTO_JSON json_t *kept = json_object();
    const char *key;
    json_t *section;

    if (!kept)
        return no_memory(error);
    json_object_foreach(json_unconst(group), key, section)
    {
        if (json_string_length(text_of(section)) == 0)
            continue;
        if (json_object_set_new(kept, key, whole_section(name, key, section)) != 0)
            return no_memory(error);
        enum status status = note_section(import, draft, name, key, section, error);
        if (status != STATUS_OK)
            return status;
    }
    return json_object_set(summaries, name, kept) == 0 ? STATUS_OK : no_memory(error);
}

static enum status add_summaries(const struct import *import, const struct draft *draft,
                                 struct change_set *set, struct error *error)
{
    AUTO_JSON json_t *summaries = json_object();

    if (!import->user && !import->history)
        return STATUS_OK;
    if (!summaries)
        return no_memory(error);
    enum status status = STATUS_OK;
    if (import->user)
        status = add_sections(import, draft, summaries, "user", import->user, error);
    if (status == STATUS_OK && import->history)
        status = add_sections(import, draft, summaries, "history", import->history, error);
    return status == STATUS_OK ? change_set_set_summaries(set, summaries, error) : status;
}

/* ---- method ---- */

/* For a build that may be another one than the first. */
static enum status begin_lists(struct import *import, struct error *error)
{
    import_clear(import);
    import->stored = json_object();
    import->evicted = json_array();
    import->replaced_summaries = json_array();
    import->added_summaries = json_array();
    return import->stored && import->evicted && import->replaced_summaries &&
                   import->added_summaries
               ? STATUS_OK
               : no_memory(error);
}

static enum status build(void *context, struct draft *draft, struct change_set *set,
                         struct error *error)
{
    struct import *import = context;

    set->has_manifest_revision = import->has_revision;
    set->manifest_revision = import->revision;
    enum status status = begin_lists(import, error);
    if (status == STATUS_OK && import->facts) {
        status = normalise_facts(import, draft, set, error);
        if (status == STATUS_OK)
            status = change_set_check(set, error); /* before the capacity hides a double id */
        if (status == STATUS_OK)
            status = select_facts(import, draft, set, error);
        import->kept = set->upsert_count;
        if (status == STATUS_OK)
            status = remove_others(import, draft, set, error);
    }
    return status == STATUS_OK ? add_summaries(import, draft, set, error) : status;
}

static enum status run(struct import *import, struct write_result *ret, bool *ret_unmigrated,
                       struct error *error)
{
    const struct write_request how = {
        .has_agent = true,
        .need = import->facts ? WRITE_SOURCE_RELISTED : WRITE_SOURCE_SOME,
        .retries = true,
        .build = build,
        .context = import,
    };

    *ret_unmigrated = false;
    return import->is_dry ? deermem_write_try(&import->write, &how, ret, ret_unmigrated, error)
                          : deermem_write_run(&import->write, &how, ret, error);
}

/* Facts that were written and whose ids were not there before. */
static size_t count_added(const struct import *import, const json_t *upserted)
{
    const json_t *fact;
    size_t count = 0;
    size_t i;

    json_array_foreach(upserted, i, fact)
    {
        const char *id = json_string_value(json_object_get(fact, "id"));
        count += id && !json_object_get(import->stored, id);
    }
    return count;
}

static void append_counts(const struct import *import, const struct write_result *written,
                          struct text *result)
{
    size_t imported = json_array_size(written->upserted);
    size_t added = count_added(import, written->upserted);

    text_append_format(result,
                       "{\"dry_run\":%s,\"imported\":%zu,\"added\":%zu,\"replaced\":%zu,"
                       "\"unchanged\":%zu,\"deleted\":%zu,\"evicted\":",
                       import->is_dry ? "true" : "false", imported, added, imported - added,
                       import->kept - imported, json_array_size(written->deleted));
    json_text_write(result, import->evicted);
    text_append_string(result, ",\"replaced_summaries\":");
    json_text_write(result, import->replaced_summaries);
    text_append_string(result, ",\"added_summaries\":");
    json_text_write(result, import->added_summaries);
    text_append_char(result, ',');
    deermem_write_common(result, written);
}

/* Without facts in the document those that are stored do not matter, readable or not. */
static enum status append_kept(const struct import *import, struct text *result,
                               struct error *error)
{
    const struct backend_call *call = import->write.call;
    AUTO_JSON json_t *agents = import->facts ? json_pack("[s]", call->scope->agent) : json_array();

    return agents ? deermem_append_kept(import->write.backend, call, agents, result, error)
                  : no_memory(error);
}

enum status deermem_import_memory(struct backend *backend, const struct backend_call *call,
                                  struct text *result, struct error *error)
{
    AUTO_IMPORT struct import import = {.write = {.backend = backend, .call = call}};
    AUTO_WRITE_RESULT struct write_result written = {0};
    bool is_unmigrated;

    enum status status = take_document(call, &import, error);
    if (status == STATUS_OK)
        status = run(&import, &written, &is_unmigrated, error);
    if (status != STATUS_OK)
        return status;
    append_counts(&import, &written, result);
    if (is_unmigrated)
        text_append_string(result, ",\"unmigrated\":true");
    status = append_kept(&import, result, error);
    if (status == STATUS_OK)
        status = deermem_append_memory(backend, call, result, error);
    return deermem_end_answer(result, status, import.is_dry ? NULL : &written, error);
}
