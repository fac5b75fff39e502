#include "core/fact.h"
#include "core/json_text.h"
#include "core/legacy_reading.h"

#include <sodium.h>
#include <string.h>

#define HASH_PREFIX "sha256:"

/* The same fact, of this scope from now on. */
static json_t *adopt(const struct legacy_reading *reading, const struct fact *fact)
{
    struct legacy_owner owner = legacy_owner_of(reading->scope, NULL, "");
    json_t *document = json_text_copy(fact->document);

    if (document && json_object_set_new(document, "scope", legacy_fact_scope(&owner)) < 0) {
        json_decref(document);
        return NULL;
    }
    return document;
}

static bool has_hash(const struct file_image *image, const char *expected)
{
    unsigned char digest[crypto_hash_sha256_BYTES];
    char hex[2 * crypto_hash_sha256_BYTES + 1];

    (void) crypto_hash_sha256(digest, (const unsigned char *) image->bytes, image->size);
    (void) sodium_bin2hex(hex, sizeof hex, digest, sizeof digest);
    return strncmp(expected, HASH_PREFIX, strlen(HASH_PREFIX)) == 0 &&
           strcmp(expected + strlen(HASH_PREFIX), hex) == 0;
}

static bool is_own(const struct fact *fact, const struct scope *scope)
{
    const char *owner = fact_owner(fact);

    return owner ? scope->has_user && strcmp(owner, scope->user) == 0 : !scope->has_user;
}

enum status legacy_read_fact_file(struct legacy_reading *reading, const char *path, const char *id,
                                  const char *hash)
{
    AUTO_IMAGE struct file_image image = {0};
    AUTO_FACT struct fact *fact = NULL;
    enum fact_fault fault = FACT_FAULT_NONE;
    struct error problem = {0};

    enum status status =
        legacy_files_read(reading->files, path, FACT_FILE_BYTES_MAX, &image, reading->error);
    if (status == STATUS_TOO_LARGE)
        return legacy_collect_problem(reading->collect, path, "the file is too large");
    if (status)
        return status;
    if (hash && !has_hash(&image, hash))
        return legacy_collect_problem(reading->collect, path,
                                      "the bytes are not those that the manifest announces");

    status = fact_parse(image.bytes, image.size, NULL, id, image.stamp.mtime_ns, &fact, &fault,
                        &problem);
    if (status == STATUS_CORRUPT)
        return legacy_collect_problem(reading->collect, path, "%s", problem.message);
    if (status)
        return status;
    if (!is_own(fact, reading->scope))
        return legacy_collect_problem(reading->collect, path, "the fact is another user's");
    status = legacy_collect_file(reading->collect, path, signature_digest(image.bytes, image.size));
    if (status)
        return status;
    return legacy_collect_fact(reading->collect, path, adopt(reading, fact));
}
