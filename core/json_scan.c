#include "core/json_scan.h"

#include <stdio.h>
#include <string.h>

/* The peers' int() refuses longer ones. */
#define INTEGER_DIGITS_MAX 4300

enum scan_state {
    WANT_VALUE,
    WANT_VALUE_OR_CLOSE, /* directly after [ */
    WANT_KEY,
    WANT_KEY_OR_CLOSE, /* directly after { */
    WANT_COLON,
    WANT_COMMA_OR_CLOSE,
    WANT_END,
};

void json_scan_start(struct json_scan *scan, const char *bytes, size_t size, unsigned depth_max)
{
    *scan = (struct json_scan){
        .bytes = bytes,
        .size = size,
        .depth_max = depth_max < JSON_TEXT_DEPTH_MAX ? depth_max : JSON_TEXT_DEPTH_MAX,
        .state = WANT_VALUE,
    };
}

static bool fail(struct json_scan *scan, const char *problem)
{
    scan->problem = problem;
    return false;
}

enum status json_scan_fail(const struct json_scan *scan, struct error *error)
{
    size_t line = 1;
    size_t column = 1;

    if (!error)
        return STATUS_CORRUPT;
    for (size_t i = 0; i < scan->at; i++) {
        unsigned char byte = (unsigned char) scan->bytes[i];
        if (byte == '\n') {
            line++;
            column = 1;
        } else if ((byte & 0xc0) != 0x80) {
            column++;
        }
    }
    error->status = STATUS_CORRUPT;
    error->sys_errno = 0;
    (void) snprintf(error->message, sizeof error->message, "line %zu column %zu: %s", line, column,
                    scan->problem);
    return STATUS_CORRUPT;
}

static bool at_digit(const struct json_scan *scan)
{
    return scan->at < scan->size && scan->bytes[scan->at] >= '0' && scan->bytes[scan->at] <= '9';
}

static void skip_digits(struct json_scan *scan)
{
    while (at_digit(scan))
        scan->at++;
}

static void skip_blanks(struct json_scan *scan)
{
    size_t at = scan->at;

    while (at < scan->size && (scan->bytes[at] == ' ' || scan->bytes[at] == '\n' ||
                               scan->bytes[at] == '\t' || scan->bytes[at] == '\r'))
        at++;
    scan->at = at;
}

static bool skip_word(struct json_scan *scan, const char *word)
{
    size_t length = strlen(word);

    if (scan->size - scan->at < length || memcmp(scan->bytes + scan->at, word, length) != 0)
        return false;
    scan->at += length;
    return true;
}

/* ---- strings ---- */

static int hex_digit(char byte)
{
    if (byte >= '0' && byte <= '9')
        return byte - '0';
    if (byte >= 'a' && byte <= 'f')
        return byte - 'a' + 10;
    if (byte >= 'A' && byte <= 'F')
        return byte - 'A' + 10;
    return -1;
}

/* True when \uXXXX stands at `bytes`. */
static bool read_unit(const char *bytes, size_t size, uint32_t *ret)
{
    uint32_t unit = 0;

    if (size < 6 || bytes[0] != '\\' || bytes[1] != 'u')
        return false;
    for (size_t i = 2; i < 6; i++) {
        int digit = hex_digit(bytes[i]);
        if (digit < 0)
            return false;
        unit = unit << 4 | (uint32_t) digit;
    }
    *ret = unit;
    return true;
}

size_t json_scan_escape(const char *bytes, size_t size, uint32_t *ret_code_point)
{
    uint32_t high = 0;
    uint32_t low = 0;

    if (!read_unit(bytes, size, &high))
        return 0;
    *ret_code_point = high;
    if (high < 0xd800 || high > 0xdbff || !read_unit(bytes + 6, size - 6, &low) || low < 0xdc00 ||
        low > 0xdfff)
        return 6;
    *ret_code_point = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
    return 12;
}

static bool needs_disguise(uint32_t code_point, bool is_key)
{
    return (code_point >= 0xd800 && code_point <= 0xdfff) || code_point == 0xfdd0 ||
           code_point == 0xfdd1 || (code_point == 0 && is_key);
}

static bool scan_escape(struct json_scan *scan, struct json_token *token)
{
    const char *bytes = scan->bytes + scan->at;
    size_t left = scan->size - scan->at;

    token->escaped = true;
    if (left < 2)
        return fail(scan, "the string does not end");
    if (bytes[1] != 'u') {
        if (!strchr("\"\\/bfnrt", bytes[1]) || bytes[1] == '\0')
            return fail(scan, "no such escape in a string");
        scan->at += 2;
        return true;
    }

    uint32_t code_point = 0;
    size_t length = json_scan_escape(bytes, left, &code_point);
    if (length == 0)
        return fail(scan, "\\u takes four hexadecimal digits");
    token->disguise |= needs_disguise(code_point, token->kind == JSON_TOKEN_KEY);
    scan->at += length;
    return true;
}

