#include "core/legacy_reading.h"

#include <stdio.h>
#include <string.h>

#define DEPTH_MAX 8 /* directories below its facts */

static enum status read_lead_directory(struct legacy_reading *reading, const char *path,
                                       unsigned depth);

/* The id of a fact file's name in `ret`, or false. */
static bool fact_id_of(const char *name, char ret[FACT_ID_MAX + 1])
{
    size_t length = strlen(name);

    if (length < 4 || length - 3 > FACT_ID_MAX || strcmp(name + length - 3, ".md") != 0)
        return false;
    memcpy(ret, name, length - 3);
    ret[length - 3] = '\0';
    return fact_id_is_valid(ret);
}

static enum status read_lead_entry(struct legacy_reading *reading, const char *directory,
                                   const struct listing_entry *entry, unsigned depth)
{
    char id[FACT_ID_MAX + 1];
    AUTO_TEXT struct text path = {0};

    text_append_format(&path, "%s/%s", directory, entry->name);
    if (!text_ok(&path))
        return STATUS_NO_MEMORY;
    if (entry->is_dir && entry->name[0] != '.' && depth < DEPTH_MAX)
        return read_lead_directory(reading, path.bytes, depth + 1);
    reading->collect->found = true;
    if (entry->is_file && fact_id_of(entry->name, id))
        return legacy_read_fact_file(reading, path.bytes, id, NULL);
    return legacy_collect_problem(reading->collect, path.bytes,
                                  "the earlier default agent holds something unexpected");
}

static enum status read_lead_directory(struct legacy_reading *reading, const char *path,
                                       unsigned depth)
{
    const struct listing *listing = NULL;
    enum status status = legacy_files_list(reading->files, path, &listing, reading->error);

    for (size_t i = 0; !status && i < listing->count; i++)
        status = read_lead_entry(reading, path, &listing->entries[i], depth);
    return status;
}

/* Nothing but facts belongs there; a real agent of that name has a configuration. */
enum status legacy_read_lead(struct legacy_reading *reading)
{
    char path[SCOPE_PATH_MAX];
    const struct listing *listing = NULL;

    enum status status = legacy_list_agent(reading, SCOPE_LEGACY_AGENT, path, &listing);
    if (status || !legacy_is_possible(reading->scope, NULL, NULL, listing))
        return status;
    reading->collect->has_lead = true;
    for (size_t i = 0; !status && i < listing->count; i++) {
        const struct listing_entry *entry = &listing->entries[i];
        AUTO_TEXT struct text below = {0};

        text_append_format(&below, "%s/%s", path, entry->name);
        if (!text_ok(&below))
            return STATUS_NO_MEMORY;
        if (entry->is_dir && strcmp(entry->name, "facts") == 0) {
            status = read_lead_directory(reading, below.bytes, 0);
            continue;
        }
        reading->collect->found = true;
        status = legacy_collect_problem(reading->collect, below.bytes,
                                        "the earlier default agent holds something unexpected");
    }
    return status;
}
