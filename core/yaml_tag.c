#include "core/yaml_tag.h"

#include "core/compiler.h"
#include "core/yaml_time.h"

#include <string.h>

#define TAG_PREFIX "tag:yaml.org,2002:"

static const char *const tag_names[] = {
    [YAML_TAG_STR] = "str",       [YAML_TAG_NULL] = "null",   [YAML_TAG_BOOL] = "bool",
    [YAML_TAG_INT] = "int",       [YAML_TAG_FLOAT] = "float", [YAML_TAG_TIMESTAMP] = "timestamp",
    [YAML_TAG_BINARY] = "binary", [YAML_TAG_MERGE] = "merge", [YAML_TAG_VALUE] = "value",
    [YAML_TAG_SEQ] = "seq",       [YAML_TAG_MAP] = "map",     [YAML_TAG_SET] = "set",
    [YAML_TAG_OMAP] = "omap",     [YAML_TAG_PAIRS] = "pairs",
};

static const char *const bool_words[] = {
    "yes",   "Yes",   "YES",   "no", "No", "NO", "true", "True", "TRUE",
    "false", "False", "FALSE", "on", "On", "ON", "off",  "Off",  "OFF",
};

static const char *const null_words[] = {"~", "null", "Null", "NULL"};

/* What is left of a scalar while it is matched. */
struct cursor {
    const char *at;
    const char *end;
};

const char *yaml_tag_name(enum yaml_tag tag)
{
    return tag_names[tag];
}

bool yaml_tag_find(const char *name, enum yaml_tag *ret)
{
    if (strncmp(name, TAG_PREFIX, strlen(TAG_PREFIX)) != 0)
        return false;
    name += strlen(TAG_PREFIX);
    for (size_t i = 0; i < ARRAY_SIZE(tag_names); i++) {
        if (strcmp(name, tag_names[i]) == 0) {
            *ret = (enum yaml_tag) i;
            return true;
        }
    }
    return false;
}

static bool is_word(const char *const *words, size_t count, const char *text, size_t size)
{
    for (size_t i = 0; i < count; i++) {
        if (strlen(words[i]) == size && memcmp(words[i], text, size) == 0)
            return true;
    }
    return false;
}

static bool is_digit(char byte)
{
    return byte >= '0' && byte <= '9';
}

static bool take(struct cursor *cursor, const char *any_of)
{
    if (cursor->at == cursor->end || !*cursor->at || !strchr(any_of, *cursor->at))
        return false;
    cursor->at++;
    return true;
}

/* Takes as many as there are; returns how many. */
static size_t take_all(struct cursor *cursor, const char *any_of)
{
    const char *start = cursor->at;

    while (take(cursor, any_of))
        ;
    return (size_t) (cursor->at - start);
}

static bool at_end(const struct cursor *cursor)
{
    return cursor->at == cursor->end;
}

/* One or more groups of a colon and a number below 60. */
static bool take_sixties(struct cursor *cursor)
{
    bool any = false;

    while (take(cursor, ":")) {
        if (cursor->at == cursor->end || !is_digit(*cursor->at))
            return false;
        if (cursor->end - cursor->at > 1 && is_digit(cursor->at[1]) && !take(cursor, "012345"))
            return false;
        cursor->at++;
        any = true;
    }
    return any;
}

static bool is_int(struct cursor cursor)
{
    (void) take(&cursor, "+-");
    if (take(&cursor, "0")) {
        if (at_end(&cursor))
            return true;
        const char *digits = take(&cursor, "b")   ? "01_"
                             : take(&cursor, "x") ? "0123456789abcdefABCDEF_"
                                                  : "01234567_";
        return take_all(&cursor, digits) > 0 && at_end(&cursor);
    }
    if (!take(&cursor, "123456789"))
        return false;
    (void) take_all(&cursor, "0123456789_");
    return at_end(&cursor) || (take_sixties(&cursor) && at_end(&cursor));
}

/* Nothing, or an exponent: its sign is a must. */
static bool is_exponent(struct cursor cursor)
{
    if (at_end(&cursor))
        return true;
    return take(&cursor, "eE") && take(&cursor, "+-") && take_all(&cursor, "0123456789") > 0 &&
           at_end(&cursor);
}

static bool is_float(struct cursor cursor)
{
    static const char *const infinities[] = {".inf", ".Inf", ".INF"};
    static const char *const nans[] = {".nan", ".NaN", ".NAN"};
    bool is_signed = take(&cursor, "+-");
    size_t left = (size_t) (cursor.end - cursor.at);

    if (left > 0 && *cursor.at == '.') {
        if (is_word(infinities, ARRAY_SIZE(infinities), cursor.at, left))
            return true;
        if (is_signed)
            return false;
        if (is_word(nans, ARRAY_SIZE(nans), cursor.at, left))
            return true;
        cursor.at++;
        return take(&cursor, "0123456789") && (take_all(&cursor, "0123456789_"), true) &&
               is_exponent(cursor);
    }
    if (!take(&cursor, "0123456789"))
        return false;
    (void) take_all(&cursor, "0123456789_");
    bool is_sixties = cursor.at < cursor.end && *cursor.at == ':';
    if ((is_sixties && !take_sixties(&cursor)) || !take(&cursor, "."))
        return false;
    (void) take_all(&cursor, "0123456789_");
    return is_sixties ? at_end(&cursor) : is_exponent(cursor);
}

static bool is_timestamp(const char *text, size_t size)
{
    struct yaml_time time;

    return yaml_time_parse(text, size, &time) && (time.has_clock || time.is_padded);
}

static enum yaml_tag tag_of_number(const char *text, size_t size)
{
    struct cursor cursor = {text, text + size};

    if (is_int(cursor))
        return YAML_TAG_INT;
    if (is_float(cursor))
        return YAML_TAG_FLOAT;
    return is_timestamp(text, size) ? YAML_TAG_TIMESTAMP : YAML_TAG_STR;
}

enum yaml_tag yaml_tag_of_plain(const char *text, size_t size)
{
    if (size == 0)
        return YAML_TAG_NULL;
    switch (text[0]) {
    case '+':
    case '-':
    case '.':
    case '0' ... '9':
        return tag_of_number(text, size);
    case '<':
        return size == 2 && text[1] == '<' ? YAML_TAG_MERGE : YAML_TAG_STR;
    case '=':
        return size == 1 ? YAML_TAG_VALUE : YAML_TAG_STR;
    case '~':
    case 'n':
    case 'N':
        if (is_word(null_words, ARRAY_SIZE(null_words), text, size))
            return YAML_TAG_NULL;
        break;
    default:
        break;
    }
    return is_word(bool_words, ARRAY_SIZE(bool_words), text, size) ? YAML_TAG_BOOL : YAML_TAG_STR;
}
