/* core/writer.h: writes from the lock to the index, alone and in groups. */
#include "tests/unit/write_checks.h"

#define JOBS 8

static void open_writer(void)
{
    const struct writer_options options = {.lock_timeout_ms = 2000};

    cr_assert_eq(writer_create(store->store, &options, &writer), STATUS_OK);
}

static void open_patient_writer(void)
{
    const struct writer_options options = {.lock_timeout_ms = 2000, .gather_max_ms = 1000};

    cr_assert_eq(writer_create(store->store, &options, &writer), STATUS_OK);
}

static void set_up(void)
{
    write_set_up();
    store->options.request_threads = JOBS + 1;
}

TestSuite(writer, .init = set_up, .fini = write_tear_down, .timeout = 60);

Test(writer, an_own_write_is_found_without_a_refresh)
{
    temp_store_usual(store, false);
    open_writer();
    AUTO_WRITE_RESULT struct write_result result = write_ok("u/a", "f3", "note three");
    cr_expect(result.changed);
    cr_expect(!result.index_behind);
    cr_expect_eq(result.attempts, 1);
    EXPECT_ASK(store, "u/a", "f1=one f2=two f3=three", "fresh", 0);
    EXPECT_ASK(store, "u/b", "g1=bee", "fresh", 0);
    cr_expect_eq(temp_volume_revision(store->volume, "u"), result.revision);
    cr_expect_eq(atomic_load(&store->store->counters.promoted), 1);
}

Test(writer, a_first_write_makes_the_user)
{
    temp_store_open(store);
    open_writer();
    AUTO_WRITE_RESULT struct write_result result = write_ok("new/a", "f1", "note one");
    cr_expect_eq(result.revision, 1);
    cr_expect(!result.index_behind, "nothing was there: the delta proves all");
    EXPECT_ASK(store, "new/a", "f1=one", "fresh", 0);
    AUTO_WRITE_RESULT struct write_result second = write_ok("new/a", "f1", "note uno");
    cr_expect_eq(second.revision, 2);
    EXPECT_ASK(store, "new/a", "f1=uno", "fresh", 0);
    AUTO_WRITE_RESULT struct write_result third = write_ok("new/a", "f1", NULL);
    cr_expect_eq(third.revision, 3);
    EXPECT_ASK(store, "new/a", "", "fresh", 0);
}

/* A row that no refresh has read has no stamp to be missed by. */
Test(writer, a_fact_of_ours_that_a_peer_deletes_is_gone)
{
    temp_store_usual(store, false);
    open_writer();
    write_done("u/a", "f3", "note three");
    temp_volume_delete(store->volume, "u", "a", "f3");
    EXPECT_ASK(store, "u/a", "f1=one f2=two", "refreshed", 1);
}

/* ---- another directory in the volume's place ---- */

/* A copy of the volume, moved there behind our back. */
static void replace_volume(void)
{
    const char *root = temp_volume_path(store->volume);
    char away[PATH_MAX];

    (void) snprintf(away, sizeof away, "%.*s/away", (int) (strrchr(root, '/') - root), root);
    test_rename(root, away);
    test_make_dirs(root);
    test_copy_tree(away, root);
}

static bool lies_at_the_path(const char *id)
{
    char path[SCOPE_PATH_MAX];

    temp_volume_fact_path("u", "a", id, path);
    return temp_volume_exists(store->volume, path);
}

Test(writer, a_write_after_the_volume_was_replaced_lies_where_the_path_leads)
{
    temp_store_usual(store, true);
    open_writer();
    write_done("u/a", "f3", "note three");
    replace_volume();
    write_done("u/a", "f4", "note four");
    cr_expect(lies_at_the_path("f4"));
    struct temp_answer answer = temp_store_ask(store, "u/a");
    cr_expect_str_eq(answer.facts, "f1=one f2=two f3=three f4=four");
}

/* Another directory takes the volume's place when a write has come so far. */
static void replace_during_write(enum pause_point point, struct job *job)
{
    temp_store_usual(store, true);
    open_writer();
    pause_arm(point);
    job_start(job);
    cr_assert(pause_wait_reached(point, LONG_MS));
    replace_volume();
    pause_release(point);
    job_join(job);
    EXPECT_JOB(*job, STATUS_UNAVAILABLE);
    cr_expect(!lies_at_the_path("f3"));
    write_done("u/a", "f4", "note four");
    cr_expect(lies_at_the_path("f4"));
}

