/* Reads arbitrary bytes as a fact file. Whatever comes out must keep the promises of core/fact.h;
 * the memory and address checks of the fuzzer do the rest. */
#include "core/fact.h"

#include "core/text.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
    if (!condition)
        abort();
}

static void check_fact(const struct fact *fact)
{
    const char *title = json_string_value(json_object_get(fact->document, "title"));

    require(strcmp(fact->id, "f_fuzz") == 0);
    require(fact->content_size > 0 && text_is_utf8(fact->content, fact->content_size));
    require(title && text_is_utf8(title, strlen(title)));
    require(fact->confidence >= 0 && fact->confidence <= 1);
    require(fact->revision >= 1);
    require(fact->created_at && fact->category);

    /* The tree can be written: every string in it is UTF-8, every number is finite. */
    char *json = json_dumps(fact->document, JSON_COMPACT);
    require(json != NULL);
    free(json);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct scope scope;
    AUTO_FACT struct fact *fact = NULL;
    AUTO_FACT struct fact *any = NULL;
    enum fact_fault fault;
    struct error error = {0};

    require(scope_create("fuzz", "agent", &scope, NULL) == STATUS_OK);
    enum status status =
        fact_parse((const char *) data, size, &scope, "f_fuzz", 0, &fact, &fault, &error);
    require((status == STATUS_OK) == (fact != NULL));
    require((status == STATUS_OK) == (fault == FACT_FAULT_NONE));
    require(status == STATUS_OK || (status == STATUS_CORRUPT && error.message[0]));
    require(text_is_utf8(error.message, strlen(error.message)));
    if (fact)
        check_fact(fact);

    /* What is right for its scope is right without one. */
    status = fact_parse((const char *) data, size, NULL, "f_fuzz", 0, &any, NULL, NULL);
    require(!fact || status == STATUS_OK);
    return 0;
}
