/* backends/noop.c - holds nothing and says so; the template for a new backend.
 *
 * Its answers are empty instead of "unsupported": a platform that is set to noop runs without
 * memory and notices nothing.
 */
#include "backends/backend.h"

#include "core/clock.h"

struct backend {
    char unused;
};

static enum status create(const struct backend_setup *setup, struct backend **ret,
                          struct error *error)
{
    (void) setup;
    *ret = calloc(1, sizeof **ret);
    return *ret ? STATUS_OK : error_set(error, STATUS_NO_MEMORY, NULL, "out of memory");
}

static void destroy(struct backend *backend)
{
    free(backend);
}

static enum status accept(struct backend *backend, const struct backend_call *call,
                          struct text *result, struct error *error)
{
    (void) backend;
    (void) call;
    (void) error;
    text_append_string(result, "{}");
    return STATUS_OK;
}

static enum status get_context(struct backend *backend, const struct backend_call *call,
                               struct text *result, struct error *error)
{
    (void) backend;
    (void) call;
    (void) error;
    text_append_string(result, "{\"text\":\"\"}");
    return STATUS_OK;
}

static enum status search(struct backend *backend, const struct backend_call *call,
                          struct text *result, struct error *error)
{
    (void) backend;
    (void) call;
    (void) error;
    text_append_string(result, "{\"results\":[],\"count\":0,\"scopes\":[],\"took_us\":0}");
    return STATUS_OK;
}

static enum status list_facts(struct backend *backend, const struct backend_call *call,
                              struct text *result, struct error *error)
{
    (void) backend;
    (void) call;
    (void) error;
    text_append_string(result, "{\"facts\":[],\"count\":0,\"broken\":[]}");
    return STATUS_OK;
}

static enum status get_memory(struct backend *backend, const struct backend_call *call,
                              struct text *result, struct error *error)
{
    char now[CLOCK_TEXT_SIZE];

    (void) backend;
    (void) call;
    (void) error;
    clock_format(clock_wall_ns(), now);
    text_append_format(result,
                       "{\"memory\":{\"version\":\"1.0\",\"lastUpdated\":\"%s\",\"facts\":[]}}",
                       now);
    return STATUS_OK;
}

const struct backend_table backend_noop = {
    .name = "noop",
    .version = BACKEND_CONTRACT_VERSION,
    .supports_search = true,
    .create = create,
    .destroy = destroy,
    .add = accept,
    .get_context = get_context,
    .search = search,
    .list_facts = list_facts,
    .get_memory = get_memory,
};
