#include "core/journal.h"
#include "core/text.h"
#include "tests/support/shared.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <string.h>

/* Criterion's macros convert, and their strings are not const. */
#pragma GCC diagnostic ignored "-Wconversion"

static char *plain(const char *text)
{
    return (char *) (uintptr_t) text;
}

static enum status parse(const char *text, struct journal **ret)
{
    struct error error = {.path = "kept"};
    enum status status = journal_parse(text, strlen(text), ret, &error);

    cr_expect(eq(str, error.path, plain("kept")), "%s", text);
    cr_expect(eq(int, error.message[0] != '\0', status == STATUS_CORRUPT), "%s", text);
    return status;
}

Test(journal, tells_what_a_commit_is_about_to_do)
{
    AUTO_JOURNAL struct journal *journal = NULL;

    cr_assert(
        eq(int,
           parse("{\"operationId\": \"0f-A_9\", \"state\": \"prepared\", \"agentName\": \"Desk-B\","
                 "\"expectedRevision\": 3, \"nextRevision\": 4, \"later\": [1],"
                 "\"factIds\": [\"f_z\", \"f_b\", \"f_a\", \"f_new\"], \"oldEntries\": {"
                 "\"f_z\": {\"path\": \"agents/desk-b/facts/00/f_z.md\", \"more\": 1},"
                 "\"f_a\": {\"path\": \"agents/desk-b/facts/f_a.md\"},"
                 "\"f_b\": {\"path\": \"agents/desk-b/facts/x/y/f_b.md\"}}}",
                 &journal),
           STATUS_OK));
    cr_expect(eq(str, journal->operation_id, plain("0f-A_9")));
    cr_expect(eq(int, journal->state, JOURNAL_PREPARED));
    cr_expect(journal->has_agent);
    cr_expect(eq(str, journal->agent, plain("desk-b")));
    cr_expect(eq(i64, journal->expected_revision, 3));
    cr_expect(eq(i64, journal->next_revision, 4));
    cr_assert(eq(sz, journal->fact_count, 4));
    cr_expect(eq(str, journal->fact_ids[0], plain("f_z")));
    cr_expect(eq(str, journal->fact_ids[3], plain("f_new")));
    cr_assert(eq(sz, journal->old_count, 3));
    cr_expect(eq(ptr, (void *) (uintptr_t) journal_find_old(journal, "f_new"), NULL));
    cr_expect(eq(ptr, (void *) (uintptr_t) journal_find_old(journal, "f_"), NULL));
    cr_expect(
        eq(str, journal_find_old(journal, "f_z")->path, plain("agents/desk-b/facts/00/f_z.md")));
    cr_expect(eq(str, journal_find_old(journal, "f_a")->path, plain("agents/desk-b/facts/f_a.md")));
    cr_expect(
        eq(str, journal_find_old(journal, "f_b")->path, plain("agents/desk-b/facts/x/y/f_b.md")));
}

Test(journal, of_summaries_alone_has_no_agent)
{
    static const char *const texts[] = {
        "{\"operationId\":\"a\",\"state\":\"prepared\",\"agentName\":null,\"expectedRevision\":-1,"
        "\"nextRevision\":0,\"factIds\":[],\"oldEntries\":{}}",
        "{\"operationId\":\"a\",\"state\":\"prepared\",\"expectedRevision\":-1,"
        "\"nextRevision\":0,\"factIds\":[],\"oldEntries\":{}}",
    };

    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        AUTO_JOURNAL struct journal *journal = NULL;
        cr_assert(eq(int, parse(texts[i], &journal), STATUS_OK), "row %zu", i);
        cr_expect(not(journal->has_agent), "row %zu", i);
        cr_expect(eq(i64, journal->expected_revision, -1), "row %zu", i);
        cr_expect(eq(sz, journal->fact_count, 0), "row %zu", i);
        cr_expect(eq(ptr, (void *) (uintptr_t) journal_find_old(journal, "x"), NULL), "row %zu", i);
    }
}

