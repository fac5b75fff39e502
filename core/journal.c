#include "core/journal.h"

#include "core/json_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* A path of an old entry must still fit behind users/<bucket>/. */
#define OLD_PATH_MAX (SCOPE_PATH_MAX - SCOPE_NAME_MAX - 8)

static enum status refuse(struct error *error, const char *problem)
{
    if (error) {
        error->status = STATUS_CORRUPT;
        error->sys_errno = 0;
        (void) snprintf(error->message, sizeof error->message, "%s", problem);
    }
    return STATUS_CORRUPT;
}

/* The text of a string without NUL inside; NULL for anything else. */
static const char *plain_string(const json_t *value)
{
    const char *text = json_string_value(value);

    return text && strlen(text) == json_string_length(value) ? text : NULL;
}

bool journal_operation_id_is_valid(const char *text)
{
    size_t length = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                 "0123456789_-");

    return length > 0 && length <= SCOPE_NAME_MAX && text[length] == '\0';
}

/* Short enough, plain, and without characters that no name of ours has. */
static bool is_plain_path(const char *path)
{
    if (strlen(path) > OLD_PATH_MAX)
        return false;
    for (const char *at = path; *at; at++) {
        if ((unsigned char) *at < 0x20 || *at == 0x7f)
            return false;
    }
    return relative_path_is_plain(path);
}

/* A misplaced fact file may lie in any shard or deeper, but never outside its agent's facts. */
static bool is_fact_path(const char *path, const char *agent, const char *fact_id)
{
    char prefix[SCOPE_NAME_MAX + 32];
    char name[FACT_ID_MAX + 8];

    (void) snprintf(prefix, sizeof prefix, "agents/%s/facts/", agent);
    (void) snprintf(name, sizeof name, "%s.md", fact_id);
    if (strncmp(path, prefix, strlen(prefix)) != 0 || !is_plain_path(path))
        return false;
    return strcmp(strrchr(path, '/') + 1, name) == 0;
}

/* ---- members ---- */

static enum status read_head(const json_t *root, struct journal *journal, struct error *error)
{
    const char *operation_id = plain_string(json_object_get(root, "operationId"));
    const char *state = plain_string(json_object_get(root, "state"));

    if (!operation_id || !journal_operation_id_is_valid(operation_id))
        return refuse(error, "operationId is no plain name");
    if (!state || (strcmp(state, "prepared") != 0 && strcmp(state, "committed") != 0))
        return refuse(error, "state is neither prepared nor committed");
    journal->state = strcmp(state, "prepared") == 0 ? JOURNAL_PREPARED : JOURNAL_COMMITTED;
    journal->operation_id = strdup(operation_id);
    return journal->operation_id ? STATUS_OK : STATUS_NO_MEMORY;
}

static enum status read_agent(const json_t *root, struct journal *journal, struct error *error)
{
    const json_t *value = json_object_get(root, "agentName");
    const char *agent = plain_string(value);

    if (!value || json_is_null(value))
        return STATUS_OK;
    if (!agent || scope_agent_fold(agent, journal->agent, NULL) != STATUS_OK)
        return refuse(error, "agentName is no agent's name");
    journal->has_agent = true;
    return STATUS_OK;
}

static enum status read_revisions(const json_t *root, struct journal *journal, struct error *error)
{
    const json_t *expected = json_object_get(root, "expectedRevision");
    const json_t *next = json_object_get(root, "nextRevision");

    if (!json_is_integer(expected))
        return refuse(error, "expectedRevision is no integer");
    if (!json_is_integer(next))
        return refuse(error, "nextRevision is no integer");
    journal->expected_revision = json_integer_value(expected);
    journal->next_revision = json_integer_value(next);
    return STATUS_OK;
}

static enum status read_fact_ids(const json_t *root, struct journal *journal, struct error *error)
{
    const json_t *ids = json_object_get(root, "factIds");
    size_t count = json_array_size(ids);

