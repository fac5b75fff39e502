/* core/yaml_style.h - how a text must be spelt so that YAML gives it back.
 *
 * The choices are those of the peers' dumper: plain where that is safe, else in single quotes, and
 * in double quotes what needs escapes. Here these are all control characters, and also NEL, LS and
 * PS, which the dumper leaves as they are: they count as line breaks, and a NEL comes back as a
 * blank. Text is UTF-8 in which lone surrogates may stand as three bytes. Pure.
 */
#ifndef MEMSYNC_CORE_YAML_STYLE_H
#define MEMSYNC_CORE_YAML_STYLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum yaml_style { YAML_STYLE_PLAIN, YAML_STYLE_SINGLE, YAML_STYLE_DOUBLE };

struct yaml_analysis {
    size_t characters;
    bool is_multiline;
    bool allows_plain; /* whether it would stay text is another question */
    bool allows_single;
};

/* Decodes the character at `bytes` (at least one byte), a lone surrogate too. */
uint32_t yaml_style_decode(const char *bytes, size_t size, size_t *ret_length);

/* True for what double quotes must escape. */
bool yaml_style_is_escaped(uint32_t character);

/* Looks at every character once. */
struct yaml_analysis yaml_style_analyse(const char *bytes, size_t size);

/* The style of a text. A key before its colon (`is_key`) stands on one line. */
enum yaml_style yaml_style_of_text(const struct yaml_analysis *analysis, const char *bytes,
                                   size_t size, bool is_key);

#endif
