/* tests/support/temp_tree.h - all that lies in a directory, as one value that can be compared.
 *
 * Functions work or abort the program.
 */
#ifndef MEMSYNC_TESTS_TEMP_TREE_H
#define MEMSYNC_TESTS_TEMP_TREE_H

#include "core/json_text.h"
#include "tests/support/temp_volume.h"

/* Every file below a directory of the volume, as an object from its path in there to its bytes.
 * Lock files are left out. New reference. */
json_t *temp_tree_read(const struct temp_volume *volume, const char *path);

/* What writers leave behind when they are stopped: journals, files with a temporary name, and what
 * lies in .recovery/, files and directories. A text with blanks between; "" is what should be there
 * after every operation. */
void temp_tree_leftovers(const struct temp_volume *volume, const char *path, char *ret,
                         size_t size);

/* Compares such trees; where they differ `ret` names the first path, else it is "". */
void temp_tree_differ(const json_t *a, const json_t *b, char *ret, size_t size);

#endif
