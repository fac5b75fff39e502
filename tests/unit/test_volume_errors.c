/* core/volume_errors.h: which failures count, and as what. */
#include "core/volume_errors.h"

#include "core/compiler.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

TestSuite(volume_errors, .timeout = 30);

static uint64_t count_all(void)
{
    uint64_t all = 0;

    for (unsigned i = 0; volume_errors_operation(i); i++) {
        for (unsigned error = 0; error < VOLUME_ERROR_COUNT; error++)
            all += volume_errors_count(i, (enum volume_error) error);
    }
    return all;
}

static unsigned index_of(const char *operation)
{
    unsigned i = 0;

    while (volume_errors_operation(i) && strcmp(volume_errors_operation(i), operation) != 0)
        i++;
    cr_assert_not_null(volume_errors_operation(i), "%s", operation);
    return i;
}

Test(volume_errors, each_counts_once_where_it_belongs)
{
    static const struct {
        const char *operation;
        int sys_errno;
        enum volume_error error;
    } cases[] = {
        {"open", EIO, VOLUME_ERROR_IO},
        {"read", ESTALE, VOLUME_ERROR_STALE},
        {"open", EACCES, VOLUME_ERROR_DENIED},
        {"rename", EPERM, VOLUME_ERROR_DENIED},
        {"mkdir", EROFS, VOLUME_ERROR_READ_ONLY},
        {"write", ENOSPC, VOLUME_ERROR_FULL},
        {"sync", EDQUOT, VOLUME_ERROR_FULL},
        {"stat", ETIMEDOUT, VOLUME_ERROR_UNREACHABLE},
        {"list", ENOTCONN, VOLUME_ERROR_UNREACHABLE},
        {"lock", ENOLCK, VOLUME_ERROR_LIMIT},
        {"open", EMFILE, VOLUME_ERROR_LIMIT},
        {"unlink", EBADF, VOLUME_ERROR_OTHER},
        {"link", 12345, VOLUME_ERROR_OTHER},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        unsigned operation = index_of(cases[i].operation);
        uint64_t all = count_all();
        uint64_t before = volume_errors_count(operation, cases[i].error);
        volume_errors_note(cases[i].operation, cases[i].sys_errno);
        cr_expect_eq(volume_errors_count(operation, cases[i].error), before + 1, "row %zu", i);
        cr_expect_eq(count_all(), all + 1, "row %zu", i);
    }
}

Test(volume_errors, what_belongs_to_the_normal_course_is_none)
{
    static const int expected[] = {ENOENT, EEXIST, ENOTDIR,    ENOTEMPTY,   EAGAIN,
                                   EINTR,  ENOSYS, EOPNOTSUPP, EWOULDBLOCK, EXDEV};

    for (size_t i = 0; i < ARRAY_SIZE(expected); i++)
        volume_errors_note("open", expected[i]);
    cr_expect_eq(count_all(), 0);
}

Test(volume_errors, an_operation_of_another_name_counts_as_other)
{
    volume_errors_note("fallocate", EIO);
    cr_expect_eq(volume_errors_count(index_of("other"), VOLUME_ERROR_IO), 1);
    cr_expect_eq(count_all(), 1);
}

Test(volume_errors, every_kind_has_a_name_of_its_own)
{
    for (unsigned i = 0; i < VOLUME_ERROR_COUNT; i++) {
        cr_assert_not_null(volume_error_name((enum volume_error) i), "%u", i);
        for (unsigned other = 0; other < i; other++)
            cr_expect_str_neq(volume_error_name((enum volume_error) i),
                              volume_error_name((enum volume_error) other));
    }
}
