/* core/yaml_emitter.h - writes the marks and scalars of a block-style YAML document.
 *
 * It keeps the place on the line, so that the layout, where lines are folded too, is that of the
 * peers' dumper. Not thread-safe; nothing to release.
 *
 * Indentation can make a text many times as large as what it says, so writing stops once the text
 * has more than YAML_EMITTER_BYTES_MAX bytes, which is more than anybody reads: who takes the text
 * must look at its size.
 */
#ifndef MEMSYNC_CORE_YAML_EMITTER_H
#define MEMSYNC_CORE_YAML_EMITTER_H

#include "core/text.h"
#include "core/yaml_style.h"

struct yaml_emitter {
    struct text *text;
    unsigned indent; /* of the collection or scalar that is being written */
    size_t column;   /* in characters */
    bool has_blank;  /* what was written last ends in one, or the line is new */
    bool is_margin;  /* nothing but marks of collections is on the line */
};

#define YAML_EMITTER_INDENT 2u
#define YAML_EMITTER_BYTES_MAX (8u << 20)

/* Begins a document at the end of `text`, which must be at the start of a line. */
void yaml_emitter_start(struct yaml_emitter *emitter, struct text *text);

/* A mark such as `?` or `[]`, or a tag, behind a blank. */
void yaml_emitter_mark(struct yaml_emitter *emitter, const char *mark);

/* The mark of a collection's member, behind which another one may begin on the same line. */
void yaml_emitter_member(struct yaml_emitter *emitter, const char *mark);

/* A mark right behind what was written, e.g. the colon of a key. */
void yaml_emitter_close(struct yaml_emitter *emitter, const char *mark);

/* Goes to the indentation, on a new line unless it stands there already. */
void yaml_emitter_line(struct yaml_emitter *emitter);

/* A scalar in the given style, which must suit it; folded when it is long, unless `is_key`. */
void yaml_emitter_scalar(struct yaml_emitter *emitter, enum yaml_style style, const char *bytes,
                         size_t size, bool is_key);

/* ASCII in lines of 76 characters, as a literal block. */
void yaml_emitter_block(struct yaml_emitter *emitter, const char *bytes, size_t size);

#endif
