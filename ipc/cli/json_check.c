/* json_check.c - reads JSON by the book and copies what matters of it. */
#include "ipc/cli/json_check.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

struct cursor {
    const char *start;
    const char *at;
    const char *end;
    FILE *copy;
    const char *problem; /* the first one, which is at `at` */
    unsigned depth_left;
};

static bool read_value(struct cursor *cursor);

static bool refuse(struct cursor *cursor, const char *problem)
{
    cursor->problem = problem;
    return false;
}

static bool is_done(const struct cursor *cursor)
{
    return cursor->at == cursor->end;
}

static void copy(const struct cursor *cursor, const char *from)
{
    (void) fwrite(from, 1, (size_t) (cursor->at - from), cursor->copy);
}

static void skip_blanks(struct cursor *cursor)
{
    while (!is_done(cursor) && *cursor->at != '\0' && strchr(" \t\r\n", *cursor->at))
        cursor->at++;
}

/* Takes one character and copies it. */
static bool take(struct cursor *cursor, char character)
{
    if (is_done(cursor) || *cursor->at != character)
        return false;
    cursor->at++;
    copy(cursor, cursor->at - 1);
    return true;
}

/* How many bytes the character of UTF-8 has, 0 when it is none. */
static size_t character_size(const char *at, const char *end)
{
    static const struct {
        unsigned char mask, lead;
        uint32_t least;
    } forms[] = {{0x80, 0, 0}, {0xe0, 0xc0, 0x80}, {0xf0, 0xe0, 0x800}, {0xf8, 0xf0, 0x10000}};
    unsigned char lead = (unsigned char) *at;

    for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
        if ((lead & forms[i].mask) != forms[i].lead)
            continue;
        uint32_t code = lead & (uint32_t) ~forms[i].mask;
        if ((size_t) (end - at) <= i)
            return 0;
        for (size_t j = 1; j <= i; j++) {
            if (((unsigned char) at[j] & 0xc0) != 0x80)
                return 0;
            code = code << 6 | ((unsigned char) at[j] & 0x3f);
        }
        bool is_surrogate = code >= 0xd800 && code < 0xe000;
        return code < forms[i].least || is_surrogate || code > 0x10ffff ? 0 : i + 1;
    }
    return 0;
}

static bool is_hex(char character)
{
    return character != '\0' && strchr("0123456789abcdefABCDEF", character);
}

/* At the backslash. */
static bool skip_escape(struct cursor *cursor)
{
    const char *at = cursor->at;
    size_t left = (size_t) (cursor->end - at);

    if (left >= 2 && at[1] != '\0' && strchr("\"\\/bfnrt", at[1])) {
        cursor->at += 2;
        return true;
    }
    if (left < 6 || at[1] != 'u' || !is_hex(at[2]) || !is_hex(at[3]) || !is_hex(at[4]) ||
        !is_hex(at[5]))
        return refuse(cursor, "this is no escape of JSON");
    cursor->at += 6;
    return true;
}

static bool skip_character(struct cursor *cursor)
{
    if (*cursor->at == '\\')
        return skip_escape(cursor);
    if ((unsigned char) *cursor->at < 0x20)
        return refuse(cursor, "a line end or control character inside of a string needs an escape");
    size_t size = character_size(cursor->at, cursor->end);
    if (size == 0)
        return refuse(cursor, "this is not UTF-8");
    cursor->at += size;
    return true;
}

static bool read_string(struct cursor *cursor)
{
    const char *from = cursor->at;

    cursor->at++;
    while (!is_done(cursor) && *cursor->at != '"') {
        if (!skip_character(cursor))
            return false;
    }
    if (is_done(cursor))
        return refuse(cursor, "it ends inside of a string");
    cursor->at++;
    copy(cursor, from);
    return true;
}

static bool skip_digits(struct cursor *cursor)
{
    const char *from = cursor->at;

    while (!is_done(cursor) && *cursor->at >= '0' && *cursor->at <= '9')
        cursor->at++;
    return cursor->at > from || refuse(cursor, "a digit was expected");
}

static bool skip_one_of(struct cursor *cursor, const char *characters)
{
    if (is_done(cursor) || *cursor->at == '\0' || !strchr(characters, *cursor->at))
        return false;
    cursor->at++;
    return true;
}

