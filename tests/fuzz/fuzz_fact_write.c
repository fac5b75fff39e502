/* Reads arbitrary bytes as a fact file. What is sound can be written, reads back the same, and is
 * not changed by writing it again, nor by taking it for a fact that a caller gives. */
#include "core/fact_normalise.h"
#include "core/fact_write.h"
#include "core/json_text.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Fails the run, in builds without assert() too. */
static void require(bool holds)
{
    if (!holds)
        abort();
}

static struct fact *parse(const char *bytes, size_t size, const struct scope *scope)
{
    struct fact *fact = NULL;

    enum status status = fact_parse(bytes, size, scope, "f_fuzz", 0, &fact, NULL, NULL);
    require((status == STATUS_OK) == (fact != NULL));
    return fact;
}

static void check_normalised(json_t *document, const struct scope *scope)
{
    AUTO_JSON json_t *normalised = NULL;

    enum status status = fact_normalise(document, scope, 1, &normalised, NULL);
    require(status == (json_text_is_unicode(document) ? STATUS_OK : STATUS_INVALID));
    if (status == STATUS_OK)
        require(json_equal(document, normalised));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    AUTO_TEXT struct text first = {0};
    AUTO_TEXT struct text second = {0};
    struct scope scope;
    struct error error = {0};

    require(scope_create("fuzz", "agent", &scope, NULL) == STATUS_OK);
    AUTO_FACT struct fact *fact = parse((const char *) data, size, &scope);
    if (!fact)
        return 0;
    enum status status = fact_write(fact->document, &scope, &first, &error);
    if (status == STATUS_TOO_LARGE)
        return 0; /* aliases are written out */
    require(status == STATUS_OK);
    AUTO_FACT struct fact *again = parse(first.bytes, first.size, &scope);
    require(again && !again->duplicate_key);
    require(fact_write(again->document, &scope, &second, &error) == STATUS_OK);
    require(first.size == second.size && memcmp(first.bytes, second.bytes, first.size) == 0);
    check_normalised(again->document, &scope);

    /* A cut may have left blanks at the end of a title, which do not come back. */
    json_t *title = json_object_get(again->document, "title");
    require(json_object_set_nocheck(fact->document, "title", title) == 0);
    require(json_equal(fact->document, again->document));
    return 0;
}
