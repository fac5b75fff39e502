#include "chaos/faults/world.h"

#include "chaos/faults/fault.h"
#include "core/clock.h"
#include "core/refresher.h"
#include "tests/support/files.h"
#include "tests/support/temp_calls.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define DEADLINE_MS 10000

void world_create(struct world *ret, const char *const *scopes)
{
    *ret = (struct world){.volume = temp_volume_create(), .scopes = scopes};
    const char *root = temp_volume_path(ret->volume);
    (void) snprintf(ret->index_directory, sizeof ret->index_directory, "%.*s/index",
                    (int) (strrchr(root, '/') - root), root);
}

void world_destroy(struct world *world)
{
    world_close(world);
    temp_volume_destroy(&world->volume);
}

void world_fails(struct world *world, const char *format, ...)
{
    va_list arguments;

    if (world->problem[0])
        return;
    va_start(arguments, format);
    (void) vsnprintf(world->problem, sizeof world->problem, format, arguments);
    va_end(arguments);
}

/* ---- instead of the keeper ---- */

struct keeper {
    struct store *store;
    struct index_reader *reader;
    pthread_t thread;
};

static void *serve_urgent(void *context)
{
    struct keeper *keeper = context;
    struct refresh_run run;
    struct refresh_result result;

    while (refresh_take(keeper->store->refreshes, true, &run))
        refresher_run(keeper->store, keeper->reader, &run, &result);
    return NULL;
}

enum status __wrap_keeper_start(struct store *store, const struct keeper_options *options,
                                struct keeper **ret, struct error *error);
bool __wrap_keeper_stop(struct keeper **keeper, uint64_t deadline_ns);
void __wrap_keeper_touch(struct keeper *keeper, const struct scope *scope);

enum status __wrap_keeper_start(struct store *store, const struct keeper_options *options UNUSED,
                                struct keeper **ret, struct error *error)
{
    struct keeper *keeper = calloc(1, sizeof *keeper);

    if (!keeper)
        return error_set(error, STATUS_NO_MEMORY, NULL, "out of memory");
    keeper->store = store;
    enum status status = index_reader_create(store->index, &keeper->reader, error);
    if (status != STATUS_OK) {
        free(keeper);
        return status;
    }
    if (pthread_create(&keeper->thread, NULL, serve_urgent, keeper) != 0)
        test_die("no thread");
    *ret = keeper;
    return STATUS_OK;
}

bool __wrap_keeper_stop(struct keeper **keeper_address, uint64_t deadline_ns UNUSED)
{
    struct keeper *keeper = TAKE_PTR(*keeper_address);

    if (!keeper)
        return true;
    refresh_table_stop(keeper->store->refreshes);
    (void) pthread_join(keeper->thread, NULL);
    index_reader_destroy(&keeper->reader);
    free(keeper);
    return true;
}

void __wrap_keeper_touch(struct keeper *keeper UNUSED, const struct scope *scope UNUSED)
{
}

/* ---- the agent ---- */

static const struct deermem_options *options_of(const struct world *world,
                                                struct deermem_options *ret)
{
    *ret = (struct deermem_options){
        .store =
            {
                .volume_path = temp_volume_path(world->volume),
                .calls = temp_calls(),
                .recovery_grace_ms = 60000,
                .manifest_name = "memory.json",
                .index_directory = world->index_directory,
            },
        .max_staleness_ms = 1000,
    };
    return ret;
}

enum status world_open(struct world *world)
{
    struct deermem_options options;
    AUTO_JSON json_t *config = json_pack("{s:i}", "file_lock_timeout_seconds", 1);
    const struct backend_setup setup = {.config = config,
                                        .thread_count = 1,
                                        .store_options = options_of(world, &options)};
    struct error error = {0};

    fault_resume();
    enum status status = backend_deermem.create(&setup, &world->backend, &error);
    fault_pause();
    if (status != STATUS_OK)
        world->backend = NULL;
    if (status != STATUS_OK && !world->is_fault_expected)
        world_fails(world, "the agent does not start: %s: %s", status_name(status), error.message);
    world->errors += status != STATUS_OK;
    return status;
}

void world_close(struct world *world)
{
    if (!world->backend)
        return;
    fault_resume();
    backend_deermem.destroy(world->backend);
    fault_pause();
    world->backend = NULL;
}