/* A sound prepared journal in which one member can be replaced, or left out by NULL. */
static char *journal_with(const char *key, const char *value)
{
    static const char *const members[][2] = {
        {"operationId", "\"op1\""},
        {"state", "\"prepared\""},
        {"agentName", "\"desk\""},
        {"expectedRevision", "1"},
        {"nextRevision", "2"},
        {"factIds", "[\"f_1\",\"f_2\"]"},
        {"oldEntries", "{\"f_1\":{\"path\":\"agents/desk/facts/aa/f_1.md\"}}"},
    };
    struct text text = {0};

    for (size_t i = 0; i < ARRAY_SIZE(members); i++) {
        bool replaced = key && strcmp(members[i][0], key) == 0;
        const char *spelt = replaced ? value : members[i][1];
        if (spelt)
            text_append_format(&text, "%c\"%s\":%s", text.size ? ',' : '{', members[i][0], spelt);
    }
    text_append_char(&text, '}');
    return text_take(&text, NULL);
}

static enum status parse_with(const char *key, const char *value)
{
    AUTO_FREE char *text = journal_with(key, value);
    AUTO_JOURNAL struct journal *journal = NULL;

    return parse(text, &journal);
}

Test(journal, is_refused_when_any_part_cannot_be_trusted)
{
    const struct {
        const char *key, *value;
    } cases[] = {
        {"operationId", NULL},
        {"operationId", "null"},
        {"operationId", "5"},
        {"operationId", "\"\""},
        {"operationId", "\".\""},
        {"operationId", "\"..\""},
        {"operationId", "\"../x\""},
        {"operationId", "\"/x\""},
        {"operationId", "\"a/b\""},
        {"operationId", "\"a.b\""},
        {"operationId", "\"a b\""},
        {"operationId", "\"a\\u0000\""},
        {"operationId", "\"\xc3\xa9\""},
        {"state", NULL},
        {"state", "\"half\""},
        {"state", "\"Prepared\""},
        {"state", "\"prepared\\u0000\""},
        {"state", "true"},
        {"agentName", NULL}, /* then the facts belong to nobody */
        {"agentName", "null"},
        {"agentName", "5"},
        {"agentName", "\"\""},
        {"agentName", "\"../x\""},
        {"agentName", "\"desk\\u0000\""},
        {"agentName", "\"other\""}, /* the old path is not below it */
        {"expectedRevision", NULL},
        {"expectedRevision", "\"1\""},
        {"expectedRevision", "1.0"},
        {"expectedRevision", "true"},
        {"expectedRevision", "9223372036854775808"},
        {"nextRevision", NULL},
        {"nextRevision", "null"},
        {"factIds", NULL},
        {"factIds", "{}"},
        {"factIds", "\"f_1\""},
        {"factIds", "[\"f_1\",5]"},
        {"factIds", "[\"f_1\",\"../../f_n\"]"},
        {"factIds", "[\"f_1\",\"\"]"},
        {"factIds", "[\"f_1\",\"f_2\\u0000\"]"},
        {"factIds", "[\"f_1\",\"f_2\",\"f_1\"]"},
        {"factIds", "[\"f_2\"]"}, /* f_1 has an old entry */
        {"oldEntries", NULL},
        {"oldEntries", "null"},
        {"oldEntries", "[]"},
        {"oldEntries", "{\"f_1\":{}}"},
        {"oldEntries", "{\"f_1\":\"agents/desk/facts/aa/f_1.md\"}"},
        {"oldEntries", "{\"f_3\":{\"path\":\"agents/desk/facts/aa/f_3.md\"}}"},
        {"oldEntries", "{\"../f\":{\"path\":\"agents/desk/facts/aa/../f.md\"}}"},
        {"oldEntries", "{\"f_1\":{\"path\":\"\"}}"},
        {"oldEntries", "{\"f_1\":{\"path\":5}}"},
        {"oldEntries", "{\"f_1\":{\"path\":\"f_1.md\"}}"},
        {"oldEntries", "{\"f_1\":{\"path\":\"/agents/desk/facts/aa/f_1.md\"}}"},
        {"oldEntries", "{\"f_1\":{\"path\":\"../../outside.md\"}}"},
        {"oldEntries", "{\"f_1\":{\"path\":\"agents/desk/facts/../facts/f_1.md\"}}"},
        {"oldEntries", "{\"f_1\":{\"path\":\"agents/desk/facts/./f_1.md\"}}"},
        {"oldEntries", "{\"f_1\":{\"path\":\"agents/desk/facts//f_1.md\"}}"},
        {"oldEntries", "{\"f_1\":{\"path\":\"agents/desk/facts/.x/f_1.md\"}}"},
        {"oldEntries", "{\"f_1\":{\"path\":\"agents/desk/facts/aa/f_1.md/\"}}"},
        {"oldEntries", "{\"f_1\":{\"path\":\"agents/desk/facts/aa/f_2.md\"}}"},
        {"oldEntries", "{\"f_1\":{\"path\":\"agents/desk/facts/aa/f_1.txt\"}}"},
        {"oldEntries", "{\"f_1\":{\"path\":\"agents/desk/facts/aa/xf_1.md\"}}"},
        {"oldEntries", "{\"f_1\":{\"path\":\"agents/desk/facts/a\\na/f_1.md\"}}"},
        {"oldEntries", "{\"f_1\":{\"path\":\"agents/desk/facts/f_1.md\\u0000\"}}"},
        {"oldEntries", "{\"f_1\":{\"path\":\"agents/Desk/facts/aa/f_1.md\"}}"},
        {"oldEntries", "{\"f_1\":{\"path\":\"agents/desk/.metadata/f_1.md\"}}"},
    };

    cr_assert(eq(int, parse_with(NULL, NULL), STATUS_OK), "the pattern itself must be sound");
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        cr_expect(eq(int, parse_with(cases[i].key, cases[i].value), STATUS_CORRUPT), "%s: %s",
                  cases[i].key, cases[i].value ? cases[i].value : "left out");
}

