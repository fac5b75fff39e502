#include "backends/backend.h"

#include <string.h>

static const struct backend_table *const tables[] = {
    &backend_deermem,
    &backend_noop,
};

const struct backend_table *backend_at(size_t i)
{
    return i < ARRAY_SIZE(tables) ? tables[i] : NULL;
}

const struct backend_table *backend_find(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(tables); i++) {
        if (strcmp(tables[i]->name, name) == 0)
            return tables[i];
    }
    return NULL;
}

enum status backend_check(const struct backend_table *table, struct error *error)
{
    if (table->version != BACKEND_CONTRACT_VERSION)
        return error_set(error, STATUS_INVALID, NULL,
                         "backend %s was written for contract version %u, this is version %d",
                         table->name, table->version, BACKEND_CONTRACT_VERSION);
    if (table->supports_search != (table->search != NULL))
        return error_set(error, STATUS_INVALID, NULL,
                         "backend %s: supports_search must be %s, since it %s search", table->name,
                         table->search ? "true" : "false",
                         table->search ? "implements" : "does not implement");
    if (!table->create || !table->destroy)
        return error_set(error, STATUS_INVALID, NULL, "backend %s lacks create or destroy",
                         table->name);
    return STATUS_OK;
}
