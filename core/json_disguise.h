/* core/json_disguise.h - how what jansson cannot hold is spelt.
 *
 * The meaning is told in core/json_text.h.
 */
#ifndef MEMSYNC_CORE_JSON_DISGUISE_H
#define MEMSYNC_CORE_JSON_DISGUISE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DISGUISE_SIZE 3                   /* bytes of either mark */
#define DISGUISE_INTEGER "\xef\xb7\x90"   /* U+FDD0 */
#define DISGUISE_CHARACTER "\xef\xb7\x91" /* U+FDD1 */
#define DISGUISE_FLOAT_KEY "$float"

/* True for the whole of a disguised big integer; moves `bytes` and `size` to its digits and sign.
 */
bool json_disguised_integer(const char **bytes, size_t *size);

/* The code unit that a disguised character at `bytes` stands for; false when none stands there. */
bool json_disguised_character(const char *bytes, size_t size, uint32_t *ret);

/* Bytes that a disguised character takes: the mark and four digits. */
#define DISGUISE_CHARACTER_SIZE (DISGUISE_SIZE + 4)

#endif
