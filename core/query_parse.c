#include "core/query_private.h"

#include "core/analyzer_text.h"

#include <string.h>

/*  any     := all (OR all)*
 *  all     := without (AND without)*
 *  without := beside (NOT beside)*
 *  beside  := operand operand*                      standing beside each other means AND
 *  operand := "(" any ")" | near | phrase | word
 *  near    := NEAR "(" (phrase | word)+ ["," number] ")"
 *  phrase  := '"' text '"' ["*"]
 *  word    := letters and digits ["*"]               "*" directly behind
 *
 * Anything else is no advanced query at all. Compounds (db-prod-01) count as words only beside AND,
 * OR, NOT or NEAR, since people who write user's "dark mode" mean no operator. Each rule tells
 * whether it rendered anything: what holds no word is dropped ("--" OR alpha is alpha). */

/* SQLite's own parser of expressions has a stack of 100 symbols, and a bracket may need three. */
#define RENDERED_DEPTH_MAX 24

enum lexeme {
    LEXEME_END,
    LEXEME_WORD,
    LEXEME_PHRASE,
    LEXEME_AND,
    LEXEME_OR,
    LEXEME_NOT,
    LEXEME_NEAR,
    LEXEME_OPEN,
    LEXEME_CLOSE,
    LEXEME_COMMA,
    LEXEME_STAR,
    LEXEME_OTHER, /* makes the query plain words */
};

struct parser {
    const char *bytes;
    size_t size;
    size_t at;
    enum lexeme lexeme; /* the current one */
    const char *text;   /* of a word or phrase */
    size_t text_size;
    bool touches_star;      /* a star follows without a blank between */
    bool has_operator;      /* of any kind: AND and the like, a phrase, a star */
    bool has_word_operator; /* AND, OR, NOT, NEAR */
    bool used_joint;        /* some bare word holds one */
    unsigned depth;
    size_t token_count;
    bool failed;
    enum status status;
    struct query *query;
};

/* ---- lexemes ---- */

static bool is_blank(char byte)
{
    return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r';
}

/* Bytes that a word may consist of: what the peers take bare, i.e. ASCII letters, digits and _, and
 * all beyond ASCII that is no separator. */
static size_t word_character(const struct parser *parser, size_t at)
{
    size_t length;
    uint32_t character = text_decode(parser->bytes + at, parser->size - at, &length);

    if (character == '_')
        return length;
    enum character_class class = character_classify((UChar32) character);
    return class == CHARACTER_SEPARATOR || class == CHARACTER_JOINT ? 0 : length;
}

static size_t joint_character(const struct parser *parser, size_t at)
{
    size_t length;
    uint32_t character = text_decode(parser->bytes + at, parser->size - at, &length);

    if (character == ',' || character_classify((UChar32) character) != CHARACTER_JOINT)
        return 0;
    return length;
}

static size_t word_end(struct parser *parser, size_t at)
{
    if (word_character(parser, at) == 0)
        return at;
    while (at < parser->size) {
        size_t length = word_character(parser, at);
        if (length == 0) {
            length = joint_character(parser, at);
            if (length == 0 || at + length >= parser->size ||
                word_character(parser, at + length) == 0)
                break;
            parser->used_joint = true;
        }
        at += length;
    }
    return at;
}

static enum lexeme operator_of(const char *text, size_t size)
{
    static const struct {
        const char *name;
        enum lexeme lexeme;
    } operators[] = {{"AND", LEXEME_AND},
                     {"OR", LEXEME_OR},
                     {"NOT", LEXEME_NOT},
                     {"NEAR", LEXEME_NEAR}};

    for (size_t i = 0; i < ARRAY_SIZE(operators); i++) {
        if (strlen(operators[i].name) == size && memcmp(operators[i].name, text, size) == 0)
            return operators[i].lexeme;
    }
    return LEXEME_WORD;
}

static enum lexeme scan_word(struct parser *parser)
{
    size_t end = word_end(parser, parser->at);

    if (end == parser->at)
        return LEXEME_OTHER;
    parser->text = parser->bytes + parser->at;
    parser->text_size = end - parser->at;
    parser->at = end;
    parser->touches_star = end < parser->size && parser->bytes[end] == '*';
    return operator_of(parser->text, parser->text_size);
}

static enum lexeme scan_phrase(struct parser *parser)
{
    const char *begin = parser->bytes + parser->at + 1;
    const char *end = memchr(begin, '"', parser->size - parser->at - 1);

    if (!end)
        return LEXEME_OTHER;
    parser->text = begin;
    parser->text_size = (size_t) (end - begin);
    parser->at = (size_t) (end + 1 - parser->bytes);
    return LEXEME_PHRASE;
}

