/* core/volume_sync_batch.h: everything is synced, once, and nothing stays open. */
#include "core/volume_sync_batch.h"

#include "tests/support/descriptors.h"
#include "tests/support/temp_calls.h"
#include "tests/support/temp_volume.h"
#include "tests/unit/volume_fixture.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>

static struct temp_volume *files;
static struct volume *volume;
static struct sync_batch batch;
static size_t open_before;

static size_t count_open(void)
{
    DIR *directory = opendir("/proc/self/fd");
    size_t count = 0;

    cr_assert(directory != NULL);
    while (readdir(directory))
        count++;
    (void) closedir(directory);
    return count;
}

static void set_up(void)
{
    files = temp_volume_create();
    const struct volume_options options = {.path = temp_volume_path(files), .calls = temp_calls()};
    cr_assert_eq(volume_open(&options, &volume, NULL), STATUS_OK);
    batch = (struct sync_batch){.volume = volume};
    open_before = count_open();
}

static void tear_down(void)
{
    sync_batch_destroy(&batch);
    cr_expect_eq(count_open(), open_before);
    temp_calls_reset();
    volume_close(&volume);
    temp_volume_destroy(&files);
}

TestSuite(volume_sync_batch, .init = set_up, .fini = tear_down);

static int open_new(const char *name)
{
    int fd = openat(volume_root_fd(volume), name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    cr_assert(fd >= 0, "%s: %s", name, strerror(errno));
    return fd;
}

static enum status add_file(const char *name, struct error *error)
{
    return sync_batch_add(&batch, open_new(name), name, error);
}

/* How many syncs the batch has asked for since `before`. */
static uint64_t syncs_since(uint64_t before)
{
    return volume_operations_here() - before;
}

Test(volume_sync_batch, syncs_what_was_added)
{
    uint64_t before = volume_operations_here();

    cr_expect_eq(add_file("a", NULL), STATUS_OK);
    cr_expect_eq(add_file("b", NULL), STATUS_OK);
    cr_expect_eq(sync_batch_add_dir(&batch, volume_root_fd(volume), ".", NULL), STATUS_OK);
    cr_expect_eq(syncs_since(before), 0, "not before all of it is there");
    cr_expect_eq(sync_batch_flush(&batch, NULL), STATUS_OK);
    cr_expect_eq(syncs_since(before), 3);
    cr_expect_eq(sync_batch_flush(&batch, NULL), STATUS_OK);
    cr_expect_eq(syncs_since(before), 3, "and it is empty then");
    cr_expect_eq(count_open(), open_before);
}

Test(volume_sync_batch, syncs_a_directory_once)
{
    uint64_t before = volume_operations_here();

    for (unsigned i = 0; i < 3; i++)
        cr_expect_eq(sync_batch_add_dir(&batch, volume_root_fd(volume), ".", NULL), STATUS_OK);
    cr_expect_eq(sync_batch_flush(&batch, NULL), STATUS_OK);
    cr_expect_eq(syncs_since(before), 1);
}

Test(volume_sync_batch, holds_a_bounded_number)
{
    uint64_t before = volume_operations_here();
    char name[16];

    for (unsigned i = 0; i < 3 * SYNC_BATCH_MAX + 1; i++) {
        (void) snprintf(name, sizeof name, "f%u", i);
        cr_expect_eq(add_file(name, NULL), STATUS_OK);
        cr_expect(count_open() < open_before + SYNC_BATCH_MAX);
    }
    cr_expect_eq(sync_batch_flush(&batch, NULL), STATUS_OK);
    cr_expect_eq(syncs_since(before), 3 * SYNC_BATCH_MAX + 1);
}

Test(volume_sync_batch, names_the_first_that_failed_and_closes_all)
{
    static const enum temp_call calls[] = {TEMP_CALL_SYNC, TEMP_CALL_CLOSE};
    struct error error = {0};

    for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
        temp_calls_fail(calls[i], "/b", EIO, 0, 1);
        temp_calls_fail(calls[i], "/c", ENOSPC, 0, 1);
        cr_expect_eq(add_file("a", &error), STATUS_OK);
        cr_expect_eq(add_file("b", &error), STATUS_OK);
        cr_expect_eq(add_file("c", &error), STATUS_OK);
        cr_expect_eq(sync_batch_flush(&batch, &error), STATUS_IO);
        cr_expect_str_eq(error.path, "b");
        cr_expect_eq(count_open(), open_before);
        temp_calls_reset();
    }
    cr_expect_eq(sync_batch_flush(&batch, NULL), STATUS_OK);
}

Test(volume_sync_batch, that_is_full_tells_of_errors_when_adding)
{
    struct error error = {0};
    enum status status = STATUS_OK;
    char name[16];

    temp_calls_fail(TEMP_CALL_SYNC, "/f3", EIO, 0, 1);
    for (unsigned i = 0; status == STATUS_OK && i < SYNC_BATCH_MAX; i++) {
        (void) snprintf(name, sizeof name, "f%u", i);
        static const char *const named[] = {"f0", "f1", "f2", "f3"};
        status = sync_batch_add(&batch, open_new(name), i < 4 ? named[i] : "other", &error);
    }
    cr_expect_eq(status, STATUS_IO);
    cr_expect_str_eq(error.path, "f3");
}

Test(volume_sync_batch, that_is_given_up_syncs_nothing)
{
    uint64_t before = volume_operations_here();

    cr_expect_eq(add_file("a", NULL), STATUS_OK);
    sync_batch_destroy(&batch);
    cr_expect_eq(syncs_since(before), 0);
    cr_expect_eq(count_open(), open_before);
}

Test(volume_sync_batch, a_directory_that_cannot_be_held_is_told)
{
    struct error error = {0};

    cr_expect_eq(sync_batch_add_dir(&batch, -1, "gone", &error), STATUS_IO);
    cr_expect_str_eq(error.path, "gone");
    descriptors_leave(0);
    enum status status = sync_batch_add_dir(&batch, volume_root_fd(volume), "root", &error);
    descriptors_give_back();
    cr_expect(status != STATUS_OK);
    cr_expect_str_eq(error.path, "root");
    cr_expect_eq(batch.count, 0);
}
