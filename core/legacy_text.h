/* core/legacy_text.h - title and content of an old fact as they come back from a file. Pure. */
#ifndef MEMSYNC_CORE_LEGACY_TEXT_H
#define MEMSYNC_CORE_LEGACY_TEXT_H

#include "core/text.h"

#define LEGACY_TITLE_MAX 160 /* characters */

/* Content without the blanks around it, every kind of line end as a newline. Empty when there was
 * nothing but blanks. Check text_ok(). */
void legacy_text_content(struct text *text, const char *bytes, size_t size);

/* A title on one line, cut at LEGACY_TITLE_MAX characters. */
void legacy_text_title(struct text *text, const char *bytes, size_t size);

/* The first line of content that legacy_text_content() has made. */
size_t legacy_text_first_line(const char *bytes, size_t size);

#endif