static bool scan_character(struct json_scan *scan, struct json_token *token)
{
    size_t length = 0;
    uint32_t code_point = text_decode(scan->bytes + scan->at, scan->size - scan->at, &length);

    if (length == 1) /* no ASCII comes here, so the byte was malformed */
        return fail(scan, "bytes that are not UTF-8");
    token->disguise |= needs_disguise(code_point, false);
    scan->at += length;
    return true;
}

/* Bytes of a string that need no second look; eight at a time, since most of a manifest is such. */
static size_t plain_run(const char *bytes, size_t size)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);
    const uint64_t highs = ones << 7;
    size_t at = 0;

    for (; size - at >= sizeof(uint64_t); at += sizeof(uint64_t)) {
        uint64_t word = 0;
        memcpy(&word, bytes + at, sizeof word);
        uint64_t quote = word ^ ones * '"';
        uint64_t backslash = word ^ ones * '\\';
        /* A high bit where a byte is below 0x20, equal to one of the two, or beyond ASCII. */
        if (((word - ones * 0x20) | (quote - ones) | (backslash - ones) | word) & highs)
            break;
    }
    while (at < size && (unsigned char) bytes[at] >= 0x20 && (unsigned char) bytes[at] < 0x80 &&
           bytes[at] != '"' && bytes[at] != '\\')
        at++;
    return at;
}

static bool scan_string(struct json_scan *scan, struct json_token *token)
{
    size_t opening = scan->at++;

    while (true) {
        scan->at += plain_run(scan->bytes + scan->at, scan->size - scan->at);
        if (scan->at == scan->size)
            break;
        unsigned char byte = (unsigned char) scan->bytes[scan->at];
        if (byte == '"') {
            scan->at++;
            return true;
        }
        if (byte < 0x20)
            return fail(scan, "a raw control character in a string");
        if (!(byte == '\\' ? scan_escape(scan, token) : scan_character(scan, token)))
            return false;
    }
    scan->at = opening;
    return fail(scan, "the string does not end");
}

/* ---- numbers ---- */

static bool scan_number(struct json_scan *scan, struct json_token *token)
{
    size_t start = scan->at;

    token->kind = JSON_TOKEN_INTEGER;
    if (scan->bytes[scan->at] == '-')
        scan->at++;
    size_t digits = scan->at;
    if (!at_digit(scan)) {
        scan->at = start;
        return fail(scan, "a value is missing");
    }
    if (scan->bytes[scan->at] == '0')
        scan->at++;
    else
        skip_digits(scan);

    size_t integer_end = scan->at;
    if (scan->at < scan->size && scan->bytes[scan->at] == '.') {
        scan->at++;
        if (!at_digit(scan))
            return fail(scan, "a digit is missing after the point");
        skip_digits(scan);
        token->kind = JSON_TOKEN_REAL;
    }
    if (scan->at < scan->size && (scan->bytes[scan->at] | 0x20) == 'e') {
        scan->at++;
        if (scan->at < scan->size && (scan->bytes[scan->at] == '+' || scan->bytes[scan->at] == '-'))
            scan->at++;
        if (!at_digit(scan))
            return fail(scan, "a digit is missing in the exponent");
        skip_digits(scan);
        token->kind = JSON_TOKEN_REAL;
    }
    if (token->kind == JSON_TOKEN_INTEGER && integer_end - digits > INTEGER_DIGITS_MAX) {
        scan->at = start;
        return fail(scan, "an integer of more than 4300 digits");
    }
    return true;
}

bool json_scan_integer(const char *bytes, size_t size, int64_t *ret)
{
    bool negative = size > 0 && bytes[0] == '-';
    uint64_t limit = (uint64_t) INT64_MAX + (negative ? 1 : 0);
    uint64_t value = 0;

    if (size == (negative ? 1u : 0u))
        return false;
    for (size_t i = negative ? 1 : 0; i < size; i++) {
        if (bytes[i] < '0' || bytes[i] > '9')
            return false;
        uint64_t digit = (uint64_t) (bytes[i] - '0');
        if (value > (limit - digit) / 10)
            return false;
        value = value * 10 + digit;
    }
    *ret = negative ? (int64_t) -value : (int64_t) value;
    return true;
}

/* ---- structure ---- */

static bool inside_object(const struct json_scan *scan)
{
    unsigned level = scan->depth - 1;

    return scan->objects[level / 64] >> (level % 64) & 1;
}