static enum lexeme scan(struct parser *parser)
{
    while (parser->at < parser->size && is_blank(parser->bytes[parser->at]))
        parser->at++;
    if (parser->at == parser->size)
        return LEXEME_END;

    switch (parser->bytes[parser->at]) {
    case '"':
        return scan_phrase(parser);
    case '(':
        parser->at++;
        return LEXEME_OPEN;
    case ')':
        parser->at++;
        return LEXEME_CLOSE;
    case ',':
        parser->at++;
        return LEXEME_COMMA;
    case '*':
        parser->at++;
        return LEXEME_STAR;
    default:
        return scan_word(parser);
    }
}

static void advance(struct parser *parser)
{
    parser->lexeme = scan(parser);
}

static void advance_operator(struct parser *parser)
{
    parser->has_operator = true;
    parser->has_word_operator = true;
    advance(parser);
}

static void fail(struct parser *parser)
{
    parser->failed = true;
    parser->lexeme = LEXEME_END;
}

/* ---- rendering ---- */

struct rendering {
    struct parser *parser;
    size_t tokens;
};

/* A phrase consists of words and single characters; what shares a position with them is left out.
 */
static enum status render_phrase_token(void *context, const struct token *token)
{
    struct rendering *rendering = context;
    struct parser *parser = rendering->parser;

    if (token->kind == TOKEN_COMPOUND || token->kind == TOKEN_PAIR)
        return STATUS_OK;
    if (parser->token_count == QUERY_TOKENS_MAX) {
        fail(parser);
        return STATUS_TOO_LARGE;
    }
    parser->token_count++;
    text_append_char(&parser->query->expression,
                     rendering->tokens++ == 0 ? '"' : QUERY_TOKEN_SEPARATOR);
    query_render_token(&parser->query->expression, token->bytes, token->size);
    return STATUS_OK;
}

/* Renders the current word or phrase with its star; false when it holds no word. */
static bool render_phrase(struct parser *parser)
{
    struct rendering rendering = {.parser = parser};
    bool is_word = parser->lexeme == LEXEME_WORD;
    bool star = is_word && parser->touches_star;
    enum status status =
        analyzer_run(parser->text, parser->text_size, render_phrase_token, &rendering);

    if (status != STATUS_OK && !parser->failed) {
        parser->status = status;
        fail(parser);
    }
    if (parser->failed)
        return false;
    advance(parser);
    if (parser->lexeme == LEXEME_STAR && (star || !is_word)) {
        star = true;
        parser->has_operator = true;
        size_t after = parser->at;
        if (after < parser->size && word_character(parser, after) > 0)
            fail(parser); /* foo*bar is no prefix */
        else
            advance(parser);
    }
    if (rendering.tokens == 0)
        return false;
    text_append_string(&parser->query->expression, star ? "\" *" : "\"");
    parser->query->phrases[parser->query->count++].weight = 1.0;
    return true;
}

/* Brackets and operators go in when a rule knows that it needs them. */
static void insert_text(struct parser *parser, size_t from, const char *inserted)
{
    struct text *expression = &parser->query->expression;
    size_t length = strlen(inserted);
    size_t tail = expression->size - from;

    text_append(expression, inserted, length);
    if (!text_ok(expression))
        return;
    memmove(expression->bytes + from + length, expression->bytes + from, tail);
    memcpy(expression->bytes + from, inserted, length);
}

/* ---- grammar ---- */

static bool parse_any(struct parser *parser);

static bool starts_operand(enum lexeme lexeme)
{
    return lexeme == LEXEME_WORD || lexeme == LEXEME_PHRASE || lexeme == LEXEME_OPEN ||
           lexeme == LEXEME_NEAR;
}

static unsigned near_distance(struct parser *parser)
{
    unsigned distance = 0;

    if (parser->text_size == 0 || parser->text_size > 4) {
        fail(parser);
        return 0;
    }
    for (size_t i = 0; i < parser->text_size; i++) {
        if (parser->text[i] < '0' || parser->text[i] > '9') {
            fail(parser);
            return 0;
        }
        distance = distance * 10 + (unsigned) (parser->text[i] - '0');
    }
    return distance;
}