void world_watch(struct world *world)
{
    struct error error = {0};

    if (!world->backend)
        return;
    struct store *store = world->backend->store;
    fault_resume();
    enum status status = store_check_volume(store, &error);
    if (index_file_was_replaced(store->index) || index_is_damaged(store->index))
        status = store_heal_index(store, &error);
    fault_pause();
    world->errors += status != STATUS_OK;
}

void world_rest(struct world *world)
{
    uint64_t deadline_ns = clock_deadline_ms(DEADLINE_MS);
    struct refresh_table_counts counts = {.running = 1};

    while (world->backend && counts.running + counts.wanted_urgent > 0) {
        refresh_table_counts(world->backend->store->refreshes, &counts);
        (void) nanosleep(&(struct timespec){.tv_nsec = 100 * NS_PER_US}, NULL);
        if (clock_remaining_ms(deadline_ns) == 0)
            test_die("a refresh does not end");
    }
}

/* Only what is there when this begins: a run that fails asks for another. */
void world_settle(struct world *world)
{
    struct refresh_table_counts counts;
    struct index_reader *reader = NULL;

    if (!world->backend)
        return;
    struct store *store = world->backend->store;
    if (index_reader_create(store->index, &reader, NULL) != STATUS_OK)
        test_die("no reader");
    clock_advance_for_test(volume_settle_ns(store->volume) + 10 * NS_PER_MS);
    refresh_table_counts(store->refreshes, &counts);
    for (uint64_t left = counts.delayed + counts.wanted_background; left > 0; left--) {
        struct refresh_run run;
        struct refresh_result result;
        if (!refresh_take(store->refreshes, false, &run))
            break;
        fault_resume();
        refresher_run(store, reader, &run, &result);
        fault_pause();
    }
    index_reader_destroy(&reader);
}

static void parse_result(struct world *world, const struct text *text, struct world_answer *ret)
{
    if (!text_ok(text)) { /* as the dispatcher does */
        ret->status =
            error_set(&ret->error, STATUS_NO_MEMORY, NULL, "no memory for the answer's text");
        return;
    }
    ret->result = json_loadb(text->bytes, text->size, 0, NULL);
    if (!ret->result)
        world_fails(world, "an answer that is no JSON: %.200s", text_string(text));
}

struct world_answer world_call(struct world *world, backend_method method, const char *scope_name,
                               const char *params_text)
{
    char user[64];
    char agent[64];
    struct scope scope;
    AUTO_TEXT struct text text = {0};
    AUTO_JSON json_t *params = json_loads(params_text, 0, NULL);
    struct world_answer answer = {0};

    scope_name_split(scope_name, user, agent);
    if (!params || scope_create(user, agent, &scope, NULL) != STATUS_OK)
        test_die("cannot be asked: %s %s", scope_name, params_text);
    const struct backend_call call = {
        .scope = &scope,
        .agent_given = true,
        .params = params,
        .deadline_ns = clock_deadline_ms(DEADLINE_MS),
        .may_block = true,
    };
    if (!world->backend) {
        answer.status = error_set(&answer.error, STATUS_UNAVAILABLE, NULL, "no agent runs");
        return answer;
    }
    fault_resume();
    answer.status = method(world->backend, &call, &text, &answer.error);
    fault_pause();
    if (answer.status == STATUS_OK)
        parse_result(world, &text, &answer);
    world->errors += answer.status != STATUS_OK;
    return answer;
}

void world_answer_destroy(struct world_answer *answer)
{
    json_decref(answer->result);
}

/* ---- what is remembered ---- */

bool world_remembers(const struct world *world, const char *scope, int64_t revision,
                     const char *facts)
{
    for (size_t i = 0; i < world->state_count; i++) {
        const struct world_state *state = &world->states[i];
        if (strcmp(state->scope, scope) == 0 && state->truth.revision == revision &&
            strcmp(state->truth.facts, facts) == 0)
            return true;
    }
    return false;
}

void world_remember(struct world *world)
{
    for (size_t i = 0; world->scopes[i]; i++) {
        struct truth truth;
        truth_read(world->volume, world->scopes[i], &truth);
        if (!truth.is_whole ||
            world_remembers(world, world->scopes[i], truth.revision, truth.facts))
            continue;
        if (world->state_count == WORLD_STATES_MAX)
            test_die("too many states");
        world->states[world->state_count++] =
            (struct world_state){.scope = world->scopes[i], .truth = truth};
    }
}
