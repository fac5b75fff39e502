/* Memory, threads and calls that the system refuses, for the code that chaos/faults does not reach:
 * where there are several, one after the other, until none is left to refuse.
 */
#include "core/bucket_errand.h"
#include "core/capacity.h"
#include "core/errands.h"
#include "core/fact_normalise.h"
#include "core/keeper.h"
#include "core/refresher.h"
#include "core/volume_side_data.h"
#include "core/watch_inotify.h"
#include "core/watch_poll.h"
#include "core/yaml_surrogate.h"

#include "tests/support/wrapped/allocations.h"
#include "tests/unit/write_checks.h"

#include <poll.h>

/* ---- what is refused ---- */

static struct {
    _Atomic unsigned nth;  /* which one of a thread's own; 0: none */
    atomic_bool elsewhere; /* of all threads but the test's; else of that one */
    _Atomic unsigned struck;
} memory;

static _Thread_local unsigned allocations;
static _Thread_local bool is_test;

static bool refuses_memory(const char *what)
{
    unsigned nth = atomic_load(&memory.nth);

    (void) what;
    if (nth == 0 || is_test == atomic_load(&memory.elsewhere) || captured_log_is_keeping() ||
        ++allocations != nth)
        return false;
    (void) atomic_fetch_add(&memory.struck, 1);
    return true;
}

static void refuse_memory(unsigned nth, bool elsewhere)
{
    allocations = 0;
    atomic_store(&memory.struck, 0);
    atomic_store(&memory.elsewhere, elsewhere);
    atomic_store(&memory.nth, nth);
}

/* True when any was refused. */
static bool grant_memory(void)
{
    atomic_store(&memory.nth, 0);
    return atomic_load(&memory.struck) > 0;
}

/* Which thread to come is refused; 0: none. */
static _Atomic unsigned thread_refused;

/* What such a call is refused with; 0: it is not. */
enum call { CALL_RANDOM, CALL_INOTIFY, CALL_FLOCK, CALL_POLL, CALL_WRITE, CALL_COUNT };
static _Atomic int refusals[CALL_COUNT];

static bool is_refused(enum call call)
{
    int sys_errno = atomic_load(&refusals[call]);

    if (sys_errno)
        errno = sys_errno;
    return sys_errno != 0;
}

static void refuse(enum call call, int sys_errno)
{
    atomic_store(&refusals[call], sys_errno);
}

/* Names that begin so are the linker's. */
int __real_pthread_create(pthread_t *ret, const pthread_attr_t *attributes, void *(*start)(void *),
                          void *context);
int __wrap_pthread_create(pthread_t *ret, const pthread_attr_t *attributes, void *(*start)(void *),
                          void *context);
ssize_t __real_getrandom(void *bytes, size_t size, unsigned flags);
ssize_t __wrap_getrandom(void *bytes, size_t size, unsigned flags);
int __real_inotify_init1(int flags);
int __wrap_inotify_init1(int flags);
int __real_flock(int fd, int operation);
int __wrap_flock(int fd, int operation);
int __real_poll(struct pollfd *fds, nfds_t count, int timeout_ms);
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout_ms);
ssize_t __real_write(int fd, const void *bytes, size_t size);
ssize_t __wrap_write(int fd, const void *bytes, size_t size);

int __wrap_pthread_create(pthread_t *ret, const pthread_attr_t *attributes, void *(*start)(void *),
                          void *context)
{
    if (atomic_load(&thread_refused) > 0 && atomic_fetch_sub(&thread_refused, 1) == 1)
        return EAGAIN;
    return __real_pthread_create(ret, attributes, start, context);
}

ssize_t __wrap_getrandom(void *bytes, size_t size, unsigned flags)
{
    return is_refused(CALL_RANDOM) ? -1 : __real_getrandom(bytes, size, flags);
}

int __wrap_inotify_init1(int flags)
{
    return is_refused(CALL_INOTIFY) ? -1 : __real_inotify_init1(flags);
}