static bool parse_near(struct parser *parser)
{
    struct text *expression = &parser->query->expression;
    size_t from = expression->size;
    size_t before = parser->query->count;
    unsigned distance = 10;

    advance_operator(parser);
    if (parser->lexeme != LEXEME_OPEN) {
        fail(parser);
        return false;
    }
    advance(parser);
    while (parser->lexeme == LEXEME_WORD || parser->lexeme == LEXEME_PHRASE) {
        if (render_phrase(parser))
            text_append_char(expression, ' ');
    }
    if (parser->lexeme == LEXEME_COMMA) {
        advance(parser);
        if (parser->lexeme == LEXEME_WORD)
            distance = near_distance(parser);
        else
            fail(parser);
        if (!parser->failed)
            advance(parser);
    }
    if (parser->lexeme != LEXEME_CLOSE)
        fail(parser);
    if (parser->failed || parser->query->count == before)
        return false;
    advance(parser);
    insert_text(parser, from, "NEAR(");
    text_append_format(expression, ", %u)", distance);
    return true;
}

static bool parse_operand(struct parser *parser)
{
    bool found;

    switch (parser->lexeme) {
    case LEXEME_PHRASE:
        parser->has_operator = true;
        return render_phrase(parser);
    case LEXEME_WORD:
        return render_phrase(parser);
    case LEXEME_NEAR:
        return parse_near(parser);
    case LEXEME_OPEN:
        if (++parser->depth > QUERY_DEPTH_MAX) {
            fail(parser);
            return false;
        }
        advance(parser);
        found = parse_any(parser);
        parser->depth--;
        if (parser->lexeme != LEXEME_CLOSE)
            fail(parser);
        else
            advance(parser);
        return found && !parser->failed;
    default:
        fail(parser);
        return false;
    }
}

/* Operands with the same operator between them, which is a lexeme or, for LEXEME_END, nothing. An
 * operand without words leaves the others alone. */
static bool parse_chain(struct parser *parser, enum lexeme lexeme, const char *operator_text,
                        bool (*rule)(struct parser *))
{
    struct text *expression = &parser->query->expression;
    size_t from = expression->size;
    unsigned operands = 0;

    for (;;) {
        size_t middle = expression->size;
        if (rule(parser) && operands++ > 0)
            insert_text(parser, middle, operator_text);
        if (parser->failed)
            return false;
        if (lexeme == LEXEME_END ? !starts_operand(parser->lexeme) : parser->lexeme != lexeme)
            break;
        if (lexeme != LEXEME_END)
            advance_operator(parser);
    }
    if (operands > 1) {
        insert_text(parser, from, "(");
        text_append_char(expression, ')');
    }
    return operands > 0;
}

static bool parse_beside(struct parser *parser)
{
    return parse_chain(parser, LEXEME_END, " AND ", parse_operand);
}

/* What is to be left out is collected into one OR, so that a long chain does not nest. */
static bool parse_without(struct parser *parser)
{
    struct text *expression = &parser->query->expression;
    size_t from = expression->size;
    size_t count = parser->query->count;
    bool found = parse_beside(parser);
    size_t middle = expression->size;

    if (parser->failed || parser->lexeme != LEXEME_NOT)
        return found;
    advance_operator(parser);
    if (!parse_chain(parser, LEXEME_NOT, " OR ", parse_beside) || parser->failed)
        return found;
    if (!found) { /* nothing to take it away from */
        expression->size = from;
        if (expression->bytes)
            expression->bytes[from] = '\0';
        parser->query->count = count;
        return false;
    }
    insert_text(parser, middle, " NOT ");
    insert_text(parser, from, "(");
    text_append_char(expression, ')');
    return true;
}

static bool parse_all(struct parser *parser)
{
    return parse_chain(parser, LEXEME_AND, " AND ", parse_without);
}

static bool parse_any(struct parser *parser)
{
    return parse_chain(parser, LEXEME_OR, " OR ", parse_all);
}

/* How deep the rendered brackets nest. */
static unsigned nesting(const struct text *expression)
{
    unsigned depth = 0, deepest = 0;
    bool quoted = false;

    for (size_t i = 0; i < expression->size; i++) {
        char byte = expression->bytes[i];
        if (byte == '"')
            quoted = !quoted;
        else if (!quoted && byte == '(' && ++depth > deepest)
            deepest = depth;
        else if (!quoted && byte == ')')
            depth--;
    }
    return deepest;
}

bool query_parse_advanced(const char *bytes, size_t size, struct query *query,
                          enum status *ret_status)
{
    struct parser parser = {.bytes = bytes, .size = size, .query = query};

    query->strategy = "advanced";
    advance(&parser);
    (void) parse_any(&parser);
    *ret_status = parser.status;
    if (parser.failed || parser.lexeme != LEXEME_END || !text_ok(&query->expression))
        return false;
    if (parser.used_joint && !parser.has_word_operator)
        return false;
    return parser.has_operator && nesting(&query->expression) <= RENDERED_DEPTH_MAX;
}
