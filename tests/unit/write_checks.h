/* tests/unit/write_checks.h - wishes of one fact each, given to a writer alone or from threads.
 *
 * `store` is made by write_set_up(); `writer` is set before it is used.
 */
#ifndef MEMSYNC_TESTS_WRITE_CHECKS_H
#define MEMSYNC_TESTS_WRITE_CHECKS_H

#include "core/writer.h"

#include "core/json_text.h"
#include "tests/support/temp_tree.h"
#include "tests/unit/engine_checks.h"

static struct temp_store *store;
static struct writer *writer;

/* The store is opened by whoever knows its volume, with other options if need be. */
static UNUSED void write_set_up(void)
{
    store = temp_store_create();
    store->options.calls = temp_calls();
    captured_log_start();
}

static UNUSED void write_tear_down(void)
{
    captured_log_stop();
    pause_reset();
    temp_calls_reset();
    writer_destroy(&writer);
    temp_store_destroy(&store);
}

/* What one write wants. */
struct wish {
    const char *id;
    const char *text;           /* NULL: delete */
    size_t padding;             /* blanks and a word behind the text, to make it long */
    const char *summary;        /* of workContext; with an id of NULL the only thing that changes */
    bool creates;               /* the fact must be new */
    int64_t fact_revision;      /* expected; 0: any */
    bool has_manifest_revision; /* expected */
    int64_t manifest_revision;
    bool may_rebase;
    enum write_source_need need;
    bool gives_up;        /* is not tried again */
    uint64_t deadline_ms; /* 0: 10 s */
    unsigned asked;       /* how often it was asked */
};

static UNUSED enum status add_upsert(const struct wish *wish, struct draft *draft,
                                     struct change_set *set, struct error *error)
{
    AUTO_FREE char *content = malloc(strlen(wish->text) + wish->padding + 8);
    struct change_upsert *upsert;

    if (!content)
        return STATUS_NO_MEMORY;
    size_t length = (size_t) sprintf(content, "%s", wish->text);
    memset(content + length, ' ', wish->padding);
    memcpy(content + length + wish->padding, wish->padding ? "end" : "", wish->padding ? 4 : 1);
    AUTO_JSON json_t *fact = json_pack("{s:s,s:s}", "id", wish->id, "content", content);
    enum status status =
        change_set_add_upsert(set, draft_scope(draft), fact, draft_wall_ns(draft), &upsert, error);
    if (status != STATUS_OK)
        return status;
    upsert->expects = wish->creates         ? CHANGE_EXPECTS_ABSENT
                      : wish->fact_revision ? CHANGE_EXPECTS_REVISION
                                            : CHANGE_EXPECTS_ANYTHING;
    upsert->revision = wish->fact_revision;
    return STATUS_OK;
}

static UNUSED enum status build_wish(void *context, struct draft *draft, struct change_set *set,
                                     struct error *error)
{
    struct wish *wish = context;
    enum status status = STATUS_OK;

    wish->asked++;
    set->has_manifest_revision = wish->has_manifest_revision;
    set->manifest_revision = wish->manifest_revision;
    set->may_rebase = wish->may_rebase;
    if (wish->summary) {
        AUTO_JSON json_t *summaries = json_pack("{s:{s:{s:s,s:s}}}", "user", "workContext",
                                                "summary", wish->summary, "updatedAt", "");
        status = change_set_set_summaries(set, summaries, error);
    }
    if (status == STATUS_OK && wish->id && wish->text)
        status = add_upsert(wish, draft, set, error);
    else if (status == STATUS_OK && wish->id)
        status = change_set_add_delete(set, wish->id, NULL, error);
    return status;
}

static UNUSED enum status write_wish_as(unsigned thread, const char *scope_name, struct wish *wish,
                                        struct write_result *ret, struct error *error)
{
    struct scope scope;

    temp_store_scope(scope_name, &scope);
    const struct write_request request = {
        .scope = &scope,
        .has_agent = wish->id != NULL,
        .need = wish->need,
        .retries = !wish->gives_up,
        .build = build_wish,
        .context = wish,
        .deadline_ns = clock_deadline_ms(wish->deadline_ms ? wish->deadline_ms : 10000),
        .thread = thread,
    };
    *ret = (struct write_result){0};
    *error = (struct error){0};
    return writer_run(writer, &request, ret, error);
}

static UNUSED enum status write_wish(const char *scope_name, struct wish *wish,
                                     struct write_result *ret, struct error *error)
{
    return write_wish_as(0, scope_name, wish, ret, error);
}

