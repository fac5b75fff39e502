#include "core/scope.h"

#include "core/json_disguise.h"
#include "core/signature.h"
#include "core/text.h"

#include <assert.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#define BUCKET_DIGEST_DIGITS 16
#define JOURNAL_NAME ".memory.journal.json"

static_assert(SCOPE_PATH_MAX > sizeof "users/agents/facts/xx/" + 3UL * SCOPE_NAME_MAX + 3,
              "the longest path fits");

static bool is_lower_hex(char byte)
{
    return (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'f');
}

static bool is_letter_or_digit(char byte)
{
    return (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z') ||
           (byte >= 'A' && byte <= 'Z');
}

/* A-Z a-z 0-9 _ -, whatever the locale says. */
static bool is_plain(char byte)
{
    return is_letter_or_digit(byte) || byte == '_' || byte == '-';
}

static bool is_plain_name(const char *name, size_t size_max)
{
    size_t size = 0;

    for (; name[size]; size++) {
        if (size == size_max || !is_plain(name[size]))
            return false;
    }
    return size > 0;
}

/* The first `digits` hexadecimal digits of SHA-256, and a NUL. */
static void digest_digits(const char *bytes, size_t size, size_t digits, char *ret)
{
    unsigned char digest[crypto_hash_sha256_BYTES];
    char hex[2 * sizeof digest + 1];

    (void) crypto_hash_sha256(digest, (const unsigned char *) bytes, size);
    (void) sodium_bin2hex(hex, sizeof hex, digest, sizeof digest);
    memcpy(ret, hex, digits);
    ret[digits] = '\0';
}

/* Writes one '-' for each character that is not plain; returns the length, 0 when it is too long.
 */
static size_t replace_characters(const char *user, size_t size, char *ret, size_t size_max)
{
    size_t used = 0;

    for (size_t at = 0, length; at < size; at += length) {
        (void) text_decode(user + at, size - at, &length);
        if (used == size_max)
            return 0;
        ret[used++] = (char) (is_plain(user[at]) ? user[at] : '-');
    }
    return used;
}

enum status scope_bucket_of_user(const char *user, char *ret, struct error *error)
{
    size_t size = strlen(user);
    char bucket[SCOPE_NAME_MAX + 1];

    if (size == 0)
        return error_set(error, STATUS_INVALID, NULL, "user_id must not be empty");
    if (!text_is_utf8(user, size))
        return error_set(error, STATUS_INVALID, NULL, "user_id is not UTF-8");
    if (is_plain_name(user, SCOPE_NAME_MAX)) {
        memcpy(ret, user, size + 1);
        return STATUS_OK;
    }

    size_t used = replace_characters(user, size, bucket, SCOPE_NAME_MAX - 1 - BUCKET_DIGEST_DIGITS);
    if (used == 0)
        return error_set(error, STATUS_INVALID, NULL, "user_id is too long for a directory name");
    bucket[used++] = '-';
    digest_digits(user, size, BUCKET_DIGEST_DIGITS, bucket + used);
    memcpy(ret, bucket, used + BUCKET_DIGEST_DIGITS + 1);
    return STATUS_OK;
}

bool scope_bucket_is_ambiguous(const char *bucket)
{
    size_t size = strlen(bucket);

    if (size < 1 + BUCKET_DIGEST_DIGITS || bucket[size - BUCKET_DIGEST_DIGITS - 1] != '-')
        return false;
    for (size_t i = size - BUCKET_DIGEST_DIGITS; i < size; i++) {
        if (!is_lower_hex(bucket[i]))
            return false;
    }
    return true;
}

bool scope_bucket_is_valid(const char *bucket)
{
    return is_plain_name(bucket, SCOPE_NAME_MAX);
}

enum status scope_agent_fold(const char *agent, char *ret, struct error *error)
{
    size_t size = strlen(agent);

    if (strcmp(agent, SCOPE_DEFAULT_AGENT) != 0) {
        if (size == 0)
            return error_set(error, STATUS_INVALID, NULL, "agent_name must not be empty");
        if (size > SCOPE_NAME_MAX)
            return error_set(error, STATUS_INVALID, NULL, "agent_name is longer than %d bytes",
                             SCOPE_NAME_MAX);
        for (size_t i = 0; i < size; i++) {
            if (!is_letter_or_digit(agent[i]) && agent[i] != '-')
                return error_set(error, STATUS_INVALID, NULL,
                                 "agent_name may consist of letters, digits and '-' only");
        }
    }
    for (size_t i = 0; i <= size; i++)
        ret[i] = (char) (agent[i] >= 'A' && agent[i] <= 'Z' ? agent[i] - 'A' + 'a' : agent[i]);
    return STATUS_OK;
}

enum status scope_create(const char *user, const char *agent, struct scope *ret,
                         struct error *error)
{
    struct scope scope = {0};
    enum status status;

    if (user) {
        /* A peer would make another directory of it than we, who hold it in disguise. */
        if (strstr(user, DISGUISE_CHARACTER) || strstr(user, DISGUISE_INTEGER))
            return error_set(error, STATUS_INVALID, NULL,
                             "user_id must not hold a lone surrogate, U+FDD0 or U+FDD1");
        status = scope_bucket_of_user(user, scope.bucket, error);
        if (status != STATUS_OK)
            return status;
        _Static_assert(4 * (SCOPE_NAME_MAX - 1 - BUCKET_DIGEST_DIGITS) <= SCOPE_USER_MAX,
                       "whoever has a directory name is no longer than that");
        memcpy(scope.user, user, strlen(user) + 1);
        scope.has_user = true;
    }
    status = scope_agent_fold(agent ? agent : SCOPE_DEFAULT_AGENT, scope.agent, error);
    if (status != STATUS_OK)
        return status;

    *ret = scope;
    return STATUS_OK;
}

bool scope_equal(const struct scope *a, const struct scope *b)
{
    return a->has_user == b->has_user && strcmp(a->user, b->user) == 0 &&
           strcmp(a->agent, b->agent) == 0;
}

void scope_hash_wide(const struct scope *scope, uint64_t ret[2])
{
    uint64_t user[2];

    signature_digest_wide(scope->user, strlen(scope->user), scope->has_user, user);
    signature_digest_wide(scope->agent, strlen(scope->agent), user[0], ret);
    ret[0] ^= user[1];
}

uint64_t scope_hash(const struct scope *scope)
{
    uint64_t wide[2];

    scope_hash_wide(scope, wide);
    return wide[0];
}

bool fact_id_is_valid(const char *id)
{
    return is_plain_name(id, FACT_ID_MAX);
}

void fact_id_shard(const char *id, char ret[3])
{
    digest_digits(id, strlen(id), 2, ret);
}

bool relative_path_is_plain(const char *path)
{
    while (true) {
        size_t length = strcspn(path, "/");
        if (length == 0 || length > SCOPE_NAME_MAX || *path == '.')
            return false;
        if (path[length] == '\0')
            return true;
        path += length + 1;
    }
}

bool manifest_name_is_valid(const char *name)
{
    size_t size = strlen(name);

    return size >= strlen(".json") && size <= SCOPE_NAME_MAX && !strchr(name, '/') &&
           text_is_utf8(name, size) && strcmp(name + size - strlen(".json"), ".json") == 0 &&
           strcmp(name, JOURNAL_NAME) != 0;
}

/* "users/U/", or nothing without a user. */
static int bucket_prefix(const struct scope *scope, char *ret)
{
    if (!scope->has_user) {
        ret[0] = '\0';
        return 0;
    }
    return snprintf(ret, SCOPE_PATH_MAX, "users/%s/", scope->bucket);
}

void scope_bucket_path(const struct scope *scope, char *ret)
{
    if (scope->has_user)
        (void) snprintf(ret, SCOPE_PATH_MAX, "users/%s", scope->bucket);
    else
        (void) snprintf(ret, SCOPE_PATH_MAX, ".");
}

void scope_facts_path(const struct scope *scope, char *ret)
{
    int used = bucket_prefix(scope, ret);

    (void) snprintf(ret + used, (size_t) (SCOPE_PATH_MAX - used), "agents/%s/facts", scope->agent);
}

void scope_file_path(const struct scope *scope, const char *name, char *ret)
{
    int used = bucket_prefix(scope, ret);

    (void) snprintf(ret + used, (size_t) (SCOPE_PATH_MAX - used), "%s", name);
}