static bool read_number(struct cursor *cursor)
{
    const char *from = cursor->at;

    (void) skip_one_of(cursor, "-");
    if (!skip_one_of(cursor, "0") && !skip_digits(cursor))
        return false;
    if (skip_one_of(cursor, ".") && !skip_digits(cursor))
        return false;
    if (skip_one_of(cursor, "eE")) {
        (void) skip_one_of(cursor, "+-");
        if (!skip_digits(cursor))
            return false;
    }
    copy(cursor, from);
    return true;
}

/* A word that JSON or Python has for a value; it is copied in the protocol's form. */
static bool read_word(struct cursor *cursor)
{
    static const struct {
        const char *word, *copy;
    } words[] = {
        {"true", "true"},
        {"false", "false"},
        {"null", "null"},
        {"NaN", "{\"$float\":\"nan\"}"},
        {"Infinity", "{\"$float\":\"inf\"}"},
        {"-Infinity", "{\"$float\":\"-inf\"}"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
        size_t size = strlen(words[i].word);
        if ((size_t) (cursor->end - cursor->at) < size ||
            memcmp(cursor->at, words[i].word, size) != 0)
            continue;
        cursor->at += size;
        (void) fputs(words[i].copy, cursor->copy);
        return true;
    }
    return false;
}

static bool read_member(struct cursor *cursor)
{
    skip_blanks(cursor);
    if (is_done(cursor) || *cursor->at != '"')
        return refuse(cursor, "a name in double quotes was expected");
    if (!read_string(cursor))
        return false;
    skip_blanks(cursor);
    return take(cursor, ':') ? read_value(cursor) : refuse(cursor, "a colon was expected");
}

/* What stands between a pair of brackets. */
static bool read_items(struct cursor *cursor, char close, bool (*read_item)(struct cursor *cursor))
{
    (void) take(cursor, *cursor->at);
    if (cursor->depth_left == 0) {
        cursor->at--;
        return refuse(cursor, "it is nested too deeply");
    }
    cursor->depth_left--;
    skip_blanks(cursor);
    bool is_empty = take(cursor, close);
    while (!is_empty) {
        if (!read_item(cursor))
            return false;
        skip_blanks(cursor);
        if (take(cursor, close))
            break;
        if (!take(cursor, ','))
            return refuse(cursor,
                          close == '}' ? "a comma or } was expected" : "a comma or ] was expected");
    }
    cursor->depth_left++;
    return true;
}

static bool read_value(struct cursor *cursor)
{
    skip_blanks(cursor);
    if (is_done(cursor))
        return refuse(cursor, "it ends too early");
    switch (*cursor->at) {
    case '{':
        return read_items(cursor, '}', read_member);
    case '[':
        return read_items(cursor, ']', read_value);
    case '"':
        return read_string(cursor);
    default:
        if (read_word(cursor))
            return true;
        if (*cursor->at != '-' && (*cursor->at < '0' || *cursor->at > '9'))
            return refuse(cursor, "a value was expected");
        return read_number(cursor);
    }
}

static bool read_document(struct cursor *cursor)
{
    if (cursor->end - cursor->at >= 3 && memcmp(cursor->at, "\xef\xbb\xbf", 3) == 0)
        return refuse(cursor, "it begins with a byte order mark, which JSON must not have");
    if (!read_value(cursor))
        return false;
    skip_blanks(cursor);
    return is_done(cursor) || refuse(cursor, "something follows behind the end");
}

static void find_place(const struct cursor *cursor, struct json_problem *ret)
{
    *ret = (struct json_problem){cursor->problem, 1, 1};
    for (const char *at = cursor->start; at < cursor->at; at++) {
        if (*at == '\n') {
            ret->line++;
            ret->column = 1;
        } else if (((unsigned char) *at & 0xc0) != 0x80) {
            ret->column++;
        }
    }
}

char *json_check(const char *text, size_t size, unsigned depth_max,
                 struct json_problem *ret_problem)
{
    AUTO_FREE char *compact = NULL;
    size_t compact_size = 0;
    struct cursor cursor = {.start = text, .at = text, .end = text + size};

    cursor.depth_left = depth_max;
    cursor.copy = open_memstream(&compact, &compact_size);
    bool is_good = cursor.copy && read_document(&cursor);
    if (!cursor.copy || fclose(cursor.copy) != 0) {
        cursor.problem = "there is not enough memory for it";
        is_good = false;
    }
    if (is_good)
        return TAKE_PTR(compact);
    find_place(&cursor, ret_problem);
    return NULL;
}
