#include "core/index_tokenizer.h"

#include "core/analyzer.h"
#include "core/index_private.h"
#include "core/query.h"

#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#define PREFIX_MAX 24

struct token_scope {
    char prefix[PREFIX_MAX];
    size_t prefix_size; /* 0: no scope */
};

struct run {
    int (*take)(void *, int, const char *, int, int, int);
    void *context;
    size_t prefix_size;
    char token[PREFIX_MAX + ANALYZER_TOKEN_BYTES_MAX]; /* begins with the prefix */
    int result;
};

void token_scope_set(struct token_scope *scope, int64_t scope_id)
{
    scope->prefix_size = 0;
    if (scope_id > 0)
        scope->prefix_size =
            (size_t) snprintf(scope->prefix, sizeof scope->prefix, "%lld:", (long long) scope_id);
}

static int give(struct run *run, int flags, const char *bytes, size_t size, size_t start,
                size_t end)
{
    if (size == 0 || size > ANALYZER_TOKEN_BYTES_MAX)
        return SQLITE_OK;
    memcpy(run->token + run->prefix_size, bytes, size);
    return run->take(run->context, flags, run->token, (int) (run->prefix_size + size), (int) start,
                     (int) end);
}

static enum status give_analysed(void *context, const struct token *token)
{
    struct run *run = context;
    bool shares = token->kind == TOKEN_COMPOUND || token->kind == TOKEN_PAIR;

    run->result = give(run, shares ? FTS5_TOKEN_COLOCATED : 0, token->bytes, token->size,
                       token->start, token->end);
    return run->result == SQLITE_OK ? STATUS_OK : STATUS_INTERNAL;
}

static int give_query(struct run *run, const char *bytes, size_t size)
{
    int result = SQLITE_OK;

    while (size > 0 && result == SQLITE_OK) {
        const char *cut = memchr(bytes, QUERY_TOKEN_SEPARATOR, size);
        size_t length = cut ? (size_t) (cut - bytes) : size;

        result = give(run, 0, bytes, length, 0, length);
        bytes += length + (cut ? 1 : 0);
        size -= length + (cut ? 1 : 0);
    }
    return result;
}

static int tokenizer_run(Fts5Tokenizer *tokenizer, void *context, int flags, const char *bytes,
                         int size, int (*take)(void *, int, const char *, int, int, int))
{
    const struct token_scope *scope = (const struct token_scope *) tokenizer;
    struct run run = {.take = take, .context = context, .prefix_size = scope->prefix_size};

    if (scope->prefix_size == 0)
        return SQLITE_AUTH;
    memcpy(run.token, scope->prefix, scope->prefix_size);
    if (flags & FTS5_TOKENIZE_QUERY)
        return give_query(&run, bytes, (size_t) size);

    enum status status = analyzer_run(bytes, (size_t) size, give_analysed, &run);
    if (run.result != SQLITE_OK)
        return run.result;
    if (status == STATUS_NO_MEMORY)
        return SQLITE_NOMEM;
    return status == STATUS_OK ? SQLITE_OK : SQLITE_INTERNAL;
}

/* Every instance is the connection's one token_scope. */
static int tokenizer_create(void *context, const char **arguments UNUSED, int count UNUSED,
                            Fts5Tokenizer **ret)
{
    *ret = (Fts5Tokenizer *) context;
    return SQLITE_OK;
}

static void tokenizer_delete(Fts5Tokenizer *tokenizer UNUSED)
{
}

int index_fts5_api(sqlite3 *db, fts5_api **ret)
{
    sqlite3_stmt *statement = NULL;
    fts5_api *api = NULL;
    int result = sqlite3_prepare_v2(db, "SELECT fts5(?1)", -1, &statement, NULL);

    if (result == SQLITE_OK)
        result = sqlite3_bind_pointer(statement, 1, (void *) &api, "fts5_api_ptr", NULL);
    if (result == SQLITE_OK)
        result = sqlite3_step(statement);
    (void) sqlite3_finalize(statement);
    if (result != SQLITE_ROW)
        return result == SQLITE_DONE || result == SQLITE_OK ? SQLITE_NOTFOUND : result;
    *ret = api;
    return api ? SQLITE_OK : SQLITE_NOTFOUND;
}

int index_tokenizer_register(sqlite3 *db, struct token_scope **ret)
{
    fts5_tokenizer tokenizer = {.xCreate = tokenizer_create,
                                .xDelete = tokenizer_delete,
                                .xTokenize = tokenizer_run};
    fts5_api *api = NULL;
    int result = index_fts5_api(db, &api);

    if (result != SQLITE_OK)
        return result;
    struct token_scope *scope = calloc(1, sizeof *scope);
    if (!scope)
        return SQLITE_NOMEM;
    result = api->xCreateTokenizer(api, "memsync", scope, &tokenizer, free);
    if (result != SQLITE_OK) {
        free(scope);
        return result;
    }
    *ret = scope;
    return SQLITE_OK;
}
