#include "core/yaml_style.h"

#include "core/text.h"
#include "core/yaml_tag.h"

#include <string.h>

uint32_t yaml_style_decode(const char *bytes, size_t size, size_t *ret_length)
{
    const unsigned char *at = (const unsigned char *) bytes;

    if (size >= 3 && at[0] == 0xed && at[1] >= 0xa0) {
        *ret_length = 3;
        return 0xd000u | (at[1] & 0x3fu) << 6 | (at[2] & 0x3fu);
    }
    return text_decode(bytes, size, ret_length);
}

bool yaml_style_is_escaped(uint32_t character)
{
    if (character < 0xa0)
        return character < 0x20 || character > 0x7e || character == '"' || character == '\\';
    return (character >= 0xd800 && character <= 0xdfff) || character > 0xfffd ||
           character == 0xfeff || character == 0x2028 || character == 0x2029;
}

/* True for what neither plain nor single-quoted text may hold. Characters beyond the first plane
 * are escaped only where there are double quotes for another reason. */
static bool is_special(uint32_t character)
{
    if (character == '\n' || character == '"' || character == '\\')
        return false;
    if (character >= 0x10000)
        return character >= 0x10ffff;
    return yaml_style_is_escaped(character);
}

static bool is_any_of(uint32_t character, const char *set)
{
    return character > 0 && character < 0x80 && strchr(set, (int) character);
}

static bool is_blank(uint32_t character)
{
    return character == ' ' || character == '\n';
}

/* True where YAML would see more than text: `before` and `after` are the neighbours, a blank at
 * either end. */
static bool is_indicator(uint32_t character, uint32_t before, uint32_t after, bool is_first)
{
    if (is_first && is_any_of(character, "#,[]{}&*!|>'\"%@`"))
        return true;
    if (is_first && is_any_of(character, "?-"))
        return is_blank(after);
    if (character == ':')
        return is_blank(after);
    return character == '#' && is_blank(before);
}

static bool begins_like_document(const char *bytes, size_t size)
{
    return size >= 3 && (memcmp(bytes, "---", 3) == 0 || memcmp(bytes, "...", 3) == 0);
}

struct yaml_analysis yaml_style_analyse(const char *bytes, size_t size)
{
    struct yaml_analysis analysis = {
        .allows_plain = !begins_like_document(bytes, size),
        .allows_single = true,
    };
    uint32_t before = ' ';
    size_t length = 0;

    for (size_t at = 0; at < size; at += length) {
        uint32_t character = yaml_style_decode(bytes + at, size - at, &length);
        bool is_last = at + length >= size;
        uint32_t after = is_last ? ' ' : (unsigned char) bytes[at + length];

        if (is_special(character) || (character == '\n' && before == ' ' && at > 0) ||
            (character == ' ' && before == '\n'))
            analysis.allows_single = false;
        if (character == '\n')
            analysis.is_multiline = true;
        if (is_indicator(character, before, after, at == 0) ||
            (is_blank(character) && (at == 0 || is_last)))
            analysis.allows_plain = false;
        analysis.characters++;
        before = character;
    }
    analysis.allows_plain =
        analysis.allows_plain && analysis.allows_single && !analysis.is_multiline;
    return analysis;
}

enum yaml_style yaml_style_of_text(const struct yaml_analysis *analysis, const char *bytes,
                                   size_t size, bool is_key)
{
    if (analysis->allows_plain && yaml_tag_of_plain(bytes, size) == YAML_TAG_STR)
        return YAML_STYLE_PLAIN;
    return analysis->allows_single && !(is_key && analysis->is_multiline) ? YAML_STYLE_SINGLE
                                                                          : YAML_STYLE_DOUBLE;
}