Test(writer, a_write_whose_volume_is_replaced_before_its_commit_is_refused)
{
    struct job job = {.thread = 1, .scope = "u/a", .wish = {.id = "f3", .text = "note three"}};

    replace_during_write(PAUSE_COMMIT_AFTER_LOCK, &job);
    cr_expect(!strstr(job.error.members, "unconfirmed"));
    job_destroy(&job);
}

Test(writer, a_commit_whose_volume_is_replaced_meanwhile_is_not_acknowledged)
{
    struct job job = {.thread = 1, .scope = "u/a", .wish = {.id = "f3", .text = "note three"}};

    replace_during_write(PAUSE_COMMIT_AFTER_BACKUP, &job);
    EXPECT_MEMBER(job.error, "\"reason\":\"unconfirmed\"");
    job_destroy(&job);
}

/* ---- groups ---- */

static int64_t revision_of(const char *user)
{
    return temp_volume_revision(store->volume, user);
}

static void name_jobs(struct job jobs[JOBS], char ids[JOBS][8])
{
    for (unsigned i = 0; i < JOBS; i++) {
        (void) snprintf(ids[i], sizeof ids[i], "j%u", i);
        jobs[i] = (struct job){.thread = i + 1,
                               .scope = "u/a",
                               .wish = {.id = ids[i], .text = "note job"}};
    }
}

static void expect_own_result(const struct job *job, int64_t revision)
{
    const json_t *fact = json_array_get(job->result.upserted, 0);

    EXPECT_JOB(*job, STATUS_OK);
    cr_expect_eq(job->result.revision, revision, "%s: %d", job->wish.id,
                 (int) job->result.revision);
    cr_expect(job->result.changed);
    cr_expect_eq(job->result.attempts, 1);
    cr_expect_eq(json_array_size(job->result.upserted), 1);
    cr_expect_eq(json_array_size(job->result.deleted), 0);
    cr_expect_str_eq(json_string_value(json_object_get(fact, "id")), job->wish.id);
    cr_expect_eq(json_integer_value(json_object_get(fact, "revision")), 1);
}

#define ALL_JOBS "j0=job j1=job j2=job j3=job j4=job j5=job j6=job j7=job"

Test(writer, who_comes_before_the_lock_is_had_is_in_the_same_commit)
{
    struct job jobs[JOBS];
    char ids[JOBS][8];

    temp_store_usual(store, false);
    open_writer();
    name_jobs(jobs, ids);
    int64_t base = revision_of("u");
    jobs_run_behind(jobs, JOBS, PAUSE_COMMIT_AFTER_LOCK);
    for (unsigned i = 0; i < JOBS; i++) {
        expect_own_result(&jobs[i], base + 1);
        cr_expect_str_eq(jobs[i].result.last_updated, jobs[JOBS - 1].result.last_updated);
        job_destroy(&jobs[i]);
    }
    cr_expect_eq(revision_of("u"), base + 1);
    cr_expect_eq(atomic_load(&store->store->counters.commits), 1);
    cr_expect_eq(atomic_load(&store->store->counters.writes), JOBS);
    EXPECT_ASK(store, "u/a", "f1=one f2=two " ALL_JOBS, "fresh", 0);
}

Test(writer, who_comes_during_a_commit_is_in_the_next_one)
{
    struct job jobs[JOBS];
    char ids[JOBS][8];

    temp_store_usual(store, false);
    open_writer();
    name_jobs(jobs, ids);
    int64_t base = revision_of("u");
    jobs_run_behind(jobs, JOBS, PAUSE_COMMIT_AFTER_JOURNAL);
    for (unsigned i = 0; i < JOBS; i++) {
        expect_own_result(&jobs[i], base + (i == 0 ? 1 : 2));
        job_destroy(&jobs[i]);
    }
    cr_expect_eq(revision_of("u"), base + 2);
    cr_expect_eq(atomic_load(&store->store->counters.commits), 2);
    EXPECT_ASK(store, "u/a", "f1=one f2=two " ALL_JOBS, "fresh", 0);
}

/* Writes again as soon as the first one is answered. */
static void *twice_main(void *context)
{
    struct job *jobs = context;

    (void) job_main(&jobs[0]);
    return job_main(&jobs[1]);
}

