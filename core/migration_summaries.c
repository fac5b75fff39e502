#include "core/migration_summaries.h"

#include <stdio.h>
#include <string.h>

static enum status refuse(char cause[ERROR_MESSAGE_MAX], const char *part, const char *name,
                          const char *fault)
{
    (void) snprintf(cause, ERROR_MESSAGE_MAX, "%s%s%.100s %s", part, name ? "." : "",
                    name ? name : "", fault);
    return STATUS_CONFLICT;
}

/* The text of a section; NULL when it has none. */
static const json_t *text_of(const json_t *section)
{
    const json_t *summary = json_object_get(section, "summary");

    return summary && !json_is_null(summary) &&
                   !(json_is_string(summary) && json_string_length(summary) == 0)
               ? summary
               : NULL;
}

/* Adds a section that the user lacks. */
static enum status merge_section(const char *part, const char *name, json_t *section,
                                 const json_t *user_part, json_t *ret,
                                 char cause[ERROR_MESSAGE_MAX])
{
    const json_t *text = text_of(section);
    const json_t *user_text = text_of(json_object_get(user_part, name));

    if (json_is_null(section))
        return STATUS_OK;
    if (!json_is_object(section))
        return refuse(cause, part, name, "is no mapping");
    if (!text)
        return STATUS_OK;
    if (user_text)
        return json_equal(text, user_text)
                   ? STATUS_OK
                   : refuse(cause, part, name, "is not what the user's manifest has");
    return json_object_set_nocheck(ret, name, section) == 0 ? STATUS_OK : STATUS_NO_MEMORY;
}

static enum status merge_part(const char *part, const json_t *user, json_t *agent, json_t *ret,
                              char cause[ERROR_MESSAGE_MAX])
{
    AUTO_JSON json_t *sections = json_object();
    const json_t *user_part = json_object_get(user, part);
    json_t *agent_part = json_object_get(agent, part);
    enum status status = STATUS_OK;
    const char *name;
    json_t *section;

    if (!sections)
        return STATUS_NO_MEMORY;
    if (!agent_part || json_is_null(agent_part))
        return STATUS_OK;
    if (!json_is_object(agent_part))
        return refuse(cause, part, NULL, "is no mapping");
    json_object_foreach(agent_part, name, section)
    {
        status = merge_section(part, name, section, user_part, sections, cause);
        if (status != STATUS_OK)
            return status;
    }
    if (json_object_size(sections) > 0 && json_object_set(ret, part, sections) != 0)
        status = STATUS_NO_MEMORY;
    return status;
}

enum status migration_merge_summaries(const json_t *user, const json_t *agent, json_t **ret,
                                      char cause[ERROR_MESSAGE_MAX])
{
    AUTO_JSON json_t *summaries = json_object();

    if (!summaries)
        return STATUS_NO_MEMORY;
    enum status status = merge_part("user", user, json_unconst(agent), summaries, cause);
    if (status == STATUS_OK)
        status = merge_part("history", user, json_unconst(agent), summaries, cause);
    if (status == STATUS_OK)
        *ret = TAKE_PTR(summaries);
    return status;
}
