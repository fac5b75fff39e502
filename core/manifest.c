#include "core/manifest.h"

#include "core/clock.h"
#include "core/json_scan.h"
#include "core/json_text.h"
#include "core/manifest_revision.h"

#include <stdio.h>
#include <string.h>

#define KEY_REVISION "revision"
#define KEY_FACTS "facts"
#define MAJOR_OURS 2

static enum status refuse(struct error *error, enum status status, const char *problem)
{
    if (error) {
        error->status = status;
        error->sys_errno = 0;
        (void) snprintf(error->message, sizeof error->message, "%s", problem);
    }
    return status;
}

/* The number before the first point, e.g. 10 of "10.1"; 0 for anything else. Saturates. */
static unsigned major_of(const char *version)
{
    unsigned major = 0;

    for (; *version >= '0' && *version <= '9'; version++)
        major = major < 1000 ? major * 10 + (unsigned) (*version - '0') : major;
    return *version == '.' || *version == '\0' ? major : 0;
}

static enum manifest_layout layout_of(const json_t *root)
{
    const json_t *version = json_object_get(root, "version");
    const json_t *facts = json_object_get(root, KEY_FACTS);
    const char *text = json_string_value(version);

    if (!text || strlen(text) != json_string_length(version))
        return MANIFEST_LAYOUT_1;
    if (major_of(text) > MAJOR_OURS)
        return MANIFEST_LAYOUT_NEWER;
    /* The interim form carries our version number already and names its facts in a mapping. */
    if (strcmp(text, MANIFEST_VERSION) != 0 || json_is_array(facts) || json_is_object(facts))
        return MANIFEST_LAYOUT_1;
    return MANIFEST_LAYOUT_2;
}

bool manifest_is_newer(const json_t *root)
{
    return layout_of(root) == MANIFEST_LAYOUT_NEWER;
}

/* The tree alone cannot tell, since a lone NaN is an object in disguise there. */
static bool begins_as_object(const char *bytes, size_t size)
{
    struct json_scan scan;
    struct json_token token = {0};

    json_scan_start(&scan, bytes, size, 1);
    return json_scan_next(&scan, &token) && token.kind == JSON_TOKEN_OBJECT_OPEN;
}

enum status manifest_parse(const char *bytes, size_t size, struct manifest *ret,
                           struct error *error)
{
    AUTO_JSON json_t *root = NULL;
    int64_t revision = 0;
    const char *problem = NULL;

    if (size > MANIFEST_BYTES_MAX)
        return refuse(error, STATUS_TOO_LARGE, "the manifest is too large");
    enum status status = json_text_read(bytes, size, JSON_TEXT_DEPTH_MAX, &root, error);
    if (status)
        return status;
    if (!begins_as_object(bytes, size))
        return refuse(error, STATUS_CORRUPT, "the manifest is no JSON object");
    if (!manifest_revision_of(json_object_get(root, KEY_REVISION), &revision, &problem))
        return refuse(error, STATUS_CORRUPT, problem);

    *ret = (struct manifest){.revision = revision, .layout = layout_of(root)};
    ret->root = TAKE_PTR(root);
    return STATUS_OK;
}

static bool is_revision_key(const char *bytes, const struct json_token *token)
{
    return token->end - token->start == sizeof "\"" KEY_REVISION "\"" - 1 &&
           memcmp(bytes + token->start, "\"" KEY_REVISION "\"", token->end - token->start) == 0;
}

/* True, with the revision, when the whole text is sound and the revision is spelt as usual. Leaves
 * everything else, errors too, to the parser. */
static bool scan_usual(const char *bytes, size_t size, int64_t *ret)
{
    struct json_scan scan;
    struct json_token token = {0};
    bool expected = false; /* the token that comes next is the revision */
    int64_t revision = 0;

    json_scan_start(&scan, bytes, size, JSON_TEXT_DEPTH_MAX);
    if (!json_scan_next(&scan, &token) || token.kind != JSON_TOKEN_OBJECT_OPEN)
        return false;
    while (json_scan_next(&scan, &token)) {
        if (token.kind == JSON_TOKEN_END) {
            *ret = revision;
            return true;
        }
        if (expected &&
            (token.kind != JSON_TOKEN_INTEGER ||
             !json_scan_integer(bytes + token.start, token.end - token.start, &revision)))
            return false;
        expected = scan.depth == 1 && token.kind == JSON_TOKEN_KEY;
        if (expected && token.escaped)
            return false;
        expected = expected && is_revision_key(bytes, &token);
    }
    return false;
}

enum status manifest_scan_revision(const char *bytes, size_t size, int64_t *ret,
                                   struct error *error)
{
    AUTO_MANIFEST struct manifest manifest = {0};

    if (size <= MANIFEST_BYTES_MAX && scan_usual(bytes, size, ret))
        return STATUS_OK;
    enum status status = manifest_parse(bytes, size, &manifest, error);
    if (!status)
        *ret = manifest.revision;
    return status;
}

static json_t *empty_summary(void)
{
    return json_pack("{s:s, s:s}", "summary", "", "updatedAt", "");
}

enum status manifest_create_empty(uint64_t wall_ns, struct manifest *ret)
{
    char now[CLOCK_TEXT_SIZE];

    clock_format(wall_ns, now);
    json_t *root =
        json_pack("{s:s, s:i, s:s, s:{s:o, s:o, s:o}, s:{s:o, s:o, s:o}}", "version", "1.0",
                  KEY_REVISION, 0, "lastUpdated", now, "user", "workContext", empty_summary(),
                  "personalContext", empty_summary(), "topOfMind", empty_summary(), "history",
                  "recentMonths", empty_summary(), "earlierContext", empty_summary(),
                  "longTermBackground", empty_summary());
    if (!root)
        return STATUS_NO_MEMORY;
    *ret = (struct manifest){.root = root, .layout = MANIFEST_LAYOUT_2};
    return STATUS_OK;
}

json_t *manifest_document(const struct manifest *manifest)
{
    AUTO_JSON json_t *document = json_text_copy(manifest->root);

    if (!document)
        return NULL;
    (void) json_object_del(document, KEY_FACTS);
    if (!json_object_get(document, KEY_REVISION) &&
        json_object_set_new(document, KEY_REVISION, json_integer(0)) < 0)
        return NULL;
    return TAKE_PTR(document);
}

void manifest_destroy(struct manifest *manifest)
{
    json_decref(manifest->root);
    *manifest = (struct manifest){0};
}