int __wrap_flock(int fd, int operation)
{
    return is_refused(CALL_FLOCK) ? -1 : __real_flock(fd, operation);
}

int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
    return is_refused(CALL_POLL) ? -1 : __real_poll(fds, count, timeout_ms);
}

ssize_t __wrap_write(int fd, const void *bytes, size_t size)
{
    return is_refused(CALL_WRITE) ? -1 : __real_write(fd, bytes, size);
}

static void set_up(void)
{
    is_test = true;
    allocations_ask(refuses_memory);
    write_set_up();
}

TestSuite(refusals, .init = set_up, .fini = write_tear_down, .timeout = 300);

static bool tells_of_memory(enum status status)
{
    return status == STATUS_NO_MEMORY || status == STATUS_UNAVAILABLE;
}

/* Does it with each of its allocations refused, until there are no more of them: it fails for it,
 * or does without. Returns how many failed. */
static unsigned refuse_each(enum status (*act)(void))
{
    unsigned failed = 0;

    for (unsigned nth = 1;; nth++) {
        refuse_memory(nth, false);
        enum status status = act();
        if (!grant_memory()) {
            cr_expect_eq(status, STATUS_OK, "%s", status_name(status));
            return failed;
        }
        cr_expect(status == STATUS_OK || tells_of_memory(status), "allocation %u: %s", nth,
                  status_name(status));
        failed += status != STATUS_OK;
    }
}

/* ---- memory: parts ---- */

static struct capacity_fact facts[4];

static enum status choose(void)
{
    static const struct capacity_policy policy = CAPACITY_POLICY_DEFAULT;
    AUTO_CHOICE struct capacity_choice choice = {0};

    return capacity_choose(&policy, CAPACITY_HYBRID_V1, 2, facts, ARRAY_SIZE(facts), 0, &choice);
}

Test(refusals, memory_to_choose_what_stays)
{
    AUTO_JSON json_t *document = json_pack("{s:s,s:f}", "category", "context", "confidence", 0.5);

    for (size_t i = 0; i < ARRAY_SIZE(facts); i++)
        facts[i].document = document;
    cr_expect(refuse_each(choose) >= 2);
}

static enum status hide(void)
{
    static const char text[] = "\"\\ud83d\"";
    AUTO_YAML_SURROGATE struct yaml_surrogate surrogate = {0};

    return yaml_surrogate_hide(text, sizeof text - 1, &surrogate, NULL);
}

Test(refusals, memory_for_half_a_surrogate_pair)
{
    cr_expect(refuse_each(hide) >= 1);
}

#define BUCKETS 40 /* more than a table has room for at first */

static enum status poll_many(void)
{
    const struct watch_poll_options poll_options = {.interval_min_ns = 1,
                                                    .interval_max_ns = 2,
                                                    .operations_per_second = 1};
    struct watch_poll *poll = NULL;
    char bucket[16];

    enum status status = watch_poll_create(&poll_options, &poll);
    for (unsigned i = 0; status == STATUS_OK && i < BUCKETS; i++) {
        (void) snprintf(bucket, sizeof bucket, "u%u", i);
        status = watch_poll_add(poll, true, bucket, 0);
    }
    watch_poll_destroy(&poll);
    return status;
}

Test(refusals, memory_to_poll_a_bucket)
{
    cr_expect(refuse_each(poll_many) > BUCKETS);
}

static void drop_event(void *context, enum watch_event event, bool has_user, const char *bucket)
{
    (void) context;
    (void) event;
    (void) has_user;
    (void) bucket;
}

static enum status watch(void)
{
    struct watch_inotify *inotify = NULL;

    enum status status =
        watch_inotify_create(store->store->volume, "memory.json", drop_event, NULL, &inotify, NULL);
    if (status == STATUS_OK)
        status = watch_inotify_step(inotify, NULL);
    watch_inotify_destroy(&inotify);
    return status;
}

