/* json_check.h - JSON that people hand in: strictly checked, and what is wrong found for them. */
#ifndef MEMSYNC_IPC_CLI_JSON_CHECK_H
#define MEMSYNC_IPC_CLI_JSON_CHECK_H

#include "core/compiler.h"

#include <stddef.h>

struct json_problem {
    const char *what; /* words for people, never freed */
    size_t line;      /* from 1 */
    size_t column;    /* characters, from 1 */
};

/* Checks that the text is one JSON value in UTF-8, at most `depth_max` levels deep, and gives it
 * without the blanks between its parts, every value as it is spelt; to be freed. NaN, Infinity and
 * -Infinity, as Python writes them, become the protocol's form of these numbers. NULL, and
 * `*ret_problem` is set, when the text is wrong. */
MUST_CHECK char *json_check(const char *text, size_t size, unsigned depth_max,
                            struct json_problem *ret_problem);

#endif
