/* import_plan.c - counts beforehand. The agent decides; somebody else may write in between. */
#include "ipc/cli/import_plan.h"

#include <string.h>

static const char *const sections[] = {"user", "history"};

static const char *refuse_facts(const json_t *facts)
{
    if (!facts)
        return NULL;
    if (!json_is_array(facts))
        return "its member facts is no list";
    for (size_t i = 0; i < json_array_size(facts); i++) {
        if (!json_is_object(json_array_get(facts, i)))
            return "not every one of its facts is an object";
    }
    return NULL;
}

const char *import_plan_refuse(const json_t *document)
{
    bool has_some = json_object_get(document, "facts") != NULL;

    if (!json_is_object(document))
        return "it is no object, as `memsync export` prints one";
    for (size_t i = 0; i < ARRAY_SIZE(sections); i++) {
        const json_t *section = json_object_get(document, sections[i]);
        if (section && !json_is_object(section))
            return i == 0 ? "its member user is no object" : "its member history is no object";
        has_some = has_some || section;
    }
    if (!has_some && json_is_object(json_object_get(document, "memory")))
        return "it is a whole answer of the agent; its member memory is what can be imported "
               "(`memsync export` without --json prints that)";
    if (!has_some)
        return "it has none of the members facts, user and history";
    return refuse_facts(json_object_get(document, "facts"));
}

/* A fact without what an import does not take from the document: what every write sets, the scope,
 * which is the one that is imported to, and the time of creation, which a stored fact keeps. */
static json_t *without_stamps(const json_t *fact)
{
    static const char *const stamps[] = {"revision", "updatedAt", "createdAt", "scope"};
    json_t *copy = json_copy(json_unconst(fact));

    for (size_t i = 0; i < ARRAY_SIZE(stamps); i++)
        (void) json_object_del(copy, stamps[i]);
    return copy;
}

static bool is_same_fact(const json_t *a, const json_t *b)
{
    AUTO_JSON json_t *left = without_stamps(a);
    AUTO_JSON json_t *right = without_stamps(b);

    return left && right && json_equal(left, right);
}

/* An object from id to fact; the caller owns it. Of several with an id the last one counts. */
static json_t *by_id(const json_t *facts)
{
    AUTO_JSON json_t *map = json_object();

    for (size_t i = 0; map && i < json_array_size(facts); i++) {
        json_t *fact = json_array_get(facts, i);
        const char *id = json_string_value(json_object_get(fact, "id"));
        if (id && json_object_set(map, id, fact) < 0)
            return NULL;
    }
    return TAKE_PTR(map);
}

static bool count_facts(const json_t *facts, const json_t *stored, struct import_plan *plan)
{
    AUTO_JSON json_t *incoming = by_id(facts);
    AUTO_JSON json_t *before = by_id(stored);
    const char *id;
    json_t *fact;

    if (!incoming || !before)
        return false;
    json_object_foreach(before, id, fact)
    {
        const json_t *other = json_object_get(incoming, id);
        if (!other)
            plan->deleted++;
        else if (is_same_fact(fact, other))
            plan->unchanged++;
        else
            plan->replaced++;
    }
    plan->incoming = json_array_size(facts);
    size_t known = plan->unchanged + plan->replaced;
    plan->added = plan->incoming > known ? plan->incoming - known : 0;
    return true;
}

/* The text of a section; one that is text itself, as some programs write it, counts too. */
static const json_t *text_of(const json_t *section)
{
    return json_is_string(section) ? section : json_object_get(section, "summary");
}

/* Notes a summary that has a text and would get another one. One without a text erases nothing. */
static bool note_section(const char *section, const char *name, const json_t *entry,
                         const json_t *stored, struct import_plan *plan)
{
    const json_t *text = text_of(stored);
    const json_t *incoming = text_of(entry);

    if (json_string_length(text) == 0 || json_string_length(incoming) == 0 ||
        json_equal(text, incoming))
        return true;
    json_t *line = json_sprintf("%s.%s", section, name);
    return json_array_append_new(plan->sections, line) == 0;
}

static bool note_sections(const json_t *document, const json_t *memory, struct import_plan *plan)
{
    plan->sections = json_array();
    for (size_t i = 0; i < ARRAY_SIZE(sections); i++) {
        json_t *section = json_object_get(document, sections[i]);
        const json_t *stored = json_object_get(memory, sections[i]);
        const char *name;
        json_t *entry;
        json_object_foreach(section, name, entry)
        {
            if (!note_section(sections[i], name, entry, json_object_get(stored, name), plan))
                return false;
        }
    }
    return plan->sections != NULL;
}

bool import_plan_make(const json_t *document, const json_t *memory, struct import_plan *ret)
{
    const json_t *facts = json_object_get(document, "facts");
    const json_t *stored = json_object_get(memory, "facts");

    *ret = (struct import_plan){.has_facts = facts != NULL, .now = json_array_size(stored)};
    if (note_sections(document, memory, ret) && (!facts || count_facts(facts, stored, ret)))
        return true;
    import_plan_release(ret);
    return false;
}

void import_plan_release(struct import_plan *plan)
{
    json_decref(plan->sections);
    plan->sections = NULL;
}

bool import_plan_destroys(const struct import_plan *plan)
{
    return plan->deleted > 0 || plan->replaced > 0 || json_array_size(plan->sections) > 0;
}

static const char *plural(size_t count)
{
    return count == 1 ? "" : "s";
}

void import_plan_describe(FILE *file, const struct import_plan *plan)
{
    size_t count = json_array_size(plan->sections);

    if (plan->has_facts)
        (void) fprintf(file,
                       "facts now: %zu, in the document: %zu; this adds %zu, replaces %zu, leaves "
                       "%zu and deletes %zu",
                       plan->now, plan->incoming, plan->added, plan->replaced, plan->unchanged,
                       plan->deleted);
    else
        (void) fprintf(file, "the document has no member facts, so the %zu fact%s stay", plan->now,
                       plural(plan->now));
    if (count > 0)
        (void) fprintf(file, "; it replaces the text of %zu summar%s:", count,
                       count == 1 ? "y" : "ies");
    for (size_t i = 0; i < count; i++)
        (void) fprintf(file, "%s%s", i > 0 ? ", " : " ",
                       json_string_value(json_array_get(plan->sections, i)));
}

json_t *import_plan_json(const struct import_plan *plan)
{
    return json_pack("{s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:O}", "dry_run", 1, "now",
                     (json_int_t) plan->now, "incoming", (json_int_t) plan->incoming, "added",
                     (json_int_t) plan->added, "replaced", (json_int_t) plan->replaced, "unchanged",
                     (json_int_t) plan->unchanged, "deleted", (json_int_t) plan->deleted,
                     "summaries", plan->sections);
}