Test(refusals, memory_to_watch_a_volume)
{
    temp_store_usual(store, true);
    cr_expect(refuse_each(watch) >= 3);
}

static int bucket_fd;

static enum status count_hits(void)
{
    const struct usage_hit hits[] = {{"f1", NS_PER_SECOND}, {"f2", NS_PER_SECOND}};
    bool malformed = false;

    return volume_usage_add(store->store->volume, bucket_fd, "a", hits, ARRAY_SIZE(hits), 30,
                            &malformed, NULL);
}

Test(refusals, memory_to_count_hits)
{
    temp_store_usual(store, false);
    cr_assert(volume_open_dir(store->store->volume, -1, "users/u", &bucket_fd, NULL) == STATUS_OK);
    cr_expect(refuse_each(count_hits) >= 5);
    (void) close(bucket_fd);
}

static enum status look_at_a_user(void)
{
    struct bucket_check *check = NULL;
    struct bucket_verdict verdict = {0};
    AUTO_CLOSE int fd = -1;

    enum status status = bucket_check_create(store->store, &check, NULL);
    if (status == STATUS_OK)
        status = bucket_errand_check(store->store, check, true, "u", false, &verdict, NULL);
    if (status == STATUS_OK)
        status = bucket_errand_open(store->store, "u", "users/u", &fd, NULL);
    bucket_check_destroy(&check);
    return status;
}

Test(refusals, memory_to_send_somebody_to_look_at_a_user)
{
    static enum volume_kind unknown = VOLUME_UNKNOWN;

    store->options.force_kind = &unknown;
    temp_store_usual(store, false);
    cr_expect(refuse_each(look_at_a_user) >= 3);
}

static struct scope scope;

static enum status bring_in_step(void)
{
    return refresher_bring_in_step(store->store, store->reader, &scope, REFRESH_WISH_NONE,
                                   clock_deadline_ms(LONG_MS), NULL);
}

/* As a write does it when the agent has just begun: nobody has asked for the scope. */
Test(refusals, memory_to_bring_a_scope_in_step)
{
    temp_store_usual(store, false);
    temp_store_close(store);
    temp_store_open(store);
    temp_store_scope("u/a", &scope);
    cr_expect(refuse_each(bring_in_step) >= 3);
}

/* A cached attribute: the size from before the file was replaced. */
static int stat_with_old_size(int fd, const char *path, struct statx *ret)
{
    int result = volume_real_calls()->stat_forced(fd, path, ret);

    ret->stx_size = 3;
    return result;
}

Test(refusals, memory_to_read_more_than_was_told)
{
    struct volume_calls calls = *volume_real_calls();
    const struct volume_options options = {.path = temp_volume_path(store->volume),
                                           .calls = &calls};
    struct volume *volume = NULL;
    unsigned refused = 0;
    enum status status;

    temp_volume_write(store->volume, "longer", "more than three", 15);
    cr_assert(volume_open(&options, &volume, NULL) == STATUS_OK);
    calls.stat_forced = stat_with_old_size;
    for (unsigned nth = 1;; nth++) {
        AUTO_IMAGE struct file_image image = {0};
        refuse_memory(nth, false);
        status = volume_read_file(volume, -1, "longer", 1000, &image, NULL);
        if (!grant_memory())
            break;
        refused += status == STATUS_NO_MEMORY;
    }
    cr_expect_eq(status, STATUS_STALE);
    cr_expect_eq(refused, 2);
    volume_close(&volume);
}

/* ---- memory: searches ---- */

static struct search_request request;

static enum status search(void)
{
    AUTO_SEARCH struct search_result result = {0};

    request.reading.deadline_ns = clock_deadline_ms(LONG_MS);
    return searcher_run(store->store, &request, &result, NULL);
}

static void ask_for(const char *query)
{
    temp_store_scope("u/a", &scope);
    request = (struct search_request){
        .reading = {.scopes = &scope, .count = 1, .may_block = true},
        .query = query,
        .query_size = strlen(query),
        .top_k = 10,
    };
}

