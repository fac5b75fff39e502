#include "core/query_private.h"

#include <string.h>

/* Weight of a single ideograph out of a longer run: it ranks, it does not find. */
#define CHARACTER_WEIGHT 0.2

#define SLOTS (4 * QUERY_TOKENS_MAX) /* open addressing, a power of two */

struct word {
    char *bytes;
    size_t size;
    double weight;
    bool optional;
};

/* Collects the distinct tokens of a query. A character becomes optional once a neighbour shows that
 * it stands in a longer run, so it is kept back until the next token is seen. */
struct words {
    struct word words[QUERY_TOKENS_MAX];
    size_t count;
    uint16_t slots[SLOTS]; /* index + 1 */
    bool truncated;
    bool has_pending;
    bool pending_optional;
    char pending[ANALYZER_TOKEN_BYTES_MAX];
    size_t pending_size;
    unsigned pending_position;
    bool after_pair; /* the last token was a pair at `pair_position` */
    unsigned pair_position;
};

static uint32_t hash_bytes(const char *bytes, size_t size)
{
    uint32_t hash = 2166136261u;

    for (size_t i = 0; i < size; i++)
        hash = (hash ^ (unsigned char) bytes[i]) * 16777619u;
    return hash;
}

static enum status words_add(struct words *words, const char *bytes, size_t size, bool optional)
{
    double weight = optional ? CHARACTER_WEIGHT : 1.0;
    uint32_t slot = hash_bytes(bytes, size) % SLOTS;

    for (; words->slots[slot]; slot = (slot + 1) % SLOTS) {
        struct word *known = &words->words[words->slots[slot] - 1];
        if (known->size != size || memcmp(known->bytes, bytes, size) != 0)
            continue;
        known->weight = weight > known->weight ? weight : known->weight;
        known->optional = known->optional && optional;
        return STATUS_OK;
    }
    if (words->count == QUERY_TOKENS_MAX) {
        words->truncated = true;
        return STATUS_OK;
    }

    struct word *word = &words->words[words->count];
    word->bytes = malloc(size);
    if (!word->bytes)
        return STATUS_NO_MEMORY;
    memcpy(word->bytes, bytes, size);
    word->size = size;
    word->weight = weight;
    word->optional = optional;
    words->slots[slot] = (uint16_t) ++words->count;
    return STATUS_OK;
}

static enum status words_settle(struct words *words)
{
    if (!words->has_pending)
        return STATUS_OK;
    words->has_pending = false;
    return words_add(words, words->pending, words->pending_size, words->pending_optional);
}

static enum status collect_character(struct words *words, const struct token *token)
{
    enum status status = words_settle(words);

    memcpy(words->pending, token->bytes, token->size);
    words->pending_size = token->size;
    words->pending_position = token->position;
    words->pending_optional = words->after_pair && words->pair_position + 1 == token->position;
    words->has_pending = true;
    words->after_pair = false;
    return status;
}

static enum status collect(void *context, const struct token *token)
{
    struct words *words = context;

    if (token->kind == TOKEN_CHARACTER)
        return collect_character(words, token);
    if (token->kind == TOKEN_PAIR) {
        words->pending_optional = true;
        words->after_pair = true;
        words->pair_position = token->position;
    } else {
        words->after_pair = false;
    }
    enum status status = words_settle(words);
    if (status == STATUS_OK)
        status = words_add(words, token->bytes, token->size, false);
    return status;
}

static void words_clear(struct words *words)
{
    for (size_t i = 0; i < words->count; i++)
        free(words->words[i].bytes);
    words->count = 0;
}

void query_render_token(struct text *expression, const char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (bytes[i] == '"')
            text_append_char(expression, '"');
        text_append_char(expression, bytes[i]);
    }
}

static void render_words(const struct words *words, struct query *query)
{
    for (size_t i = 0; i < words->count; i++) {
        const struct word *word = &words->words[i];

        text_append_string(&query->expression, i == 0 ? "\"" : " OR \"");
        query_render_token(&query->expression, word->bytes, word->size);
        text_append_char(&query->expression, '"');
        query->phrases[i].weight = word->weight;
        query->phrases[i].optional = word->optional;
    }
    query->count = words->count;
    query->truncated = words->truncated;
}

static enum status parse_words(const char *bytes, size_t size, struct query *query)
{
    AUTO_FREE struct words *words = calloc(1, sizeof *words);

    if (!words)
        return STATUS_NO_MEMORY;
    enum status status = analyzer_run(bytes, size, collect, words);
    if (status == STATUS_OK)
        status = words_settle(words);
    if (status == STATUS_OK)
        render_words(words, query);
    words_clear(words);
    query->strategy = "words";
    return status;
}

static void query_reset(struct query *query)
{
    text_destroy(&query->expression);
    memset(query, 0, sizeof *query);
}

static enum status parse_into(const char *bytes, size_t size, struct query *query)
{
    enum status status = STATUS_OK;

    if (query_parse_advanced(bytes, size, query, &status))
        return status;
    query_reset(query);
    return status == STATUS_OK ? parse_words(bytes, size, query) : status;
}

enum status query_parse(const char *bytes, size_t size, struct query **ret)
{
    struct query *query = calloc(1, sizeof *query);
    size_t used = text_cut(bytes, size, QUERY_BYTES_MAX);

    if (!query)
        return STATUS_NO_MEMORY;
    enum status status = parse_into(bytes, used, query);
    if (status == STATUS_OK && !text_ok(&query->expression))
        status = STATUS_NO_MEMORY;
    if (status != STATUS_OK) {
        query_destroy(&query);
        return status;
    }
    query->truncated = query->truncated || used < size;
    *ret = query;
    return STATUS_OK;
}

void query_destroy(struct query **query)
{
    if (!*query)
        return;
    text_destroy(&(*query)->expression);
    free(*query);
    *query = NULL;
}

bool query_is_empty(const struct query *query)
{
    return query->count == 0;
}

bool query_is_truncated(const struct query *query)
{
    return query->truncated;
}

const char *query_strategy(const struct query *query)
{
    return query->strategy;
}

size_t query_phrase_count(const struct query *query)
{
    return query->count;
}

double query_phrase_weight(const struct query *query, size_t phrase)
{
    return query->phrases[phrase].weight;
}

bool query_phrase_is_optional(const struct query *query, size_t phrase)
{
    return query->phrases[phrase].optional;
}

const char *query_expression(const struct query *query)
{
    return text_string(&query->expression);
}