/* The first commit answers one and leaves one waiting; that one leads, and the other comes again.
 */
Test(writer, a_group_waits_for_those_who_were_just_answered)
{
    struct job jobs[JOBS];
    char ids[JOBS][8];
    pthread_t twice;

    temp_store_usual(store, false);
    open_patient_writer();
    name_jobs(jobs, ids);
    jobs[1].thread = jobs[0].thread;
    int64_t base = revision_of("u");
    pause_arm(PAUSE_COMMIT_AFTER_JOURNAL);
    cr_assert_eq(pthread_create(&twice, NULL, twice_main, jobs), 0);
    cr_assert(pause_wait_reached(PAUSE_COMMIT_AFTER_JOURNAL, LONG_MS));
    job_start(&jobs[2]);
    nap_ms(1000); /* a quarter of the commit's time is what the group waits */
    pause_release(PAUSE_COMMIT_AFTER_JOURNAL);
    cr_assert_eq(pthread_join(twice, NULL), 0);
    job_join(&jobs[2]);
    for (unsigned i = 0; i < 3; i++) {
        expect_own_result(&jobs[i], base + (i == 0 ? 1 : 2));
        job_destroy(&jobs[i]);
    }
    cr_expect_eq(atomic_load(&store->store->counters.commits), 2);
}

/* Whom the crowd that was there lets wait does so once. */
Test(writer, who_is_alone_waits_for_nobody)
{
    struct job jobs[JOBS];
    char ids[JOBS][8];

    temp_store_usual(store, false);
    open_patient_writer();
    name_jobs(jobs, ids);
    jobs_run_behind(jobs, 2, PAUSE_COMMIT_AFTER_JOURNAL);
    uint64_t begun_ns = clock_monotonic_ns();
    for (unsigned i = 2; i < JOBS; i++) {
        write_done("u/a", ids[i], "note job");
        jobs[i].status = STATUS_OK;
    }
    uint64_t took_ms = (clock_monotonic_ns() - begun_ns) / NS_PER_MS;
    cr_expect(took_ms < 4000, "each waited: %d ms", (int) took_ms);
    cr_expect_eq(atomic_load(&store->store->counters.commits), JOBS);
    job_destroy(&jobs[0]);
    job_destroy(&jobs[1]);
}

#define CROWD (WRITE_GROUP_MAX + 6)

Test(writer, more_than_a_group_holds_are_in_several_commits)
{
    static struct job jobs[CROWD];
    char ids[CROWD][8];

    store->options.request_threads = CROWD + 1;
    temp_store_usual(store, false);
    open_writer();
    for (unsigned i = 0; i < CROWD; i++) {
        (void) snprintf(ids[i], sizeof ids[i], "j%u", i);
        jobs[i] = (struct job){.thread = i + 1,
                               .scope = "u/a",
                               .wish = {.id = ids[i], .text = "note job"}};
    }
    int64_t base = revision_of("u");
    jobs_run_behind(jobs, CROWD, PAUSE_COMMIT_AFTER_LOCK);
    for (unsigned i = 0; i < CROWD; i++) {
        expect_own_result(&jobs[i], base + (i < WRITE_GROUP_MAX ? 1 : 2));
        job_destroy(&jobs[i]);
    }
    cr_expect_eq(revision_of("u"), base + 2);
}

