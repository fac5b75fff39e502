/* tests/support/files.h - plain file work for the test support: it works or the program ends.
 *
 * On purpose without core/volume.h, so that core is checked against another implementation.
 */
#ifndef MEMSYNC_TESTS_FILES_H
#define MEMSYNC_TESTS_FILES_H

#include "core/compiler.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

/* Says what went wrong, with errno's text when it is set, and aborts. */
_Noreturn void test_die(const char *format, ...) PRINTF(1, 2);

/* Joins two parts with a slash. */
void test_join(char ret[PATH_MAX], const char *directory, const char *name);

bool test_exists(const char *path);

/* NUL-terminated beyond `ret_size` (which may be NULL); the caller frees it. */
char *test_read_file(const char *path, size_t *ret_size);

/* The same; NULL when there is no such file. */
char *test_read_file_if_there(const char *path, size_t *ret_size);

/* Makes the directories above `path` and `path` itself. */
void test_make_dirs(const char *path);
void test_make_parents(const char *path);

/* Replaces a file by way of a temporary beside it, named as the peers name theirs. */
void test_replace_file(const char *path, const char *bytes, size_t size);

void test_remove_file(const char *path); /* fine when it is not there */
void test_rename(const char *from, const char *to);

/* Removes a directory and all below it; fine when it is not there. */
void test_remove_tree(const char *path);

/* Copies all below one directory into another, file times kept. */
void test_copy_tree(const char *from, const char *to);

/* How many regular files lie below a directory. */
size_t test_count_files(const char *path);

#endif
