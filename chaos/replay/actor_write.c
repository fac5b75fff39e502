#include "chaos/replay/actor_private.h"
#include "chaos/replay/player_private.h"
#include "core/writer.h"
#include "tests/support/files.h"

#include <stdio.h>
#include <string.h>

#define DEADLINE_MS 60000
#define LOCK_TIMEOUT_MS 30000

/* The document to write: the stored one with another text, or a new one. */
static enum status make_fact(struct draft *draft, const char *id, const char *text, bool is_new,
                             json_t **ret, struct error *error)
{
    json_t *stored = NULL;

    if (is_new) {
        *ret = json_pack("{s:s, s:o, s:s}", "id", id, "content", player_text(text), "category",
                         "context");
        return *ret ? STATUS_OK : STATUS_NO_MEMORY;
    }
    enum status status = draft_find(draft, id, &stored, error);
    if (status != STATUS_OK)
        return status;
    *ret = json_deep_copy(stored);
    return *ret && json_object_set_new(*ret, "content", player_text(text)) == 0 ? STATUS_OK
                                                                                : STATUS_NO_MEMORY;
}

static enum status add_upsert(struct draft *draft, struct change_set *set, const char *id,
                              const char *text, bool is_new, struct error *error)
{
    AUTO_JSON json_t *fact = NULL;
    struct change_upsert *upsert = NULL;

    enum status status = make_fact(draft, id, text, is_new, &fact, error);
    if (status == STATUS_OK)
        status = change_set_add_upsert(set, draft_scope(draft), fact, draft_wall_ns(draft), &upsert,
                                       error);
    if (status == STATUS_OK && is_new)
        upsert->expects = CHANGE_EXPECTS_ABSENT;
    return status;
}

static enum status build(void *context, struct draft *draft, struct change_set *set,
                         struct error *error)
{
    const struct step *step = context;
    enum status status = STATUS_OK;
    size_t i;
    json_t *change;

    json_array_foreach(step->changes, i, change)
    {
        const char *kind = json_string_value(json_array_get(change, 0));
        const char *id = json_string_value(json_array_get(change, 1));
        const char *text = json_string_value(json_array_get(change, 2));
        if (status != STATUS_OK)
            break;
        status = text ? add_upsert(draft, set, id, text, strcmp(kind, "add") == 0, error)
                      : change_set_add_delete(set, id, NULL, error);
    }
    if (status == STATUS_OK && step->summary) {
        AUTO_JSON json_t *summaries = json_pack("{s:{s:{s:o}}}", "user", "workContext", "summary",
                                                json_sprintf("of write %u", step->number));
        status = change_set_set_summaries(set, summaries, error);
    }
    return status;
}

enum status write_step(struct writer *writer, const struct step *step, unsigned reader,
                       struct error *error)
{
    AUTO_WRITE_RESULT struct write_result result = {0};
    struct scope scope;
    char name[2 * STEP_NAME_SIZE];
    union {
        const struct step *given;
        void *taken;
    } context = {.given = step};

    (void) snprintf(name, sizeof name, "%s/%s", step->scopes[0].user,
                    step->scopes[0].agent[0] ? step->scopes[0].agent : "-");
    temp_store_scope(name, &scope);
    const struct write_request request = {
        .scope = &scope,
        .has_agent = step->scopes[0].agent[0] != '\0',
        .retries = true,
        .build = build,
        .context = context.taken,
        .deadline_ns = clock_deadline_ms(DEADLINE_MS),
        .thread = reader,
    };
    return writer_run(writer, &request, &result, error);
}

static void run_write(struct actor_thread *thread)
{
    const struct actor *actor = thread->actor;

    thread->status = write_step(actor->writer, actor->step, actor->reader, &thread->error);
}

struct actor *actor_write(struct temp_store *store, struct writer *writer, const struct step *step,
                          unsigned number, unsigned thread)
{
    struct actor *actor = actor_create(store, 1, number, run_write);

    actor->writer = writer;
    actor->step = step;
    actor->reader = thread;
    return actor;
}

void player_open_writer(struct player *player)
{
    const struct writer_options options = {.lock_timeout_ms = LOCK_TIMEOUT_MS};

    if (writer_create(player->store->store, &options, &player->writer) != STATUS_OK)
        test_die("no memory for a writer");
}

void player_close_writer(struct player *player)
{
    if (player->writer)
        writer_destroy(&player->writer);
}