Test(writer, a_member_sees_what_the_earlier_ones_changed)
{
    temp_store_usual(store, false);
    open_writer();
    int64_t base = revision_of("u");
    struct job jobs[] = {
        {.thread = 1, .scope = "u/a", .wish = {.id = "f1", .text = "note uno"}},
        {.thread = 2,
         .scope = "u/a",
         .wish = {.id = "f1", .text = "note eins", .fact_revision = 2}},
        {.thread = 3, .scope = "u/a", .wish = {.id = "f1", .text = "note un", .fact_revision = 1}},
        {.thread = 4, .scope = "u/a", .wish = {.id = "f1", .text = "note eins"}},
        {.thread = 5, .scope = "u/a", .wish = {.id = "f2"}},
        {.thread = 6, .scope = "u/a", .wish = {.id = "f2", .text = "note again", .creates = true}},
    };

    jobs_run_behind(jobs, ARRAY_SIZE(jobs), PAUSE_COMMIT_AFTER_LOCK);
    EXPECT_JOB(jobs[0], STATUS_OK);
    EXPECT_JOB(jobs[1], STATUS_OK);
    EXPECT_JOB(jobs[2], STATUS_CONFLICT);
    EXPECT_MEMBER(jobs[2].error, "\"reason\":\"fact_revision\",\"fact_id\":\"f1\",\"expected\":1,"
                                 "\"current\":3");
    EXPECT_JOB(jobs[3], STATUS_OK);
    cr_expect(!jobs[3].result.changed, "it is there already");
    cr_expect_eq(jobs[3].result.revision, base + 1);
    EXPECT_JOB(jobs[4], STATUS_OK);
    EXPECT_JOB(jobs[5], STATUS_OK);
    cr_expect_eq(revision_of("u"), base + 1);
    EXPECT_ASK(store, "u/a", "f1=eins f2=again", "fresh", 0);
    for (size_t i = 0; i < ARRAY_SIZE(jobs); i++)
        job_destroy(&jobs[i]);
}

Test(writer, who_expects_a_manifest_revision_is_left_to_the_next_group)
{
    temp_store_usual(store, false);
    open_writer();
    int64_t base = revision_of("u");
    struct job jobs[] = {
        {.thread = 1, .scope = "u/a", .wish = {.id = "j1", .text = "note job"}},
        {.thread = 2,
         .scope = "u/a",
         .wish = {.id = "j2",
                  .text = "note job",
                  .has_manifest_revision = true,
                  .manifest_revision = base}},
        {.thread = 3, .scope = "u/a", .wish = {.id = "j3", .text = "note job"}},
        {.thread = 4,
         .scope = "u/a",
         .wish = {.id = "j4",
                  .text = "note job",
                  .has_manifest_revision = true,
                  .manifest_revision = base + 1}},
        {.thread = 5,
         .scope = "u/a",
         .wish = {.id = "j5",
                  .text = "note job",
                  .has_manifest_revision = true,
                  .manifest_revision = base,
                  .may_rebase = true}},
    };

    jobs_run_behind(jobs, ARRAY_SIZE(jobs), PAUSE_COMMIT_AFTER_LOCK);
    EXPECT_JOB(jobs[0], STATUS_OK);
    EXPECT_JOB(jobs[1], STATUS_CONFLICT);
    EXPECT_MEMBER(jobs[1].error, "\"reason\":\"manifest_revision\"");
    EXPECT_MEMBER(jobs[1].error, "\"attempts\":1");
    EXPECT_JOB(jobs[2], STATUS_OK);
    cr_expect_eq(jobs[2].result.revision, base + 1);
    EXPECT_JOB(jobs[3], STATUS_OK);
    cr_expect_eq(jobs[3].result.revision, base + 2);
    EXPECT_JOB(jobs[4], STATUS_OK);
    cr_expect_eq(jobs[4].result.revision, base + 3);
    cr_expect_eq(jobs[4].result.attempts, 2, "%u", jobs[4].result.attempts);
    cr_expect_eq(revision_of("u"), base + 3);
    EXPECT_ASK(store, "u/a", "f1=one f2=two j1=job j3=job j4=job j5=job", "fresh", 0);
    for (size_t i = 0; i < ARRAY_SIZE(jobs); i++)
        job_destroy(&jobs[i]);
}

Test(writer, what_cannot_be_written_fails_alone)
{
    temp_store_usual(store, false);
    open_writer();
    int64_t base = revision_of("u");
    struct job jobs[] = {
        {.thread = 1, .scope = "u/a", .wish = {.id = "j1", .text = "note job"}},
        {.thread = 2, .scope = "u/a", .wish = {.id = "j2", .text = " "}},
        {.thread = 3,
         .scope = "u/a",
         .wish = {.id = "j3", .text = "note job", .padding = FACT_FILE_BYTES_MAX}},
        {.thread = 4, .scope = "u/a", .wish = {.id = "f1", .text = "note uno", .fact_revision = 7}},
        {.thread = 5, .scope = "u/a", .wish = {.id = "j5", .text = "note job"}},
    };

    jobs_run_behind(jobs, ARRAY_SIZE(jobs), PAUSE_COMMIT_AFTER_LOCK);
    EXPECT_JOB(jobs[0], STATUS_OK);
    EXPECT_JOB(jobs[1], STATUS_INVALID);
    EXPECT_JOB(jobs[2], STATUS_TOO_LARGE);
    EXPECT_JOB(jobs[3], STATUS_CONFLICT);
    EXPECT_JOB(jobs[4], STATUS_OK);
    cr_expect_eq(jobs[0].result.attempts, 1);
    cr_expect_eq(jobs[4].result.attempts, 1);
    cr_expect_eq(revision_of("u"), base + 2, "each alone once one could not be written");
    EXPECT_ASK(store, "u/a", "f1=one f2=two j1=job j5=job", "fresh", 0);
    for (size_t i = 0; i < ARRAY_SIZE(jobs); i++)
        job_destroy(&jobs[i]);
}