Test(refusals, memory_to_search_for_words_and_for_parts_of_words)
{
    static const char *const queries[] = {"note", "ote"};

    temp_store_usual(store, false);
    for (size_t i = 0; i < ARRAY_SIZE(queries); i++) {
        ask_for(queries[i]);
        cr_expect(refuse_each(search) >= 5);
        EXPECT_ASK(store, "u/a", "f1=one f2=two", "fresh", 0);
    }
}

/* Each look is another thread's errand. */
Test(refusals, memory_to_search_where_a_volume_may_hang)
{
    static enum volume_kind unknown = VOLUME_UNKNOWN;

    store->options.force_kind = &unknown;
    temp_store_usual(store, false);
    ask_for("note");
    cr_expect(refuse_each(search) >= 5);
    EXPECT_ASK(store, "u/a", "f1=one f2=two", "fresh", 0);
}

/* The answer is given without a look, which is asked for behind it, and goes out whether that can
 * be remembered or not. The agent has just begun: nobody has asked for the scope. */
Test(refusals, memory_to_look_behind_an_answer)
{
    temp_store_usual(store, false);
    ask_for("note");
    request.reading.mode = FRESHNESS_BOUNDED;
    request.reading.max_staleness_ns = 10 * NS_PER_SECOND;
    for (unsigned nth = 1;; nth++) {
        temp_store_close(store);
        temp_store_open(store);
        EXPECT_ASK(store, "u/a", "f1=one f2=two", "fresh", 0);
        clock_advance_for_test(6 * NS_PER_SECOND);
        refuse_memory(nth, false);
        enum status status = search();
        if (!grant_memory())
            break;
        cr_expect(status == STATUS_OK || tells_of_memory(status), "allocation %u: %s", nth,
                  status_name(status));
    }
    cr_expect_geq(captured_log_count("event=refresh.later"), 1);
}

/* ---- memory: the keeper ---- */

static struct keeper *keeper;

static const struct keeper_options keeping = {.refreshers = 1,
                                              .inotify = true,
                                              .poll_interval_min_ms = 5,
                                              .poll_interval_max_ms = 10,
                                              .operations_per_second = 100000};

static enum status keep(void)
{
    return keeper_start(store->store, &keeping, &keeper, NULL);
}

static void stop_keeping(void)
{
    cr_assert(keeper_stop(&keeper, CLOCK_NEVER));
    temp_store_close(store);
}

Test(refusals, memory_to_start_the_keeper)
{
    bool was_refused = true;

    for (unsigned nth = 1; was_refused; nth++) {
        temp_store_open(store);
        refuse_memory(nth, false);
        enum status status = keep();
        was_refused = grant_memory();
        cr_expect_eq(status, was_refused ? STATUS_NO_MEMORY : STATUS_OK, "allocation %u: %s", nth,
                     status_name(status));
        cr_expect((keeper != NULL) == (status == STATUS_OK));
        stop_keeping();
    }
}

/* What failed is done again: a listing in the next second, a bucket that cannot be remembered with
 * the next listing. */
static bool watcher_comes_through(unsigned users)
{
    struct keeper_state state = {0};

    for (unsigned i = 0; i < LONG_MS && !(state.first_pass_done && state.buckets >= users); i++) {
        keeper_state(keeper, &state);
        clock_advance_for_test(NS_PER_SECOND / 4);
        temp_nap();
    }
    return state.first_pass_done && state.buckets >= users;
}

/* Whoever looks may seem to hang, for the clock has moved. */
static bool all_is_fresh(void)
{
    for (unsigned i = 0; i < LONG_MS; i++) {
        struct temp_answer answer = temp_store_ask(store, "u/a u/b v/a");
        if (strcmp(answer.facts, "f1=one f2=two g1=bee h1=aitch") == 0 &&
            strcmp(answer.states, "fresh fresh fresh") == 0)
            return true;
        temp_nap();
    }
    return false;
}