    if (!json_is_array(ids))
        return refuse(error, "factIds is no list");
    if (count > 0 && !journal->has_agent)
        return refuse(error, "factIds without agentName");
    journal->fact_ids = calloc(count + 1, sizeof *journal->fact_ids);
    if (!journal->fact_ids)
        return STATUS_NO_MEMORY;
    for (size_t i = 0; i < count; i++) {
        const char *id = plain_string(json_array_get(ids, i));
        if (!id || !fact_id_is_valid(id))
            return refuse(error, "factIds holds what is no fact id");
        journal->fact_ids[i] = strdup(id);
        if (!journal->fact_ids[i])
            return STATUS_NO_MEMORY;
        journal->fact_count++;
    }
    return STATUS_OK;
}

static enum status add_old_entry(struct journal *journal, const char *id, const json_t *value,
                                 struct error *error)
{
    const char *path = plain_string(json_object_get(value, "path"));
    struct journal_old_entry *entry = &journal->old_entries[journal->old_count];

    if (!fact_id_is_valid(id))
        return refuse(error, "oldEntries holds what is no fact id");
    if (!path || !is_fact_path(path, journal->agent, id))
        return refuse(error, "the path of an old entry is not the fact's own");
    entry->fact_id = strdup(id);
    entry->path = strdup(path);
    journal->old_count++; /* counted even when half made, so that it is released */
    return entry->fact_id && entry->path ? STATUS_OK : STATUS_NO_MEMORY;
}

static enum status read_old_entries(json_t *root, struct journal *journal, struct error *error)
{
    json_t *entries = json_object_get(root, "oldEntries");
    const char *id = NULL;
    json_t *value = NULL;

    if (!json_is_object(entries))
        return refuse(error, "oldEntries is no mapping");
    journal->old_entries = calloc(json_object_size(entries) + 1, sizeof *journal->old_entries);
    if (!journal->old_entries)
        return STATUS_NO_MEMORY;
    json_object_foreach(entries, id, value)
    {
        enum status status = add_old_entry(journal, id, value, error);
        if (status)
            return status;
    }
    return STATUS_OK;
}

/* ---- order ---- */

static int compare_ids(const void *a, const void *b)
{
    return strcmp(*(char *const *) a, *(char *const *) b);
}

static int compare_entries(const void *a, const void *b)
{
    const struct journal_old_entry *left = a;
    const struct journal_old_entry *right = b;

    return strcmp(left->fact_id, right->fact_id);
}

/* Sorts the old entries; each fact may be named once, and only those named may have an entry. */
static enum status check_ids(struct journal *journal, struct error *error)
{
    AUTO_FREE char **sorted = calloc(journal->fact_count + 1, sizeof *sorted);

    if (!sorted)
        return STATUS_NO_MEMORY;
    memcpy(sorted, journal->fact_ids, journal->fact_count * sizeof *sorted);
    qsort(sorted, journal->fact_count, sizeof *sorted, compare_ids);
    for (size_t i = 1; i < journal->fact_count; i++) {
        if (strcmp(sorted[i - 1], sorted[i]) == 0)
            return refuse(error, "factIds names a fact twice");
    }

    qsort(journal->old_entries, journal->old_count, sizeof *journal->old_entries, compare_entries);
    for (size_t i = 0; i < journal->old_count; i++) {
        if (!bsearch(&journal->old_entries[i].fact_id, sorted, journal->fact_count, sizeof *sorted,
                     compare_ids))
            return refuse(error, "oldEntries names a fact that factIds does not");
    }
    return STATUS_OK;
}

