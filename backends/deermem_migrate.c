/* The method `migrate`. */
#include "backends/deermem_write.h"
#include "core/json_text.h"

#include <inttypes.h>

enum status deermem_migrate(struct backend *backend, const struct backend_call *call,
                            struct text *result, struct error *error)
{
    AUTO_MIGRATION_RESULT struct migration_result migration = {0};
    const struct migration_request request = {
        .scope = call->scope,
        .has_agent = true,
        .force_agent = call->agent_given,
    };

    if (!call->may_block)
        return STATUS_WOULD_BLOCK;
    keeper_touch(backend->keeper, call->scope);
    enum status status = writer_migrate(backend->writer, &request, call->deadline_ns, call->thread,
                                        &migration, error);
    if (status != STATUS_OK)
        return status;
    text_append_format(result,
                       "{\"migrated\":%s,\"from_version\":", migration.migrated ? "true" : "false");
    if (migration.from_version)
        json_text_write(result, migration.from_version);
    else
        text_append_string(result, "null");
    text_append_format(result,
                       ",\"to_version\":\"" MANIFEST_VERSION "\",\"facts\":%" PRIu64
                       ",\"revision\":%" PRId64,
                       migration.facts, migration.revision);
    const struct write_result written = {.changed = migration.migrated, .attempts = 1};
    return deermem_end_answer(result, STATUS_OK, &written, error);
}