/* Far behind the beginning it is all SQLite's, and some will do. */
static void refuse_each_of_the_watcher(void)
{
    bool was_refused = true;

    temp_store_usual(store, true);
    temp_store_close(store);
    for (unsigned nth = 1; was_refused; nth += 1 + nth / 40) {
        temp_store_open(store);
        refuse_memory(nth, true);
        cr_assert(keep() == STATUS_OK);
        cr_expect(watcher_comes_through(2), "allocation %u", nth);
        was_refused = grant_memory();
        cr_expect(all_is_fresh(), "allocation %u", nth);
        stop_keeping();
    }
}

Test(refusals, memory_of_the_watcher)
{
    refuse_each_of_the_watcher();
    cr_expect_geq(captured_log_count("event=watch.poll "), 1, "a bucket that is not polled yet");
    cr_expect_geq(captured_log_count("event=watch.inotify "), 1);
    cr_expect_geq(captured_log_count("event=volume.listing "), 1);
    cr_expect_geq(captured_log_count("could not be listed"), 1);
}

Test(refusals, memory_of_the_watcher_where_a_volume_may_hang)
{
    static enum volume_kind unknown = VOLUME_UNKNOWN;

    store->options.force_kind = &unknown;
    refuse_each_of_the_watcher();
    cr_expect_geq(captured_log_count("not all looks were taken over"), 1);
}

/* ---- threads ---- */

Test(refusals, threads_of_the_keeper)
{
    static const char *const what[] = {"a refresher thread", "a refresher thread",
                                       "the watcher thread"};

    for (unsigned nth = 0; nth < ARRAY_SIZE(what); nth++) {
        struct error error = {0};
        temp_store_open(store);
        atomic_store(&thread_refused, nth + 1);
        cr_expect(keeper_start(store->store, &keeping, &keeper, &error) != STATUS_OK);
        cr_expect(strstr(error.message, what[nth]) != NULL, "%u: %s", nth, error.message);
        cr_expect(keeper == NULL);
        stop_keeping();
    }
}

Test(refusals, threads_that_read)
{
    struct reader_pool *pool = NULL;

    for (unsigned nth = 1; nth <= 2; nth++) {
        atomic_store(&thread_refused, nth);
        cr_expect_eq(reader_pool_create(2, READER_POOL_EAGER, &pool), STATUS_NO_MEMORY);
        cr_expect(pool == NULL);
    }
}

static void run_nothing(struct errand *errand)
{
    (void) errand;
}

static void destroy_errand(struct errand *errand)
{
    free(errand);
}

static struct errand *make_errand(void)
{
    struct errand *errand = calloc(1, sizeof *errand);

    cr_assert(errand);
    errand->run = run_nothing;
    errand->destroy = destroy_errand;
    temp_store_scope("u/a", &errand->scope);
    return errand;
}

Test(refusals, threads_that_look)
{
    struct errands *errands = NULL;
    struct error error = {0};

    cr_assert(errands_create(&errands) == STATUS_OK);
    atomic_store(&thread_refused, 1);
    cr_expect(errands_send(errands, make_errand(), &error) == NULL);
    cr_expect_eq(error.status, STATUS_UNAVAILABLE);
    cr_expect(strstr(error.message, "no thread") != NULL, "%s", error.message);
    struct errand *errand = errands_send(errands, make_errand(), &error);
    cr_assert(errand, "the next one finds a thread");
    cr_expect_eq(errands_wait(errands, errand, CLOCK_NEVER, NULL), STATUS_OK);
    errands_release(errands, errand);
    cr_assert(errands_settle(errands, CLOCK_NEVER));
    errands_destroy(&errands);
}

/* ---- calls ---- */