Test(journal, is_refused_when_it_is_no_object)
{
    static const char *const texts[] = {"",
                                        "x",
                                        "[]",
                                        "null",
                                        "\"x\"",
                                        "NaN",
                                        "{",
                                        "{}",
                                        "{\"operationId\": \"op1\", \"state\"",
                                        "{\"operationId\":\"op1\",\"state\":\"prepared\"}x"};

    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        AUTO_JOURNAL struct journal *journal = NULL;
        cr_expect(eq(int, parse(texts[i], &journal), STATUS_CORRUPT), "row %zu", i);
        cr_expect(eq(ptr, journal, NULL), "row %zu", i);
    }
}

Test(journal, that_is_committed_needs_only_its_head)
{
    static const char *const rests[] = {
        "",
        ",\"agentName\":\"../x\",\"expectedRevision\":1,\"nextRevision\":2,\"factIds\":[],"
        "\"oldEntries\":{}",
        ",\"agentName\":\"desk\",\"expectedRevision\":1,\"nextRevision\":2,"
        "\"factIds\":[\"f_1\"],\"oldEntries\":{\"f_1\":{\"path\":\"/etc/f_1.md\"}}",
        ",\"agentName\":\"desk\",\"expectedRevision\":\"x\"",
    };

    for (size_t i = 0; i < ARRAY_SIZE(rests); i++) {
        AUTO_JOURNAL struct journal *journal = NULL;
        AUTO_TEXT struct text text = {0};
        text_append_format(&text, "{\"operationId\":\"op1\",\"state\":\"committed\"%s}", rests[i]);
        cr_assert(eq(int, parse(text.bytes, &journal), STATUS_OK), "row %zu", i);
        cr_expect(eq(int, journal->state, JOURNAL_COMMITTED), "row %zu", i);
        cr_expect(eq(str, journal->operation_id, plain("op1")), "row %zu", i);
        cr_expect(not(journal->has_agent), "row %zu", i);
        cr_expect(eq(sz, journal->fact_count + journal->old_count, 0), "row %zu", i);
        cr_expect(eq(i64, journal->expected_revision, 0), "row %zu", i);
    }
}

