/* Any bytes as a manifest: both readers agree, and what was read can be written and read again. */
#include "core/manifest.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

/* Fails the run, in builds without assert() too. */
static void require(bool holds)
{
    if (!holds)
        abort();
}

/* What is written must be read as the same again, whatever disguises are inside. */
static void check_round_trip(const json_t *value)
{
    AUTO_TEXT struct text once = {0};
    AUTO_TEXT struct text twice = {0};
    AUTO_TEXT struct text pretty = {0};
    AUTO_JSON json_t *again = NULL;
    AUTO_JSON json_t *from_pretty = NULL;

    json_text_write(&once, value);
    require(json_text_read(once.bytes, once.size, JSON_TEXT_DEPTH_MAX, &again, NULL) == STATUS_OK ||
            strstr(once.bytes, "$float"));
    if (!again)
        return; /* an infinity at the deepest level is an object on our wire: one level more */
    json_text_write(&twice, again);
    require(once.size == twice.size && memcmp(once.bytes, twice.bytes, once.size) == 0);

    json_text_write_pretty(&pretty, value);
    require(json_text_read(pretty.bytes, pretty.size, JSON_TEXT_DEPTH_MAX, &from_pretty, NULL) ==
            STATUS_OK);
    require(json_equal(from_pretty, again) == 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    const char *text = (const char *) bytes;
    AUTO_MANIFEST struct manifest manifest = {0};
    struct error parse_error = {0};
    struct error scan_error = {0};
    int64_t scanned = 0;
    enum status parsed = manifest_parse(text, size, &manifest, &parse_error);

    require(manifest_scan_revision(text, size, &scanned, &scan_error) == parsed);
    require(strcmp(parse_error.message, scan_error.message) == 0);
    if (parsed)
        return 0;
    require(scanned == manifest.revision);
    check_round_trip(manifest.root);
    json_decref(manifest_document(&manifest));
    return 0;
}