/* A member that found all as it should be only because of what another one was going to write. */
Test(writer, who_rests_on_a_commit_that_fails_fails_with_it)
{
    temp_store_usual(store, false);
    open_writer();
    AUTO_WRITE_RESULT struct write_result first = write_ok("u/a", "f1", "note one");
    int64_t base = first.revision;
    struct job jobs[] = {
        {.thread = 1, .scope = "u/a", .wish = {.id = "f1", .text = "note one"}},
        {.thread = 2, .scope = "u/a", .wish = {.id = "j1", .text = "note job"}},
        {.thread = 3, .scope = "u/a", .wish = {.id = "j1", .text = "note job"}},
        {.thread = 4, .scope = "u/a", .wish = {.id = "j1", .text = "note job", .creates = true}},
    };

    temp_calls_fail(TEMP_CALL_RENAME, "/memory.json", ENOSPC, 0, 1);
    jobs_run_behind(jobs, ARRAY_SIZE(jobs), PAUSE_COMMIT_AFTER_LOCK);
    EXPECT_JOB(jobs[0], STATUS_OK);
    cr_expect(!jobs[0].result.changed, "it was as wished before anybody came");
    cr_expect_eq(jobs[0].result.revision, base);
    EXPECT_JOB(jobs[1], STATUS_STORAGE_FULL);
    EXPECT_JOB(jobs[2], STATUS_STORAGE_FULL);
    EXPECT_JOB(jobs[3], STATUS_STORAGE_FULL);
    cr_expect_str_eq(jobs[3].error.path, "users/u/memory.json");
    cr_expect_eq(revision_of("u"), base);
    EXPECT_ASK(store, "u/a", "f1=one f2=two", "refreshed", 1);
    for (size_t i = 0; i < ARRAY_SIZE(jobs); i++)
        job_destroy(&jobs[i]);
}

Test(writer, an_overtaken_group_starts_again)
{
    temp_store_usual(store, false);
    open_writer();
    int64_t base = revision_of("u");
    struct job jobs[] = {
        {.thread = 1, .scope = "u/a", .wish = {.id = "j1", .text = "note job"}},
        {.thread = 2, .scope = "u/a", .wish = {.id = "j1", .text = "note job"}},
        {.thread = 3, .scope = "u/a", .wish = {.id = "j3", .text = "note job", .gives_up = true}},
    };

    jobs_queue_up(jobs, ARRAY_SIZE(jobs), PAUSE_COMMIT_AFTER_LOCK);
    pause_arm(PAUSE_COMMIT_BEFORE_CHECK);
    pause_release(PAUSE_COMMIT_AFTER_LOCK);
    cr_assert(pause_wait_reached(PAUSE_COMMIT_BEFORE_CHECK, LONG_MS));
    (void) temp_volume_write_manifest(store->volume, "u");
    pause_release(PAUSE_COMMIT_BEFORE_CHECK);
    for (size_t i = 0; i < ARRAY_SIZE(jobs); i++)
        job_join(&jobs[i]);
    EXPECT_JOB(jobs[0], STATUS_OK);
    cr_expect_eq(jobs[0].result.attempts, 2);
    cr_expect_eq(jobs[0].result.revision, base + 2);
    EXPECT_JOB(jobs[1], STATUS_OK);
    cr_expect(!jobs[1].result.changed);
    cr_expect_eq(jobs[1].result.revision, base + 2);
    EXPECT_JOB(jobs[2], STATUS_CONFLICT);
    EXPECT_MEMBER(jobs[2].error, "\"reason\":\"overtaken\"");
    cr_expect_eq(revision_of("u"), base + 2);
    cr_expect(jobs[0].result.index_behind, "what somebody wrote in between it does not know");
    struct temp_answer answer = temp_store_ask(store, "u/a");
    cr_expect_str_eq(answer.facts, "f1=one f2=two j1=job");
    for (size_t i = 0; i < ARRAY_SIZE(jobs); i++)
        job_destroy(&jobs[i]);
}