Test(journal, that_is_committed_and_sound_is_told_in_full)
{
    AUTO_FREE char *text = journal_with("state", "\"committed\"");
    AUTO_JOURNAL struct journal *journal = NULL;

    cr_assert(eq(int, parse(text, &journal), STATUS_OK));
    cr_expect(eq(int, journal->state, JOURNAL_COMMITTED));
    cr_expect(journal->has_agent);
    cr_expect(eq(sz, journal->fact_count, 2));
}

Test(journal, that_is_committed_still_needs_a_plain_operation_id)
{
    AUTO_JOURNAL struct journal *journal = NULL;

    cr_expect(eq(int, parse("{\"operationId\":\"..\",\"state\":\"committed\"}", &journal),
                 STATUS_CORRUPT));
}

Test(journal, holds_names_as_long_as_a_volume_allows)
{
    AUTO_TEXT struct text name = {0};
    AUTO_TEXT struct text value = {0};

    for (size_t i = 0; i < SCOPE_NAME_MAX; i++)
        text_append_char(&name, 'n');
    text_append_format(&value, "\"%s\"", name.bytes);
    cr_expect(eq(int, parse_with("operationId", value.bytes), STATUS_OK));
    text_clear(&value);
    text_append_format(&value, "\"%sn\"", name.bytes);
    cr_expect(eq(int, parse_with("operationId", value.bytes), STATUS_CORRUPT));
    text_clear(&value);
    text_append_format(&value, "{\"f_1\":{\"path\":\"agents/desk/facts/%s/f_1.md\"}}", name.bytes);
    cr_expect(eq(int, parse_with("oldEntries", value.bytes), STATUS_OK));
    text_clear(&value);
    text_append_format(&value, "{\"f_1\":{\"path\":\"agents/desk/facts/%sn/f_1.md\"}}", name.bytes);
    cr_expect(eq(int, parse_with("oldEntries", value.bytes), STATUS_CORRUPT));
    text_clear(&value);
    text_append_format(&value, "{\"f_1\":{\"path\":\"agents/desk/facts/%s/%s/%s/%s/f_1.md\"}}",
                       name.bytes, name.bytes, name.bytes, name.bytes);
    cr_expect(eq(int, parse_with("oldEntries", value.bytes), STATUS_CORRUPT));
}

Test(journal, with_many_facts_is_read_in_good_time, .timeout = 20)
{
    AUTO_TEXT struct text text = {0};
    AUTO_JOURNAL struct journal *journal = NULL;
    const int count = 50000;

    text_append_string(&text, "{\"operationId\":\"op\",\"state\":\"prepared\",\"agentName\":\"a\","
                              "\"expectedRevision\":1,\"nextRevision\":2,\"factIds\":[\"f_0\"");
    for (int i = 1; i < count; i++)
        text_append_format(&text, ",\"f_%d\"", i);
    text_append_string(&text, "],\"oldEntries\":{\"f_0\":{\"path\":\"agents/a/facts/f_0.md\"}");
    for (int i = 1; i < count; i++)
        text_append_format(&text, ",\"f_%d\":{\"path\":\"agents/a/facts/f_%d.md\"}", i, i);
    text_append_string(&text, "}}");

    cr_assert(eq(int, parse(text.bytes, &journal), STATUS_OK));
    cr_assert(eq(sz, journal->old_count, (size_t) count));
    for (int i = 0; i < count; i++) {
        char id[20];
        (void) snprintf(id, sizeof id, "f_%d", i);
        cr_assert(eq(str, journal_find_old(journal, id)->fact_id, id));
    }
}

/* ---- writing ---- */

