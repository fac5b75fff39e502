/* core/fact_text.h - a fact file taken apart as text: front matter, title, content.
 *
 * Line ends are the peers': CR and CRLF count everywhere, and in the body also VT, FF, FS, GS, RS,
 * NEL, LS and PS; all of them become newlines. Pure; one owner.
 */
#ifndef MEMSYNC_CORE_FACT_TEXT_H
#define MEMSYNC_CORE_FACT_TEXT_H

#include "core/status.h"

#include <stddef.h>

#define FACT_TITLE_CHARACTERS_MAX 160

struct fact_text {
    char *bytes;       /* the parts below point into it; they are not terminated */
    const char *front; /* begins with the newline of the opening fence, so that lines count right */
    size_t front_size;
    const char *title;
    size_t title_size;
    const char *content;
    size_t content_size;
};

/* STATUS_CORRUPT when there is no front matter or no content. */
MUST_CHECK enum status fact_text_read(const char *bytes, size_t size, struct fact_text *ret,
                                      struct error *error);

/* The content that a file would give back of this text (UTF-8): line ends unified, trimmed. May be
 * empty. Freed by the caller; NULL when memory ran out. */
char *fact_text_clean(const char *bytes, size_t size, size_t *ret_size);

/* The title that a text makes: one line, trimmed, and cut so that reading it back changes nothing.
 * As above. */
char *fact_text_title(const char *bytes, size_t size, size_t *ret_size);

void fact_text_destroy(struct fact_text *text);

#define AUTO_FACT_TEXT CLEANUP(fact_text_destroy)

#endif
