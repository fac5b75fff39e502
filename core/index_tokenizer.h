/* core/index_tokenizer.h - the FTS5 tokenizer "memsync": puts the scope in front of every token.
 *
 * "deploy" of scope 7 is the term "7:deploy", so no query can meet another scope's texts, whatever
 * its syntax. Without a scope it refuses to work. Texts go through the analyzer; queries are
 * rendered from analysed tokens already (core/query.h), so they are only cut.
 */
#ifndef MEMSYNC_CORE_INDEX_TOKENIZER_H
#define MEMSYNC_CORE_INDEX_TOKENIZER_H

#include "core/status.h"

#include <stdint.h>

struct sqlite3;

/* The scope of one connection. It lives as long as the connection does. */
struct token_scope;

/* Registers the tokenizer with a connection. An SQLite result code. */
int index_tokenizer_register(struct sqlite3 *db, struct token_scope **ret);

/* Tokens belong to `scope_id` (above 0) from now on; 0: to none, and every use fails. */
void token_scope_set(struct token_scope *scope, int64_t scope_id);

#endif
