/* core/volume_journal.h: the journal appears whole, once, and belongs to somebody. */
#include "core/volume_journal.h"

#include "core/volume_private.h"
#include "core/volume_sync_batch.h"
#include "tests/support/temp_calls.h"
#include "tests/support/temp_tree.h"
#include "tests/unit/volume_fixture.h"

#include <errno.h>

static struct temp_volume *files;
static struct volume *volume;
static int bucket_fd;
static char operation[] = "0123456789abcdef0123456789abcdef";
static char id[] = "f1";
static char *ids[] = {id};
static struct journal journal;

static void set_up(void)
{
    files = temp_volume_create();
    temp_volume_make_dir(files, "users/u");
    const struct volume_options options = {.path = temp_volume_path(files), .calls = temp_calls()};
    cr_assert(eq(int, volume_open(&options, &volume, NULL), STATUS_OK));
    cr_assert(eq(int, volume_open_dir(volume, -1, "users/u", &bucket_fd, NULL), STATUS_OK));
    journal = (struct journal){
        .operation_id = operation,
        .state = JOURNAL_PREPARED,
        .has_agent = true,
        .agent = "a",
        .expected_revision = 7,
        .next_revision = 8,
        .fact_ids = ids,
        .fact_count = 1,
    };
}

static void tear_down(void)
{
    temp_calls_reset();
    cleanup_close(&bucket_fd);
    volume_close(&volume);
    temp_volume_destroy(&files);
}

TestSuite(volume_journal, .init = set_up, .fini = tear_down);

#define JOURNAL_PATH "users/u/" JOURNAL_NAME
#define FOREIGN                                                                                    \
    "{\"operationId\": \"someone\", \"state\": \"prepared\", \"agentName\": null,"                 \
    " \"expectedRevision\": 7, \"nextRevision\": 8, \"factIds\": [], \"oldEntries\": {}}"

static void put_foreign(void)
{
    temp_volume_write(files, JOURNAL_PATH, FOREIGN, strlen(FOREIGN));
}

static enum status write_as(const char *name, enum journal_state state, struct error *error)
{
    AUTO_SYNC_BATCH struct sync_batch batch = {.volume = volume};
    struct journal written = journal;

    written.state = state;
    enum status status =
        volume_journal_write(volume, bucket_fd, name, &written, bucket_fd, &batch, error);
    if (status == STATUS_OK)
        status = sync_batch_flush(&batch, error);
    if (status != STATUS_OK)
        (void) volume_do_unlink(volume, bucket_fd, name, 0);
    return status;
}

static enum status place(struct error *error)
{
    static const char temporary[] = "." JOURNAL_NAME ".0123456789abcdef0123456789abcdef.tmp";

    enum status status = write_as(temporary, JOURNAL_PREPARED, error);
    return status == STATUS_OK
               ? volume_journal_place(volume, bucket_fd, temporary, bucket_fd, error)
               : status;
}

static enum status commit(void)
{
    enum status status = write_as("new", JOURNAL_COMMITTED, NULL);

    return status == STATUS_OK ? volume_journal_commit(volume, bucket_fd, "new", bucket_fd, NULL)
                               : status;
}

/* The journal is all that there is, and says this. */
static void expect_journal(enum journal_owner expected, int line)
{
    enum journal_owner owner;

    cr_assert(eq(int, volume_journal_owner(volume, bucket_fd, journal.operation_id, &owner, NULL),
                 STATUS_OK));
    cr_expect(eq(int, owner, expected), "line %d", line);
    cr_expect(eq(sz, temp_volume_count_files(files, "users/u"), expected != JOURNAL_NOBODYS),
              "line %d", line);
}
#define EXPECT_JOURNAL(expected) expect_journal(expected, __LINE__)

Test(volume_journal, is_placed_whole_and_alone)
{
    AUTO_JOURNAL struct journal *read = NULL;
    size_t size;

    EXPECT_JOURNAL(JOURNAL_NOBODYS);
    cr_assert(eq(int, place(NULL), STATUS_OK));
    EXPECT_JOURNAL(JOURNAL_OURS);
    AUTO_FREE char *bytes = temp_volume_read(files, JOURNAL_PATH, &size);
    cr_assert(eq(int, journal_parse(bytes, size, &read, NULL), STATUS_OK));
    cr_expect(eq(i64, read->next_revision, 8));
    cr_expect_str_eq(read->agent, "a");
    cr_assert(eq(int, commit(), STATUS_OK));
    EXPECT_JOURNAL(JOURNAL_OURS_COMMITTED);
}

