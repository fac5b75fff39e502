/* core/text_trim.h - the white space that the peers trim, which is Unicode's and four controls.
 *
 * Pure.
 */
#ifndef MEMSYNC_CORE_TEXT_TRIM_H
#define MEMSYNC_CORE_TEXT_TRIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* True for one of these characters; the line separators are among them. */
bool text_is_space(uint32_t code_point);

/* Narrows the range to what lies between the first and the last character that is no white space.
 * Malformed bytes are none. A text of nothing else becomes empty. */
void text_trim(const char **bytes, size_t *size);

#endif