static bool open_container(struct json_scan *scan, bool is_object)
{
    if (scan->depth == scan->depth_max)
        return fail(scan, "nested too deeply");

    uint64_t bit = UINT64_C(1) << (scan->depth % 64);
    uint64_t *word = &scan->objects[scan->depth / 64];
    *word = is_object ? *word | bit : *word & ~bit;
    scan->depth++;
    scan->at++;
    scan->state = is_object ? WANT_KEY_OR_CLOSE : WANT_VALUE_OR_CLOSE;
    return true;
}

static void after_value(struct json_scan *scan)
{
    scan->state = scan->depth == 0 ? WANT_END : WANT_COMMA_OR_CLOSE;
}

static void close_container(struct json_scan *scan, struct json_token *token)
{
    token->kind = inside_object(scan) ? JSON_TOKEN_OBJECT_CLOSE : JSON_TOKEN_ARRAY_CLOSE;
    scan->depth--;
    scan->at++;
    after_value(scan);
}

static bool scan_scalar(struct json_scan *scan, struct json_token *token)
{
    if (scan->bytes[scan->at] == '"') {
        token->kind = JSON_TOKEN_STRING;
        if (!scan_string(scan, token))
            return false;
    } else if (skip_word(scan, "true") || skip_word(scan, "false") || skip_word(scan, "null")) {
        token->kind = JSON_TOKEN_WORD;
    } else if (skip_word(scan, "NaN") || skip_word(scan, "Infinity") ||
               skip_word(scan, "-Infinity")) {
        token->kind = JSON_TOKEN_FLOAT;
    } else if (!scan_number(scan, token)) {
        return false;
    }
    after_value(scan);
    return true;
}

static bool scan_value(struct json_scan *scan, struct json_token *token)
{
    switch (scan->bytes[scan->at]) {
    case '{':
        token->kind = JSON_TOKEN_OBJECT_OPEN;
        return open_container(scan, true);
    case '[':
        token->kind = JSON_TOKEN_ARRAY_OPEN;
        return open_container(scan, false);
    default:
        return scan_scalar(scan, token);
    }
}

static bool scan_key(struct json_scan *scan, struct json_token *token)
{
    token->kind = JSON_TOKEN_KEY;
    if (scan->bytes[scan->at] != '"')
        return fail(scan, "a key in double quotes is missing");
    scan->state = WANT_COLON;
    return scan_string(scan, token);
}

/* Passes the colon or comma before the token proper. */
static bool skip_separator(struct json_scan *scan)
{
    if (scan->at == scan->size)
        return true;
    if (scan->state == WANT_COLON) {
        if (scan->bytes[scan->at] != ':')
            return fail(scan, "a colon is missing after the key");
        scan->state = WANT_VALUE;
    } else if (scan->state == WANT_COMMA_OR_CLOSE && scan->bytes[scan->at] == ',') {
        scan->state = inside_object(scan) ? WANT_KEY : WANT_VALUE;
    } else {
        return true;
    }
    scan->at++;
    skip_blanks(scan);
    return true;
}

static bool scan_end(struct json_scan *scan, struct json_token *token)
{
    if (scan->at < scan->size)
        return fail(scan, "something follows the value");
    token->kind = JSON_TOKEN_END;
    token->start = token->end = scan->at;
    return true;
}

static bool scan_close(struct json_scan *scan, struct json_token *token)
{
    if (scan->bytes[scan->at] != (inside_object(scan) ? '}' : ']'))
        return fail(scan, "a comma or a closing bracket is missing");
    close_container(scan, token);
    return true;
}

static bool scan_token(struct json_scan *scan, struct json_token *token)
{
    char byte = scan->bytes[scan->at];

    switch ((enum scan_state) scan->state) {
    case WANT_COMMA_OR_CLOSE:
        return scan_close(scan, token);
    case WANT_KEY_OR_CLOSE:
        if (byte == '}')
            return scan_close(scan, token);
        return scan_key(scan, token);
    case WANT_KEY:
        return scan_key(scan, token);
    case WANT_VALUE_OR_CLOSE:
        if (byte == ']')
            return scan_close(scan, token);
        return scan_value(scan, token);
    case WANT_VALUE:
    case WANT_COLON: /* passed by skip_separator() */
    case WANT_END:   /* taken by scan_end() */
        break;
    }
    return scan_value(scan, token);
}

bool json_scan_next(struct json_scan *scan, struct json_token *ret)
{
    struct json_token token = {0};

    skip_blanks(scan);
    if (scan->state == WANT_END) {
        if (!scan_end(scan, &token))
            return false;
        *ret = token;
        return true;
    }
    if (!skip_separator(scan))
        return false;
    if (scan->at == scan->size)
        return fail(scan, scan->size == 0 ? "the text is empty" : "the text ends too early");

    token.start = scan->at;
    if (!scan_token(scan, &token))
        return false;
    token.end = scan->at;
    *ret = token;
    return true;
}
