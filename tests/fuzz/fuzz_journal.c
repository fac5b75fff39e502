/* Any bytes as a journal: what is accepted holds nothing that could lead out of its bucket. */
#include "core/journal.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

/* Fails the run, in builds without assert() too. */
static void require(bool holds)
{
    if (!holds)
        abort();
}

static void check_old_entry(const struct journal *journal, const struct journal_old_entry *entry)
{
    bool named = false;

    require(fact_id_is_valid(entry->fact_id));
    require(strncmp(entry->path, "agents/", 7) == 0);
    require(!strstr(entry->path, "/.") && !strstr(entry->path, "//"));
    require(strlen(entry->path) + sizeof "users/" + SCOPE_NAME_MAX < SCOPE_PATH_MAX);
    require(journal_find_old(journal, entry->fact_id) == entry);
    for (size_t i = 0; i < journal->fact_count && !named; i++)
        named = strcmp(journal->fact_ids[i], entry->fact_id) == 0;
    require(named);
}

/* What is written of it reads back as the same journal. */
static void check_writing(const struct journal *journal)
{
    AUTO_TEXT struct text first = {0};
    AUTO_TEXT struct text second = {0};
    AUTO_JOURNAL struct journal *again = NULL;

    journal_write(journal, &first);
    require(journal_parse(first.bytes, first.size, &again, NULL) == STATUS_OK);
    journal_write(again, &second);
    require(strcmp(first.bytes, second.bytes) == 0);
    require(again->fact_count == journal->fact_count && again->old_count == journal->old_count);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    AUTO_JOURNAL struct journal *journal = NULL;
    struct error error = {0};

    if (journal_parse((const char *) bytes, size, &journal, &error)) {
        require(!journal);
        return 0;
    }
    require(journal->operation_id[0] && !strpbrk(journal->operation_id, "./"));
    require(journal->has_agent || journal->fact_count == 0);
    for (size_t i = 0; i < journal->fact_count; i++)
        require(fact_id_is_valid(journal->fact_ids[i]));
    for (size_t i = 0; i < journal->old_count; i++)
        check_old_entry(journal, &journal->old_entries[i]);
    check_writing(journal);
    return 0;
}
