/* core/scope.h - identities and the places they have on a volume.
 *
 * A scope is (user, agent); a bucket is a user's directory. The rules are those of the volume
 * format (docs/volume-format.md): the directory of a user is the raw id when it consists of A-Z a-z
 * 0-9 _ - only, else every other code point becomes one '-' and '-' plus 16 hexadecimal digits of
 * SHA-256 of the raw id follow; an agent's directory is its name in lower case; a fact lies in the
 * shard named by the first two hexadecimal digits of SHA-256 of its id. Nothing here does I/O.
 */
#ifndef MEMSYNC_CORE_SCOPE_H
#define MEMSYNC_CORE_SCOPE_H

#include "core/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SCOPE_NAME_MAX 255  /* bytes of a directory or file name */
#define SCOPE_USER_MAX 1020 /* bytes of a raw user id: 255 characters of four bytes */
#define SCOPE_DEFAULT_AGENT "__default__"
#define SCOPE_LEGACY_AGENT "lead-agent" /* the earlier name of the default bucket */
#define FACT_ID_MAX 252                 /* bytes: with ".md" it is a file name */

/* Longest path of this module: users/U/agents/A/facts/xx/F.md */
#define SCOPE_PATH_MAX 1100

struct scope {
    bool has_user;                 /* false: the volume's root is the bucket, nobody is logged in */
    char user[SCOPE_USER_MAX + 1]; /* the raw id; "" without a user */
    char bucket[SCOPE_NAME_MAX + 1]; /* its directory below users/; "" without a user */
    char agent[SCOPE_NAME_MAX + 1];  /* in lower case; never empty */
};

/* Builds a scope. `user` NULL means "no user"; an empty user is STATUS_INVALID. `agent` NULL means
 * the default agent. Ids that are not UTF-8, agent names outside [A-Za-z0-9-]+ (and not
 * __default__), and names too long for a directory are STATUS_INVALID with a message that names the
 * parameter. */
MUST_CHECK enum status scope_create(const char *user, const char *agent, struct scope *ret,
                                    struct error *error);

/* Same user and same agent. */
bool scope_equal(const struct scope *a, const struct scope *b);

/* For hash tables in memory; equal scopes have equal hashes. */
uint64_t scope_hash(const struct scope *scope);

/* 128 bits, which may stand for the scope where a clash is harmless. */
void scope_hash_wide(const struct scope *scope, uint64_t ret[2]);

/* Turns a raw user id into its directory name. `ret` holds SCOPE_NAME_MAX + 1 bytes. */
MUST_CHECK enum status scope_bucket_of_user(const char *user, char *ret, struct error *error);

/* True when some raw id other than `bucket` itself may own that directory, i.e. it ends in '-' and
 * 16 lower-case hexadecimal digits. */
bool scope_bucket_is_ambiguous(const char *bucket);

/* True for a name that a user's directory can have: A-Z a-z 0-9 _ - only, 1 to 255 bytes. */
bool scope_bucket_is_valid(const char *bucket);

/* Checks an agent's name and folds it to lower case. `ret` holds SCOPE_NAME_MAX + 1 bytes. */
MUST_CHECK enum status scope_agent_fold(const char *agent, char *ret, struct error *error);

/* True for [A-Za-z0-9_-]+ of at most FACT_ID_MAX bytes. */
bool fact_id_is_valid(const char *id);

/* The two lower-case hexadecimal digits of the shard, and a NUL. */
void fact_id_shard(const char *id, char ret[3]);

/* A manifest's name: a plain name that ends in ".json". */
bool manifest_name_is_valid(const char *name);

/* True for parts separated by single slashes, none of them hidden, `..`, or too long for a name. */
bool relative_path_is_plain(const char *path);

/* Paths relative to the volume's root; `ret` holds SCOPE_PATH_MAX bytes. The root bucket is ".". */
void scope_bucket_path(const struct scope *scope, char *ret);
void scope_facts_path(const struct scope *scope, char *ret);
/* bucket + "/" + name */
void scope_file_path(const struct scope *scope, const char *name, char *ret);

#endif