static UNUSED struct write_result write_ok(const char *scope, const char *id, const char *text)
{
    struct wish wish = {.id = id, .text = text};
    struct write_result result;
    struct error error;

    cr_assert_eq(write_wish(scope, &wish, &result, &error), STATUS_OK, "%s: %s", error.path,
                 error.message);
    return result;
}

/* The same, where only that it is done counts. */
static UNUSED void write_done(const char *scope, const char *id, const char *text)
{
    struct write_result result = write_ok(scope, id, text);

    write_result_destroy(&result);
}

/* A write that is refused; gives its error. */
static UNUSED struct error write_refused(const char *scope, struct wish *wish, enum status expected,
                                         int line)
{
    struct write_result result;
    struct error error;

    enum status status = write_wish(scope, wish, &result, &error);
    cr_expect(status == expected, "line %d: %s instead of %s: %s %s", line, status_name(status),
              status_name(expected), error.path, error.message);
    write_result_destroy(&result);
    return error;
}

static UNUSED bool has_member(const struct error *error, const char *member)
{
    return strstr(error->members, member) != NULL;
}

#define EXPECT_MEMBER(error, member)                                                               \
    cr_expect(has_member(&(error), member), "line %d: no %s in {%s}", __LINE__, member,            \
              (error).members)

/* ---- from a thread of its own ---- */

struct job {
    unsigned thread; /* which reader is its own; not 0 */
    const char *scope;
    struct wish wish;
    enum status status;
    struct error error;
    struct write_result result;
    atomic_bool begun, ended;
    atomic_int task; /* the thread's number in /proc */
    pthread_t id;
};

static UNUSED void *job_main(void *context)
{
    struct job *job = context;

    atomic_store(&job->task, gettid());
    atomic_store(&job->begun, true);
    job->status = write_wish_as(job->thread, job->scope, &job->wish, &job->result, &job->error);
    atomic_store(&job->ended, true);
    return NULL;
}

static UNUSED void job_start(struct job *job)
{
    cr_assert_eq(pthread_create(&job->id, NULL, job_main, job), 0);
}

static UNUSED void job_join(struct job *job)
{
    cr_assert_eq(pthread_join(job->id, NULL), 0);
}

static UNUSED void job_destroy(struct job *job)
{
    write_result_destroy(&job->result);
}

static UNUSED void nap_ms(unsigned ms)
{
    for (unsigned i = 0; i < ms; i++)
        temp_nap();
}

/* The state of a thread as the kernel has it: 'R' for one that waits for a processor, too. */
static UNUSED char job_state(const struct job *job)
{
    char path[64];
    char state = 'R';

    (void) snprintf(path, sizeof path, "/proc/self/task/%d/stat", atomic_load(&job->task));
    FILE *file = fopen(path, "re");
    if (!file)
        return 'X'; /* it has ended */
    if (fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
        state = 'R';
    (void) fclose(file);
    return state;
}

/* Waits until a job that was started waits for somebody: it sleeps whenever it is looked at. How
 * long it takes to come there is a matter of the machine. */
static UNUSED void job_wait_asleep(const struct job *job)
{
    unsigned asleep = 0;

    while (!atomic_load(&job->begun))
        temp_nap();
    while (asleep < 5 && !atomic_load(&job->ended)) {
        temp_nap();
        asleep = job_state(job) == 'S' ? asleep + 1 : 0;
    }
}

/* Starts the first one, waits until it stands at `point`, and starts the others behind it. */
static UNUSED void jobs_queue_up(struct job *jobs, size_t count, enum pause_point point)
{
    pause_arm(point);
    job_start(&jobs[0]);
    cr_assert(pause_wait_reached(point, LONG_MS));
    for (size_t i = 1; i < count; i++) {
        job_start(&jobs[i]);
        job_wait_asleep(&jobs[i]); /* one after the other, so that their order is known */
    }
}

/* The same, and lets them go on to their ends. */
static UNUSED void jobs_run_behind(struct job *jobs, size_t count, enum pause_point point)
{
    jobs_queue_up(jobs, count, point);
    pause_release(point);
    for (size_t i = 0; i < count; i++)
        job_join(&jobs[i]);
}

#define EXPECT_JOB(job, expected)                                                                  \
    cr_expect((job).status == (expected), "line %d: %s of %s: %s %s", __LINE__,                    \
              status_name((job).status), (job).wish.id ? (job).wish.id : "-", (job).error.path,    \
              (job).error.message)

#endif