Test(refusals, random_numbers_of_a_fact_without_id)
{
    AUTO_JSON json_t *input = json_pack("{s:s}", "content", "note new");
    json_t *made = NULL;

    temp_store_scope("u/a", &scope);
    refuse(CALL_RANDOM, ENOSYS);
    cr_expect_eq(fact_normalise(input, &scope, NS_PER_SECOND, &made, NULL), STATUS_INTERNAL);
    cr_expect(made == NULL);
}

/* Of the operation, and of the names that files have until they are complete. */
Test(refusals, random_numbers_of_a_write)
{
    const struct writer_options writer_options = {.lock_timeout_ms = 2000};
    struct wish wish = {.id = "f3", .text = "note three"};

    temp_store_usual(store, false);
    cr_assert(writer_create(store->store, &writer_options, &writer) == STATUS_OK);
    AUTO_JSON json_t *before = temp_tree_read(store->volume, "users/u");
    refuse(CALL_RANDOM, ENOSYS);
    (void) write_refused("u/a", &wish, STATUS_IO, __LINE__);
    cr_assert(volume_open_dir(store->store->volume, -1, "users/u", &bucket_fd, NULL) == STATUS_OK);
    cr_expect_eq(volume_replace_file(store->store->volume, bucket_fd, "memory.json", "{}", 2, NULL),
                 STATUS_IO);
    (void) close(bucket_fd);
    AUTO_JSON json_t *after = temp_tree_read(store->volume, "users/u");
    cr_expect(json_equal(before, after));
    refuse(CALL_RANDOM, 0);
    write_done("u/a", "f3", "note three");
}

Test(refusals, random_numbers_of_a_marker)
{
    (void) temp_volume_add(store->volume, "u", "a", "f1", "note one");
    refuse(CALL_RANDOM, ENOSYS);
    temp_store_open(store);
    cr_expect(!temp_volume_exists(store->volume, ".memsyncd/volume-id"));
    EXPECT_ASK(store, "u/a", "f1=one", "refreshed", 1);
}

/* ENFILE: the system has no descriptor left, whatever is left to this process. */
Test(refusals, inotify_instances)
{
    struct watch_inotify *inotify = NULL;
    struct error error = {0};

    temp_store_usual(store, false);
    refuse(CALL_INOTIFY, ENFILE);
    cr_expect(watch_inotify_create(store->store->volume, "memory.json", drop_event, NULL, &inotify,
                                   &error) != STATUS_OK);
    cr_expect(strstr(error.message, "cannot make an inotify instance") != NULL, "%s",
              error.message);
    cr_expect(inotify == NULL);
}

/* As where the index lies on a network volume whose server does not lock. */
Test(refusals, the_lock_of_the_index)
{
    struct store *none = NULL;
    struct error error = {0};

    refuse(CALL_FLOCK, ENOLCK);
    cr_expect(store_open(&store->options, &none, &error) != STATUS_OK);
    cr_expect(strstr(error.message, "cannot lock the index directory") != NULL, "%s",
              error.message);
    cr_expect(none == NULL);
    refuse(CALL_FLOCK, 0);
    temp_store_open(store);
}

/* The watcher then turns without a pause, which is better than not at all. */
Test(refusals, the_watchers_sleep)
{
    temp_store_usual(store, false);
    cr_assert(keep() == STATUS_OK);
    refuse(CALL_POLL, ENOMEM);
    cr_expect(captured_log_wait("event=watch.poll reason=", 1, LONG_MS));
    refuse(CALL_POLL, 0);
    cr_expect(watcher_comes_through(1));
    stop_keeping();
}

/* It ends when it has slept enough. */
Test(refusals, the_watchers_alarm)
{
    temp_store_usual(store, false);
    cr_assert(keep() == STATUS_OK);
    cr_expect(watcher_comes_through(1));
    refuse(CALL_WRITE, EIO);
    bool has_ended = keeper_stop(&keeper, CLOCK_NEVER);
    refuse(CALL_WRITE, 0);
    cr_expect(has_ended);
    cr_expect_eq(captured_log_count("event=watch.wake "), 1);
}