static void expect_same(const struct journal *a, const struct journal *b)
{
    cr_assert(eq(str, a->operation_id, b->operation_id));
    cr_expect(eq(int, a->state, b->state));
    cr_expect(eq(int, a->has_agent, b->has_agent));
    cr_expect(strcmp(a->agent, b->agent) == 0);
    cr_expect(eq(i64, a->expected_revision, b->expected_revision));
    cr_expect(eq(i64, a->next_revision, b->next_revision));
    cr_assert(eq(sz, a->fact_count, b->fact_count));
    for (size_t i = 0; i < a->fact_count; i++)
        cr_expect(eq(str, a->fact_ids[i], b->fact_ids[i]));
    cr_assert(eq(sz, a->old_count, b->old_count));
    for (size_t i = 0; i < a->old_count; i++) {
        cr_expect(eq(str, a->old_entries[i].fact_id, b->old_entries[i].fact_id));
        cr_expect(eq(str, a->old_entries[i].path, b->old_entries[i].path));
    }
}

/* Writes what was parsed of `text`, and requires that it reads back the same. */
static void write_again(const char *text, struct text *ret)
{
    AUTO_JOURNAL struct journal *journal = NULL;
    AUTO_JOURNAL struct journal *again = NULL;

    cr_assert(eq(int, parse(text, &journal), STATUS_OK), "%s", text);
    journal_write(journal, ret);
    cr_assert(text_ok(ret));
    cr_assert(eq(int, parse(ret->bytes, &again), STATUS_OK), "%s", ret->bytes);
    expect_same(journal, again);
}

Test(journal, is_written_in_the_layout_of_the_peers)
{
    AUTO_TEXT struct text written = {0};
    AUTO_FREE char *sample = journal_with(NULL, NULL);

    write_again(sample, &written);
    cr_expect(eq(str, written.bytes,
                 plain("{\n"
                       "  \"operationId\": \"op1\",\n"
                       "  \"state\": \"prepared\",\n"
                       "  \"agentName\": \"desk\",\n"
                       "  \"expectedRevision\": 1,\n"
                       "  \"nextRevision\": 2,\n"
                       "  \"factIds\": [\n"
                       "    \"f_1\",\n"
                       "    \"f_2\"\n"
                       "  ],\n"
                       "  \"oldEntries\": {\n"
                       "    \"f_1\": {\n"
                       "      \"path\": \"agents/desk/facts/aa/f_1.md\"\n"
                       "    }\n"
                       "  }\n"
                       "}")));
}

Test(journal, is_read_back_as_it_was_written)
{
    static const char *const changes[][2] = {
        {"state", "\"committed\""},
        {"expectedRevision", "-9223372036854775808"},
        {"nextRevision", "9223372036854775807"},
        {"oldEntries", "{}"},
        {"oldEntries", "{\"f_2\":{\"path\":\"agents/desk/facts/f_2.md\"},"
                       "\"f_1\":{\"path\":\"agents/desk/facts/\\\"q\\\\/\xc3\xa9/f_1.md\"}}"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(changes); i++) {
        AUTO_TEXT struct text written = {0};
        AUTO_FREE char *text = journal_with(changes[i][0], changes[i][1]);
        write_again(text, &written);
    }
    AUTO_TEXT struct text written = {0};
    write_again("{\"operationId\":\"op\",\"state\":\"committed\",\"factIds\":5}", &written);
}

Test(journal, of_the_peers_is_written_as_they_wrote_it)
{
    static const char *const paths[] = {
        "crash-n-first-commit/volume/users/alice",
        "crash-p-summaries/volume/users/alice",
        "crash-r-root-scope/volume",
    };

    if (!shared_is_there())
        return;
    for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
        AUTO_TEXT struct text written = {0};
        AUTO_FREE char *text = shared_read(NULL, "volumes/%s/%s", paths[i], JOURNAL_NAME);
        write_again(text, &written);
        cr_expect(eq(str, written.bytes, text));
    }
}
