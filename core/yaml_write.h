/* core/yaml_write.h - a jansson tree as block-style YAML, laid out as the peers' dumper does.
 *
 * What yaml_value_read() and the peers' loader read back equals the tree: text stays text, and the
 * disguises of core/json_text.h become what they stand for. Every tree of a bearable size can be
 * written. An object that only looks like a disguise ({"$date": "soon"}, a "$set" with an item
 * twice) is an ordinary mapping. Pure.
 */
#ifndef MEMSYNC_CORE_YAML_WRITE_H
#define MEMSYNC_CORE_YAML_WRITE_H

#include "core/yaml_emitter.h"

#define YAML_WRITE_BYTES_MAX YAML_EMITTER_BYTES_MAX

/* Appends the members of `mapping`, an object, at the start of a line; ends with a newline, has no
 * `---`, and no line of it is `---` or `...`. A member "$pairs" beside others holds the members
 * whose keys are no text, as in a fact's document. text_ok() tells whether memory ran out; a text
 * of more than YAML_WRITE_BYTES_MAX bytes is cut short. Recurses as deep as the tree is. */
void yaml_write_mapping(struct text *text, const json_t *mapping);

#endif
