/* Any bytes as a manifest: both readers agree, and what was read can be written and read again. */
#include "core/manifest_write.h"

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

/* The manifest that follows can be read, keeps the summaries, and with them emptied nothing is left
 * to empty. */
static void check_next(const struct manifest *manifest)
{
    AUTO_TEXT struct text text = {0};
    AUTO_MANIFEST struct manifest next = {0};
    AUTO_MANIFEST struct manifest empty = {0};
    AUTO_JSON json_t *blank = manifest_blank_summaries(manifest);

    enum status status = manifest_write(manifest, NULL, 5, 0, &text, NULL);
    require(status == (manifest->layout == MANIFEST_LAYOUT_NEWER ? STATUS_UNSUPPORTED : STATUS_OK));
    if (status != STATUS_OK || !json_text_is_unicode(blank))
        return;
    require(manifest_parse(text.bytes, text.size, &next, NULL) == STATUS_OK);
    require(next.revision == 5 && next.layout == MANIFEST_LAYOUT_2);
    text_clear(&text);
    require(manifest_write(&next, blank, 6, 0, &text, NULL) == STATUS_OK);
    require(manifest_parse(text.bytes, text.size, &empty, NULL) == STATUS_OK);
    AUTO_JSON json_t *again = manifest_blank_summaries(&empty);
    require(!manifest_summaries_change(&empty, again));
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
    check_next(&manifest);
    json_decref(manifest_document(&manifest));
    return 0;
}
