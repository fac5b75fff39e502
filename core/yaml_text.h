/* core/yaml_text.h - text as a jansson string, in the disguise that core/json_text.h describes.
 *
 * Pure.
 */
#ifndef MEMSYNC_CORE_YAML_TEXT_H
#define MEMSYNC_CORE_YAML_TEXT_H

#include "core/text.h"

/* U+FDD0, which begins the text of a big integer. */
#define YAML_TEXT_BIG_INTEGER "\xef\xb7\x90"

/* A JSON string of UTF-8, in which lone surrogates may stand as three bytes. NULL when memory ran
 * out. */
json_t *yaml_text_value(const char *bytes, size_t size);

/* The text of a member name: NUL is disguised too. Freed by the caller; NULL as above. */
char *yaml_text_key(const char *bytes, size_t size);

/* Appends the bytes that yaml_text_value() or yaml_text_key() made a string of. */
void yaml_text_restore(struct text *text, const char *string, size_t size);

/* True when yaml_text_key() would give the same bytes. */
bool yaml_text_is_plain_key(const char *bytes, size_t size);

/* True for a string that is text and not a big integer in disguise. */
bool yaml_text_is(const json_t *value);

/* True for a big integer in disguise. */
bool yaml_text_is_big_integer(const json_t *value);

#endif