Test(writer, a_waiter_whose_time_is_over_writes_nothing)
{
    temp_store_usual(store, false);
    open_writer();
    int64_t base = revision_of("u");
    struct job jobs[] = {
        {.thread = 1, .scope = "u/a", .wish = {.id = "j1", .text = "note job"}},
        {.thread = 2, .scope = "u/a", .wish = {.id = "j2", .text = "note job", .deadline_ms = 50}},
        {.thread = 3, .scope = "u/a", .wish = {.id = "j3", .text = "note job"}},
    };

    jobs_queue_up(jobs, ARRAY_SIZE(jobs), PAUSE_COMMIT_AFTER_LOCK);
    job_join(&jobs[1]);
    EXPECT_JOB(jobs[1], STATUS_TIMEOUT);
    cr_expect_eq(jobs[1].wish.asked, 0);
    cr_expect(!atomic_load(&jobs[2].ended));
    pause_release(PAUSE_COMMIT_AFTER_LOCK);
    job_join(&jobs[0]);
    job_join(&jobs[2]);
    EXPECT_JOB(jobs[0], STATUS_OK);
    EXPECT_JOB(jobs[2], STATUS_OK);
    cr_expect_eq(revision_of("u"), base + 1);
    EXPECT_ASK(store, "u/a", "f1=one f2=two j1=job j3=job", "fresh", 0);
    for (size_t i = 0; i < ARRAY_SIZE(jobs); i++)
        job_destroy(&jobs[i]);
}

Test(writer, a_leader_without_the_lock_fails_alone)
{
    temp_store_usual(store, false);
    open_writer();
    struct job jobs[] = {
        {.thread = 1,
         .scope = "u/a",
         .wish = {.id = "j1", .text = "note job", .deadline_ms = 2000}},
        {.thread = 2, .scope = "u/a", .wish = {.id = "j2", .text = "note job"}},
    };
    int fd = temp_volume_lock(store->volume, "u", true);

    job_start(&jobs[0]);
    job_wait_asleep(&jobs[0]); /* for the lock: it leads */
    job_start(&jobs[1]);
    job_join(&jobs[0]);
    EXPECT_JOB(jobs[0], STATUS_TIMEOUT);
    cr_expect_str_eq(jobs[0].error.path, "users/u/.memory.lock");
    cr_expect(strstr(jobs[0].error.message, "lock timeout"));
    cr_expect(!atomic_load(&jobs[1].ended));
    cleanup_close(&fd);
    job_join(&jobs[1]);
    EXPECT_JOB(jobs[1], STATUS_OK);
    EXPECT_ASK(store, "u/a", "f1=one f2=two j2=job", "fresh", 0);
    job_destroy(&jobs[0]);
    job_destroy(&jobs[1]);
}

/* The call hangs for good: one thread is lost to it, and nobody waits beyond his own time. */
Test(writer, a_lock_call_that_does_not_return_costs_one_thread)
{
    temp_store_usual(store, true);
    open_writer();
    struct job hung = {.thread = 1, .scope = "u/a", .wish = {.id = "j1", .text = "note job"}};
    struct job others[] = {
        {.thread = 2, .scope = "u/a", .wish = {.id = "j2", .text = "note job", .deadline_ms = 100}},
        {.thread = 3, .scope = "u/b", .wish = {.id = "j3", .text = "note job", .deadline_ms = 100}},
    };

    temp_calls_hang(TEMP_CALL_LOCK, "/u/.memory.lock");
    job_start(&hung);
    nap_ms(50);
    for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
        job_start(&others[i]);
        job_join(&others[i]);
        EXPECT_JOB(others[i], STATUS_TIMEOUT);
        cr_expect(strstr(others[i].error.message, "lock timeout"), "%s", others[i].error.message);
        job_destroy(&others[i]);
    }
    write_done("v/a", "h2", "note hb");
    EXPECT_ASK(store, "u/a u/b v/a", "f1=one f2=two g1=bee h1=aitch h2=hb", "fresh fresh fresh", 0);
    cr_expect(!atomic_load(&hung.ended));
    temp_calls_reset();
    job_join(&hung);
    EXPECT_JOB(hung, STATUS_OK);
    job_destroy(&hung);
    EXPECT_ASK(store, "u/a", "f1=one f2=two j1=job", "fresh", 0);
}