Test(volume_journal, is_refused_where_one_lies)
{
    struct error error = {0};
    size_t size;

    put_foreign();
    cr_expect(eq(int, place(&error), STATUS_CONFLICT));
    cr_expect_str_eq(error.path, JOURNAL_NAME);
    EXPECT_JOURNAL(JOURNAL_SOMEBODYS);
    AUTO_FREE char *bytes = temp_volume_read(files, JOURNAL_PATH, &size);
    cr_expect_str_eq(bytes, FOREIGN);
}

Test(volume_journal, what_cannot_be_read_is_somebody_elses)
{
    enum journal_owner owner;
    struct error error = {0};

    temp_volume_write(files, JOURNAL_PATH, "", 0);
    EXPECT_JOURNAL(JOURNAL_SOMEBODYS);
    cr_expect(eq(int, place(NULL), STATUS_CONFLICT));
    temp_volume_remove(files, JOURNAL_PATH);
    cr_assert(eq(int, place(NULL), STATUS_OK));
    temp_calls_fail(TEMP_CALL_READ, "/" JOURNAL_NAME, EIO, 0, 1);
    cr_expect(eq(int, volume_journal_owner(volume, bucket_fd, journal.operation_id, &owner, &error),
                 STATUS_IO));
    cr_expect_str_eq(error.path, JOURNAL_NAME);
    temp_calls_fail(TEMP_CALL_READ, "/" JOURNAL_NAME, ESTALE, 0, 2);
    EXPECT_JOURNAL(JOURNAL_OURS);
}

/* ---- volumes without links ---- */

static const int unknown[] = {EPERM, EOPNOTSUPP, ENOSYS, EMLINK};

Test(volume_journal, without_links_is_renamed_to_where_nothing_is)
{
    for (size_t i = 0; i < ARRAY_SIZE(unknown); i++) {
        temp_calls_fail(TEMP_CALL_LINK, "/" JOURNAL_NAME, unknown[i], 0, 0);
        temp_calls_count(TEMP_CALL_RENAME_NEW, "/" JOURNAL_NAME);
        cr_assert(eq(int, place(NULL), STATUS_OK), "errno %d", unknown[i]);
        cr_expect(eq(uint, temp_calls_counted(), 1));
        EXPECT_JOURNAL(JOURNAL_OURS);
        temp_volume_remove(files, JOURNAL_PATH);
        put_foreign();
        cr_expect(eq(int, place(NULL), STATUS_CONFLICT), "errno %d", unknown[i]);
        EXPECT_JOURNAL(JOURNAL_SOMEBODYS);
        temp_volume_remove(files, JOURNAL_PATH);
        temp_calls_reset();
    }
}

Test(volume_journal, without_both_is_renamed_where_a_listing_shows_none)
{
    temp_calls_fail(TEMP_CALL_LINK, "/" JOURNAL_NAME, EPERM, 0, 0);
    temp_calls_fail(TEMP_CALL_RENAME_NEW, "/" JOURNAL_NAME, EINVAL, 0, 0);
    cr_assert(eq(int, place(NULL), STATUS_OK));
    EXPECT_JOURNAL(JOURNAL_OURS);
    temp_volume_remove(files, JOURNAL_PATH);
    put_foreign();
    cr_expect(eq(int, place(NULL), STATUS_CONFLICT));
    EXPECT_JOURNAL(JOURNAL_SOMEBODYS);
    temp_volume_remove(files, JOURNAL_PATH);
    temp_calls_fail(TEMP_CALL_LIST, "/users/u", EIO, 0, 1);
    cr_expect(eq(int, place(NULL), STATUS_IO));
    EXPECT_JOURNAL(JOURNAL_NOBODYS);
}

/* ---- answers that get lost ---- */