const struct journal_old_entry *journal_find_old(const struct journal *journal, const char *fact_id)
{
    size_t low = 0;
    size_t high = journal->old_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(journal->old_entries[middle].fact_id, fact_id);
        if (order == 0)
            return &journal->old_entries[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

/* ---- the whole ---- */

static void forget_body(struct journal *journal)
{
    for (size_t i = 0; i < journal->fact_count; i++)
        free(journal->fact_ids[i]);
    free(journal->fact_ids);
    for (size_t i = 0; i < journal->old_count; i++) {
        free(journal->old_entries[i].fact_id);
        free(journal->old_entries[i].path);
    }
    free(journal->old_entries);
    *journal = (struct journal){.operation_id = journal->operation_id, .state = journal->state};
}

static enum status read_body(json_t *root, struct journal *journal, struct error *error)
{
    enum status status = read_agent(root, journal, error);

    if (!status)
        status = read_revisions(root, journal, error);
    if (!status)
        status = read_fact_ids(root, journal, error);
    if (!status)
        status = read_old_entries(root, journal, error);
    if (!status)
        status = check_ids(journal, error);
    return status;
}

/* A committed journal is only cleaned up, for which its head is enough. */
static enum status read_all(json_t *root, struct journal *journal, struct error *error)
{
    enum status status = read_head(root, journal, error);

    if (status)
        return status;
    if (journal->state == JOURNAL_PREPARED)
        return read_body(root, journal, error);
    status = read_body(root, journal, NULL);
    if (status == STATUS_CORRUPT) {
        forget_body(journal);
        return STATUS_OK;
    }
    return status;
}

enum status journal_parse(const char *bytes, size_t size, struct journal **ret, struct error *error)
{
    AUTO_JSON json_t *root = NULL;
    AUTO_JOURNAL struct journal *journal = NULL;

    if (size > JOURNAL_BYTES_MAX)
        return refuse(error, "the journal is too large");
    enum status status = json_text_read(bytes, size, JSON_TEXT_DEPTH_MAX, &root, error);
    if (status)
        return status;
    if (!json_is_object(root))
        return refuse(error, "the journal is no JSON object");

    journal = calloc(1, sizeof *journal);
    if (!journal)
        return STATUS_NO_MEMORY;
    status = read_all(root, journal, error);
    if (!status)
        *ret = TAKE_PTR(journal);
    return status;
}

void journal_destroy(struct journal **journal)
{
    if (!*journal)
        return;
    forget_body(*journal);
    free((*journal)->operation_id);
    free(*journal);
    *journal = NULL;
}

/* ---- writing ---- */

static void append_fact_ids(struct text *text, const struct journal *journal)
{
    text_append_string(text, "  \"factIds\": [");
    for (size_t i = 0; i < journal->fact_count; i++)
        text_append_format(text, "%s\n    \"%s\"", i > 0 ? "," : "", journal->fact_ids[i]);
    text_append_string(text, journal->fact_count > 0 ? "\n  ]" : "]");
}

static void append_old_entry(struct text *text, const struct journal_old_entry *entry)
{
    text_append_format(text, "\n    \"%s\": {\n      \"path\": ", entry->fact_id);
    json_text_write_string(text, entry->path, strlen(entry->path));
    text_append_string(text, "\n    }");
}

static void append_old_entries(struct text *text, const struct journal *journal)
{
    text_append_string(text, ",\n  \"oldEntries\": {");
    for (size_t i = 0; i < journal->old_count; i++) {
        text_append_string(text, i > 0 ? "," : "");
        append_old_entry(text, &journal->old_entries[i]);
    }
    text_append_string(text, journal->old_count > 0 ? "\n  }" : "}");
}

/* Names and ids need no escapes by their grammars. */
void journal_write(const struct journal *journal, struct text *text)
{
    const char *quote = journal->has_agent ? "\"" : "";

    text_append_format(text,
                       "{\n  \"operationId\": \"%s\",\n  \"state\": \"%s\",\n"
                       "  \"agentName\": %s%s%s,\n  \"expectedRevision\": %" PRId64
                       ",\n  \"nextRevision\": %" PRId64 ",\n",
                       journal->operation_id,
                       journal->state == JOURNAL_PREPARED ? "prepared" : "committed", quote,
                       journal->has_agent ? journal->agent : "null", quote,
                       journal->expected_revision, journal->next_revision);
    append_fact_ids(text, journal);
    append_old_entries(text, journal);
    text_append_string(text, "\n}");
}
