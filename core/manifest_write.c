#include "core/manifest_write.h"

#include "core/clock.h"
#include "core/json_text.h"

#include <string.h>

#define KNOWN_SECTIONS 3

/* The members of the manifest that hold sections of summaries, and the sections all know. */
static const struct part {
    const char *name;
    const char *sections[KNOWN_SECTIONS];
} parts[] = {
    {"user", {"workContext", "personalContext", "topOfMind"}},
    {"history", {"recentMonths", "earlierContext", "longTermBackground"}},
};

bool manifest_section_is_known(const char *part, const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
        for (size_t j = 0; j < KNOWN_SECTIONS; j++) {
            if (strcmp(parts[i].name, part) == 0 && strcmp(parts[i].sections[j], name) == 0)
                return true;
        }
    }
    return false;
}

static enum status no_memory(struct error *error)
{
    return error_set(error, STATUS_NO_MEMORY, NULL, "out of memory");
}

/* What `base` has under that name, NULL when it is no object. */
static json_t *part_of(const struct manifest *base, const struct part *part)
{
    json_t *value = base ? json_object_get(base->root, part->name) : NULL;

    return json_is_object(value) ? value : NULL;
}

static enum status check_summaries(const json_t *summaries, struct error *error)
{
    if (summaries && !json_is_object(summaries))
        return error_set(error, STATUS_INVALID, NULL, "summaries must be an object");
    for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
        const json_t *given = json_object_get(summaries, parts[i].name);
        if (given && !json_is_object(given) && !json_is_null(given))
            return error_set(error, STATUS_INVALID, NULL, "summaries.%s must be an object",
                             parts[i].name);
        if (!json_text_is_unicode(given))
            return error_set(error, STATUS_INVALID, NULL,
                             "summaries.%s holds half of a surrogate pair", parts[i].name);
    }
    return STATUS_OK;
}

/* The sections of a part after the change; NULL without memory. */
static json_t *next_part(const struct manifest *base, const struct part *part,
                         const json_t *summaries)
{
    AUTO_JSON json_t *next = json_object();
    json_t *before = part_of(base, part);
    json_t *given = json_object_get(summaries, part->name);

    for (size_t i = 0; i < KNOWN_SECTIONS; i++) {
        json_t *blank = json_pack("{s:s, s:s}", "summary", "", "updatedAt", "");
        if (json_object_set_new_nocheck(next, part->sections[i], blank) != 0)
            return NULL;
    }
    if (before && json_object_update(next, before) != 0)
        return NULL;
    if (json_is_object(given) && json_object_update(next, given) != 0)
        return NULL;
    return TAKE_PTR(next);
}

/* Adds the members that are not ours. */
static bool add_others(json_t *root, const struct manifest *base)
{
    const char *name;
    json_t *value;

    if (!base)
        return true;
    json_object_foreach(base->root, name, value)
    {
        if (strcmp(name, "facts") != 0 && !json_object_get(root, name) &&
            json_object_set_nocheck(root, name, value) != 0)
            return false;
    }
    return true;
}

/* NULL without memory. */
static json_t *next_root(const struct manifest *base, const json_t *summaries, int64_t revision,
                         uint64_t wall_ns)
{
    char now[CLOCK_TEXT_SIZE];

    clock_format(wall_ns, now);
    AUTO_JSON json_t *root = json_pack("{s:s, s:I, s:s}", "version", MANIFEST_VERSION, "revision",
                                       (json_int_t) revision, "lastUpdated", now);
    for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
        json_t *part = next_part(base, &parts[i], summaries);
        if (json_object_set_new_nocheck(root, parts[i].name, part) != 0)
            return NULL;
    }
    return add_others(root, base) ? TAKE_PTR(root) : NULL;
}

/* Readers must find the revision, and so take all the rest. */
static enum status check(const struct text *text, int64_t revision, struct error *error)
{
    int64_t read = 0;

    enum status status = manifest_scan_revision(text->bytes, text->size, &read, error);
    if (status == STATUS_CORRUPT || (status == STATUS_OK && read != revision))
        return error_set(error, STATUS_INVALID, NULL, "readers would refuse the summaries");
    return status;
}

enum status manifest_write(const struct manifest *base, const json_t *summaries, int64_t revision,
                           uint64_t wall_ns, struct text *ret, struct error *error)
{
    AUTO_TEXT struct text text = {0};
    AUTO_JSON json_t *root = NULL;

    if (base && base->layout == MANIFEST_LAYOUT_NEWER)
        return error_set(error, STATUS_UNSUPPORTED, NULL, "the manifest is of a newer version");
    enum status status = check_summaries(summaries, error);
    if (status != STATUS_OK)
        return status;
    root = next_root(base, summaries, revision, wall_ns);
    if (!root)
        return no_memory(error);
    json_text_write_pretty(&text, root);
    if (!text_ok(&text))
        return no_memory(error);
    if (text.size > MANIFEST_BYTES_MAX)
        return error_set(error, STATUS_TOO_LARGE, NULL,
                         "the manifest would be larger than %u bytes", MANIFEST_BYTES_MAX);
    status = check(&text, revision, error);
    if (status != STATUS_OK)
        return status;
    text_append(ret, text.bytes, text.size);
    return text_ok(ret) ? STATUS_OK : no_memory(error);
}

bool manifest_summaries_differ(const struct manifest *base, const json_t *others,
                               const json_t *summaries)
{
    if (check_summaries(summaries, NULL) != STATUS_OK)
        return true;
    for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
        AUTO_JSON json_t *before = next_part(base, &parts[i], others);
        AUTO_JSON json_t *after = next_part(base, &parts[i], summaries);
        if (!before || !after || !json_equal(before, after))
            return true;
    }
    return false;
}

bool manifest_summaries_change(const struct manifest *base, const json_t *summaries)
{
    return manifest_summaries_differ(base, NULL, summaries);
}

/* Adds the emptied section to `blank`; members that it lacks it does not get. */
static bool add_blank(json_t *blank, const char *name, json_t *section)
{
    static const char *const texts[] = {"summary", "updatedAt"};
    AUTO_JSON json_t *emptied = json_text_copy(section);

    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        if (json_object_get(section, texts[i]) &&
            json_object_set_new_nocheck(emptied, texts[i], json_string_nocheck("")) != 0)
            return false;
    }
    return json_object_set_nocheck(blank, name, emptied) == 0;
}

/* A section whose text is not in an object. Where readers expect one it becomes that. */
static bool add_blank_text(json_t *blank, const char *part, const char *name)
{
    json_t *emptied = manifest_section_is_known(part, name)
                          ? json_pack("{s:s, s:s}", "summary", "", "updatedAt", "")
                          : json_string_nocheck("");

    return json_object_set_new_nocheck(blank, name, emptied) == 0;
}

json_t *manifest_blank_summaries(const struct manifest *base)
{
    AUTO_JSON json_t *summaries = json_object();

    for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
        json_t *blank = json_object();
        const char *name;
        json_t *section;

        if (json_object_set_new_nocheck(summaries, parts[i].name, blank) != 0)
            return NULL;
        json_object_foreach(part_of(base, &parts[i]), name, section)
        {
            if (json_string_length(section) > 0 && !add_blank_text(blank, parts[i].name, name))
                return NULL;
            if (json_object_get(section, "summary") && !add_blank(blank, name, section))
                return NULL;
        }
    }
    return TAKE_PTR(summaries);
}
