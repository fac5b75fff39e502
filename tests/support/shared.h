/* tests/support/shared.h - the test volumes and vectors beside the tree, where there are any.
 *
 * They are looked for at $MEMSYNC_SHARED, else ../shared. A test that needs them begins with
 * `if (!shared_is_there()) return;`.
 */
#ifndef MEMSYNC_TESTS_SHARED_H
#define MEMSYNC_TESTS_SHARED_H

#include "core/compiler.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

/* False, after one line on standard error, when they are not there. */
bool shared_is_there(void);

/* The path of something in it: shared_path(path, "volumes/%s/expect.json", name). */
void shared_path(char ret[PATH_MAX], const char *format, ...) PRINTF(2, 3);

/* The bytes of a file, NUL-terminated beyond `ret_size` (which may be NULL); the caller frees them.
 * A file that cannot be read ends the test program: the data is not what the test was written for.
 */
char *shared_read(size_t *ret_size, const char *format, ...) PRINTF(2, 3);

/* A JSON file that jansson can read; a new reference. */
json_t *shared_json(const char *format, ...) PRINTF(1, 2);

/* Calls `visit` for every file of the shared volumes that is named like a fact, with its id and its
 * bytes (NUL-terminated beyond `size`). */
void shared_walk_facts(void (*visit)(const char *path, const char *id, const char *bytes,
                                     size_t size));

#endif
