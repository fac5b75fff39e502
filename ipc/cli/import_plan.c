/* import_plan.c - the agent counts, since it alone knows what it takes for equal and has room for.
 */
#include "ipc/cli/import_plan.h"

#include "ipc/cli/screen.h"

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

static size_t number(const json_t *answer, const char *name)
{
    json_int_t value = json_integer_value(json_object_get(answer, name));

    return value > 0 ? (size_t) value : 0;
}

struct import_plan import_plan_read(const json_t *document, const json_t *answer)
{
    const json_t *facts = json_object_get(document, "facts");

    return (struct import_plan){
        .has_facts = facts != NULL,
        .incoming = json_array_size(facts),
        .added = number(answer, "added"),
        .replaced = number(answer, "replaced"),
        .unchanged = number(answer, "unchanged"),
        .deleted = number(answer, "deleted"),
        .left_out = json_array_size(json_object_get(answer, "evicted")),
        .is_unmigrated = json_is_true(json_object_get(answer, "unmigrated")),
        .sections = json_object_get(answer, "replaced_summaries"),
        .new_sections = json_object_get(answer, "added_summaries"),
    };
}

/* Texts of a memory that has yet to be migrated may be ones that the agent does not count. */
bool import_plan_destroys(const struct import_plan *plan)
{
    return plan->deleted > 0 || plan->replaced > 0 || plan->left_out > 0 || plan->is_unmigrated ||
           json_array_size(plan->sections) > 0;
}

static void describe_facts(FILE *file, const struct import_plan *plan)
{
    (void) fprintf(file,
                   "facts now: %zu, in the document: %zu; this adds %zu, replaces %zu, leaves "
                   "%zu and deletes %zu",
                   plan->replaced + plan->unchanged + plan->deleted, plan->incoming, plan->added,
                   plan->replaced, plan->unchanged, plan->deleted);
    if (plan->left_out > 0)
        (void) fprintf(file, "; %zu of the document %s left out, for lack of room", plan->left_out,
                       plan->left_out == 1 ? "is" : "are");
}

static void describe_summaries(FILE *file, const json_t *names, const char *verb)
{
    size_t count = json_array_size(names);

    if (count > 0)
        (void) fprintf(file, "; it %s the text of %zu summar%s:", verb, count,
                       count == 1 ? "y" : "ies");
    for (size_t i = 0; i < count; i++) {
        const json_t *name = json_array_get(names, i);
        AUTO_FREE char *line = screen_line(json_string_value(name), json_string_length(name), true);
        (void) fprintf(file, "%s%s", i > 0 ? ", " : " ", line ? line : "?");
    }
}

void import_plan_describe(FILE *file, const struct import_plan *plan)
{
    if (plan->has_facts)
        describe_facts(file, plan);
    else
        (void) fputs("the document has no member facts, so those that are there stay", file);
    describe_summaries(file, plan->sections, "replaces");
    describe_summaries(file, plan->new_sections, "adds");
    if (plan->is_unmigrated)
        (void) fputs("; the memory is brought into the present format first", file);
}
