#include "core/status.h"

#include "core/text.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

Test(status, every_kind_has_a_name_of_its_own)
{
    for (int i = 0; i < STATUS_COUNT; i++) {
        cr_expect_str_neq(status_name((enum status) i), "unknown", "%d", i);
        for (int k = 0; k < i; k++)
            cr_expect_str_neq(status_name((enum status) i), status_name((enum status) k));
    }
    cr_expect_str_eq(status_name(STATUS_NOT_FOUND), "not_found");
    cr_expect_str_eq(status_name((enum status) STATUS_COUNT), "unknown");
}

Test(status, an_errno_value_tells_what_the_caller_can_do)
{
    static const struct {
        int sys_errno;
        enum status status;
    } cases[] = {
        {0, STATUS_OK},
        {ENOENT, STATUS_NOT_FOUND},
        {ESTALE, STATUS_STALE},
        {EACCES, STATUS_DENIED},
        {EPERM, STATUS_DENIED},
        {EROFS, STATUS_DENIED},
        {ELOOP, STATUS_DENIED},
        {ENOTDIR, STATUS_DENIED},
        {EXDEV, STATUS_DENIED},
        {ENOSPC, STATUS_STORAGE_FULL},
        {EDQUOT, STATUS_STORAGE_FULL},
        {ENOMEM, STATUS_NO_MEMORY},
        {EIO, STATUS_IO},
        {ENOLCK, STATUS_IO},
        {12345, STATUS_IO},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        cr_expect_eq(status_from_errno(cases[i].sys_errno), cases[i].status, "row %zu", i);
}

Test(status, an_error_carries_kind_path_and_words)
{
    struct error error;

    cr_expect_eq(error_set(&error, STATUS_CORRUPT, "users/u1/memory.json", "line %d", 7),
                 STATUS_CORRUPT);
    cr_expect_eq(error.status, STATUS_CORRUPT);
    cr_expect_eq(error.sys_errno, 0);
    cr_expect_str_eq(error.path, "users/u1/memory.json");
    cr_expect_str_eq(error.message, "line 7");
    error_clear(&error);
    cr_expect_eq(error.status, STATUS_OK);
    cr_expect_str_eq(error.path, "");
    cr_expect_str_eq(error.message, "");
}

Test(status, a_failed_call_adds_the_systems_words)
{
    struct error error;

    cr_expect_eq(error_set_errno(&error, ENOSPC, NULL, "cannot write %s", "x"),
                 STATUS_STORAGE_FULL);
    cr_expect_eq(error.sys_errno, ENOSPC);
    cr_expect_str_eq(error.path, "");
    cr_expect_str_eq(error.message, "cannot write x: No space left on device");
    cr_expect_eq(error_set_errno(&error, 54321, NULL, "odd"), STATUS_IO);
    cr_expect_str_eq(error.message, "odd: unknown error");
}

Test(status, nobody_has_to_listen)
{
    error_clear(NULL);
    cr_expect_eq(error_set(NULL, STATUS_BUSY, NULL, "x"), STATUS_BUSY);
    cr_expect_eq(error_set_errno(NULL, ENOENT, NULL, "x"), STATUS_NOT_FOUND);
}

Test(status, an_error_may_be_passed_on_with_its_own_words)
{
    struct error error;

    (void) error_set(&error, STATUS_IO, "a/b", "inner");
    (void) error_set(&error, error.status, error.path, "outer: %s", error.message);
    cr_expect_str_eq(error.path, "a/b");
    cr_expect_str_eq(error.message, "outer: inner");
}

Test(status, long_texts_are_cut_between_characters)
{
    char path[4 * ERROR_PATH_MAX];

    for (size_t offset = 0; offset < 4; offset++) {
        struct error error;
        memset(path, 'x', offset);
        size_t size = offset;
        while (size + 4 < sizeof path - 1) {
            memcpy(path + size, "\xf0\x9f\x98\x80", 4);
            size += 4;
        }
        path[size] = '\0';
        (void) error_set(&error, STATUS_IO, path, "%s", path);
        cr_expect(text_is_utf8(error.path, strlen(error.path)), "offset %zu", offset);
        cr_expect(text_is_utf8(error.message, strlen(error.message)), "offset %zu", offset);
        cr_expect_gt(strlen(error.path), ERROR_PATH_MAX - 5);
        cr_expect_gt(strlen(error.message), ERROR_MESSAGE_MAX - 5);
    }
}