Test(writer, agents_of_one_user_follow_each_other)
{
    temp_store_usual(store, false);
    open_writer();
    int64_t base = revision_of("u");
    struct job jobs[] = {
        {.thread = 1, .scope = "u/a", .wish = {.id = "j1", .text = "note job"}},
        {.thread = 2, .scope = "u/b", .wish = {.id = "j2", .text = "note job"}},
        {.thread = 3, .scope = "u/a", .wish = {.summary = "of all agents"}},
    };

    jobs_queue_up(jobs, ARRAY_SIZE(jobs), PAUSE_COMMIT_AFTER_JOURNAL);
    cr_expect(!atomic_load(&jobs[1].ended));
    pause_release(PAUSE_COMMIT_AFTER_JOURNAL);
    for (size_t i = 0; i < ARRAY_SIZE(jobs); i++) {
        job_join(&jobs[i]);
        EXPECT_JOB(jobs[i], STATUS_OK);
        cr_expect(jobs[i].result.changed);
        job_destroy(&jobs[i]);
    }
    cr_expect_eq(revision_of("u"), base + 3);
    EXPECT_ASK(store, "u/a u/b", "f1=one f2=two g1=bee j1=job j2=job", "fresh fresh", 0);
}

/* A member that has to know all facts needs the index; the others do not. */
Test(writer, who_does_not_need_the_index_does_not_fail_with_it)
{
    temp_store_usual(store, false);
    open_writer();
    struct job jobs[] = {
        {.thread = 1, .scope = "u/a", .wish = {.id = "j1", .text = "note job"}},
        {.thread = 2,
         .scope = "u/a",
         .wish = {.id = "j2", .text = "note job", .need = WRITE_SOURCE_ALL}},
        {.thread = 3, .scope = "u/a", .wish = {.id = "j3", .text = "note job"}},
    };

    /* out of step, and no refresh can read why */
    temp_volume_add(store->volume, "u", "a", "f3", "note three");
    temp_calls_fail(TEMP_CALL_LIST, "/u/agents/a/facts", EIO, 0, 0);
    jobs_run_behind(jobs, ARRAY_SIZE(jobs), PAUSE_COMMIT_AFTER_LOCK);
    temp_calls_reset();
    EXPECT_JOB(jobs[0], STATUS_OK);
    EXPECT_JOB(jobs[1], STATUS_IO);
    EXPECT_JOB(jobs[2], STATUS_OK);
    struct temp_answer answer = temp_store_ask(store, "u/a");
    cr_expect_str_eq(answer.facts, "f1=one f2=two f3=three j1=job j3=job");
    for (size_t i = 0; i < ARRAY_SIZE(jobs); i++)
        job_destroy(&jobs[i]);
}

Test(writer, the_later_commit_has_the_later_time)
{
    temp_store_usual(store, false);
    open_writer();
    struct job jobs[] = {
        {.thread = 1, .scope = "u/a", .wish = {.id = "j1", .text = "note job"}},
        {.thread = 2, .scope = "u/b", .wish = {.id = "j2", .text = "note job"}},
    };

    /* the second one begins, and waits for the lock, before the first one is told the time */
    int fd = temp_volume_lock(store->volume, "u", true);
    job_start(&jobs[1]);
    nap_ms(30);
    cleanup_close(&fd);
    job_join(&jobs[1]);
    int held = temp_volume_lock(store->volume, "u", true);
    job_start(&jobs[0]);
    nap_ms(30);
    temp_volume_touch(store->volume, "u");
    char released[CLOCK_TEXT_SIZE];
    clock_format(clock_wall_ns(), released);
    cleanup_close(&held);
    job_join(&jobs[0]);
    EXPECT_JOB(jobs[0], STATUS_OK);
    cr_expect(strcmp(jobs[0].result.last_updated, released) >= 0, "%s before %s",
              jobs[0].result.last_updated, released);
    job_destroy(&jobs[0]);
    job_destroy(&jobs[1]);
}