Test(volume_journal, a_link_whose_answer_was_lost_is_ours_by_its_second_name)
{
    static const int lost[] = {EIO, EEXIST, ETIMEDOUT};

    for (size_t i = 0; i < ARRAY_SIZE(lost); i++) {
        temp_calls_lose_answer(TEMP_CALL_LINK, "/" JOURNAL_NAME, lost[i], 0, 1);
        cr_assert(eq(int, place(NULL), STATUS_OK), "errno %d", lost[i]);
        EXPECT_JOURNAL(JOURNAL_OURS);
        temp_volume_remove(files, JOURNAL_PATH);
        temp_calls_reset();
    }
}

Test(volume_journal, a_link_that_failed_leaves_nothing)
{
    struct error error = {0};

    temp_calls_fail(TEMP_CALL_LINK, "/" JOURNAL_NAME, EIO, 0, 1);
    cr_expect(eq(int, place(&error), STATUS_IO));
    cr_expect_str_eq(error.path, JOURNAL_NAME);
    EXPECT_JOURNAL(JOURNAL_NOBODYS);
    temp_calls_fail(TEMP_CALL_LINK, "/" JOURNAL_NAME, ENOSPC, 0, 1);
    cr_expect(eq(int, place(&error), STATUS_STORAGE_FULL));
    EXPECT_JOURNAL(JOURNAL_NOBODYS);
}

Test(volume_journal, a_name_that_cannot_be_made_durable_is_told)
{
    struct error error = {0};

    temp_calls_fail(TEMP_CALL_SYNC, "/users/u", EIO, 0, 1);
    cr_expect(eq(int, place(&error), STATUS_IO));
    cr_expect_str_eq(error.path, JOURNAL_NAME);
    EXPECT_JOURNAL(JOURNAL_OURS); /* and the caller takes it back */
}

Test(volume_journal, a_short_write_goes_on)
{
    temp_calls_write_short("/." JOURNAL_NAME ".*.tmp", 3);
    cr_assert(eq(int, place(NULL), STATUS_OK));
    EXPECT_JOURNAL(JOURNAL_OURS);
}

Test(volume_journal, no_space_leaves_no_temporary)
{
    static const struct {
        enum temp_call call;
        const char *path_end;
    } faults[] = {
        {TEMP_CALL_OPEN, "/." JOURNAL_NAME ".*.tmp"},
        {TEMP_CALL_WRITE, "/." JOURNAL_NAME ".*.tmp"},
        {TEMP_CALL_SYNC, "/." JOURNAL_NAME ".*.tmp"},
        {TEMP_CALL_CLOSE, "/." JOURNAL_NAME ".*.tmp"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(faults); i++) {
        temp_calls_write_short("/." JOURNAL_NAME ".*.tmp", 10);
        temp_calls_fail(faults[i].call, faults[i].path_end, EDQUOT,
                        faults[i].call == TEMP_CALL_WRITE, 1);
        cr_expect(eq(int, place(NULL), STATUS_STORAGE_FULL), "%s", temp_call_name(faults[i].call));
        EXPECT_JOURNAL(JOURNAL_NOBODYS);
        temp_calls_reset();
    }
}

/* It could not be read any more, neither to be taken back nor to be cleaned up. */
Test(volume_journal, one_that_is_too_large_to_be_read_is_not_placed)
{
    const size_t count = 350000;
    AUTO_FREE char **many = calloc(count, sizeof *many);
    AUTO_FREE char *texts = malloc(count * (FACT_ID_MAX + 1));
    struct error error = {0};

    cr_assert(many && texts);
    for (size_t i = 0; i < count; i++) {
        many[i] = texts + i * (FACT_ID_MAX + 1);
        memset(many[i], 'x', FACT_ID_MAX);
        (void) snprintf(many[i] + FACT_ID_MAX - 8, 9, "%08zu", i);
    }
    journal.fact_ids = many;
    journal.fact_count = count;
    cr_expect(eq(int, place(&error), STATUS_TOO_LARGE));
    cr_expect_str_eq(error.path, JOURNAL_NAME);
    EXPECT_JOURNAL(JOURNAL_NOBODYS);
}
