#include "core/refresh_report.h"

#include "core/log.h"

#include <stdio.h>
#include <string.h>

#define LINES_MAX 20 /* of one refresh; list_facts tells them all */

/* Files come after directories. */
static int compare_file(const void *path, const void *entry_address)
{
    const struct seen_entry *entry = entry_address;

    return entry->is_dir ? 1 : strcmp(path, entry->path);
}

static bool was_told(const struct seen_list *before, const struct seen_entry *entry)
{
    const struct seen_entry *old = before->count == 0
                                       ? NULL
                                       : bsearch(entry->path, before->entries, before->count,
                                                 sizeof *before->entries, compare_file);

    return old && old->fault == entry->fault && old->digest == entry->digest;
}

static void full_path(const struct scope *scope, const char *path, char ret[2 * SCOPE_PATH_MAX])
{
    char facts[SCOPE_PATH_MAX];

    scope_facts_path(scope, facts);
    (void) snprintf(ret, 2 * SCOPE_PATH_MAX, "%s/%s", facts, path);
}

void refresh_report_files(const struct scope *scope, const struct seen_list *before,
                          const struct plan_result *result)
{
    char path[2 * SCOPE_PATH_MAX];
    size_t count = 0;

    for (size_t i = 0; i < result->seen_count; i++) {
        const struct seen_entry *entry = &result->seen[i];
        if (entry->is_dir || entry->fault == FACT_FAULT_NONE || was_told(before, entry) ||
            ++count > LINES_MAX)
            continue;
        full_path(scope, entry->path, path);
        log_warning(entry->fault == FACT_FAULT_FOREIGN ? "fact.foreign" : "fact.broken",
                    "path=%s reason=%s", LOG_VALUE(path), LOG_VALUE(entry->problem));
    }
    for (size_t i = 0; i < result->put_count; i++) {
        if (!result->put[i].fact->duplicate_key || ++count > LINES_MAX)
            continue;
        full_path(scope, result->put[i].path, path);
        log_warning("fact.duplicate_key", "path=%s what=\"the last one counts\"", LOG_VALUE(path));
    }
    if (count > LINES_MAX)
        log_warning("fact.more", "user=%s agent=%s files=%zu",
                    LOG_VALUE(scope->has_user ? scope->user : NULL), scope->agent,
                    count - LINES_MAX);
}
