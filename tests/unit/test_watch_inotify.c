/* The kernel queues an event before the call that causes it returns, so no test waits for luck. */
#include "core/clock.h"
#include "core/watch_inotify.h"
#include "tests/support/captured_log.h"
#include "tests/support/child.h"
#include "tests/support/descriptors.h"
#include "tests/support/files.h"
#include "tests/support/temp_volume.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

/* Criterion's macros put an int into a bit field. */
#pragma GCC diagnostic ignored "-Wconversion"

#define CALLS_MAX 8192
#define RETRY_NS (31 * NS_PER_SECOND)

struct call {
    enum watch_event event;
    bool has_user;
    char bucket[64];
};

/* What one test works with. */
struct bench {
    struct temp_volume *files;
    struct volume *volume;
    struct watch_inotify *watch;
    struct call calls[CALLS_MAX];
    size_t call_count;
};

static struct bench bench;

static void note(void *context, enum watch_event event, bool has_user, const char *bucket)
{
    struct bench *to = context;

    cr_assert(lt(sz, to->call_count, CALLS_MAX));
    struct call *call = &to->calls[to->call_count++];
    call->event = event;
    call->has_user = has_user;
    (void) snprintf(call->bucket, sizeof call->bucket, "%s", bucket ? bucket : "(null)");
}

static void open_volume(const struct volume_calls *calls, enum volume_kind kind)
{
    const struct volume_options options = {
        .path = temp_volume_path(bench.files),
        .calls = calls,
        .force_kind = &kind,
    };
    struct error error = {0};

    cr_assert(eq(int, volume_open(&options, &bench.volume, &error), STATUS_OK), "%s",
              error.message);
}

static void open_watch(const char *manifest_name)
{
    struct error error = {0};

    cr_assert(eq(int,
                 watch_inotify_create(bench.volume, manifest_name, note, &bench, &bench.watch,
                                      &error),
                 STATUS_OK),
              "%s", error.message);
}

static void step(void)
{
    struct error error = {0};

    cr_assert(eq(int, watch_inotify_step(bench.watch, &error), STATUS_OK), "%s", error.message);
}

static bool is_readable(void)
{
    struct pollfd ready = {.fd = watch_inotify_fd(bench.watch), .events = POLLIN};

    return poll(&ready, 1, 5) == 1;
}

/* Forgets the calls so far and goes on until the watcher has nothing left to do. */
static void pump(void)
{
    bench.call_count = 0;
    while (is_readable())
        step();
}

static size_t count_calls(enum watch_event event, const char *bucket)
{
    size_t count = 0;

    for (size_t i = 0; i < bench.call_count; i++) {
        if (bench.calls[i].event == event &&
            (!bucket || strcmp(bench.calls[i].bucket, bucket) == 0))
            count++;
    }
    return count;
}

static size_t changed(const char *bucket)
{
    return count_calls(WATCH_BUCKET_CHANGED, bucket);
}

static size_t gone(const char *bucket)
{
    return count_calls(WATCH_BUCKET_GONE, bucket);
}

static struct watch_inotify_state state(void)
{
    struct watch_inotify_state now;

    watch_inotify_state(bench.watch, &now);
    return now;
}

static void add_users(unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        char path[32];
        (void) snprintf(path, sizeof path, "users/u%u", i);
        temp_volume_make_dir(bench.files, path);
    }
}

static void make_files(void)
{
    captured_log_start();
    bench.files = temp_volume_create();
}

static void start(unsigned users)
{
    make_files();
    add_users(users);
    open_volume(NULL, VOLUME_LOCAL);
    open_watch("memory.json");
    pump();
}

static void stop(void)
{
    watch_inotify_destroy(&bench.watch);
    volume_close(&bench.volume);
    temp_volume_destroy(&bench.files);
    cr_expect(eq(ptr, (void *) (uintptr_t) captured_log_unexpected(), NULL), "%s",
              captured_log_unexpected());
    captured_log_stop();
}

Test(watch_inotify, the_first_step_watches_and_tells_every_bucket)
{
    start(3);
    cr_expect(eq(sz, changed("u0"), 1));
    cr_expect(eq(sz, changed("u1"), 1));
    cr_expect(eq(sz, changed("u2"), 1));
    cr_expect(eq(sz, changed(""), 1), "the root is a bucket too");
    cr_expect(eq(sz, bench.call_count, 4));
    cr_expect(eq(u64, state().watched, 5), "root, users and three buckets");
    cr_expect(eq(u64, state().wanted, 5));
    cr_expect(eq(ptr, (void *) (uintptr_t) state().limit, NULL));
    stop();
}

Test(watch_inotify, a_commit_is_told_once_a_step_however_many_events_it_makes)
{
    start(2);
    (void) temp_volume_add(bench.files, "u1", "a", "f1", "one");
    (void) temp_volume_add(bench.files, "u1", "a", "f2", "two");
    bench.call_count = 0;
    step();
    cr_expect(eq(sz, changed("u1"), 1));
    cr_expect(eq(sz, bench.call_count, 1));
    cr_expect(ge(u64, state().events, 8));
    stop();
}

Test(watch_inotify, only_what_can_matter_is_told)
{
    const struct {
        const char *path;
        size_t told;
    } cases[] = {
        {"users/u0/memory.json", 1},
        {"users/u0/.memory.journal.json", 1},
        {"users/u0/.memory.lock", 0},
        {"users/u0/.memory.json.0a1b.tmp", 0},
        {"users/u0/index.json", 0},
        {"users/u0/.recovery/op/f1.md", 0},
        {"users/u0/agents/a/facts/99/f1.md", 1}, /* agents/ is new */
        {"users/u0/agents/a/facts/99/f2.md", 0}, /* facts are left to the manifest and to polling */
        {"users/notes.txt", 0},
        {".memsyncd/volume-id", 0},
    };

    start(1);
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        temp_volume_write(bench.files, cases[i].path, "{}", 2);
        pump();
        cr_expect(eq(sz, bench.call_count, cases[i].told), "%s", cases[i].path);
    }
    stop();
}

Test(watch_inotify, every_way_a_manifest_can_change_is_seen)
{
    char file[PATH_MAX];

    start(1);
    temp_volume_set_revision(bench.files, "u0", 3);
    pump();
    cr_expect(eq(sz, changed("u0"), 1), "replaced");
    temp_volume_touch(bench.files, "u0");
    pump();
    cr_expect(eq(sz, changed("u0"), 1), "its time set");

    temp_volume_file(bench.files, "users/u0/memory.json", file);
    int fd = open(file, O_WRONLY | O_APPEND | O_CLOEXEC);
    cr_assert(ge(int, fd, 0));
    cr_assert(eq(int, (int) write(fd, "\n", 1), 1));
    (void) close(fd);
    pump();
    cr_expect(eq(sz, changed("u0"), 1), "written in place");

    temp_volume_rename(bench.files, "users/u0/memory.json", "../outside/memory.json");
    pump();
    cr_expect(eq(sz, changed("u0"), 1), "moved away");
    temp_volume_rename(bench.files, "../outside/memory.json", "users/u0/memory.json");
    pump();
    cr_expect(eq(sz, changed("u0"), 1), "moved back");
    temp_volume_remove(bench.files, "users/u0/memory.json");
    pump();
    cr_expect(eq(sz, changed("u0"), 1), "removed");
    stop();
}

Test(watch_inotify, the_root_is_the_bucket_without_a_user)
{
    start(1);
    (void) temp_volume_add(bench.files, NULL, "a", "f1", "one");
    pump();
    cr_assert(eq(sz, bench.call_count, 1));
    cr_expect_str_eq(bench.calls[0].bucket, "");
    cr_expect(not(bench.calls[0].has_user));
    stop();
}

Test(watch_inotify, a_manifest_of_another_name_is_the_one_that_counts)
{
    make_files();
    temp_volume_set_manifest_name(bench.files, "index.json");
    (void) temp_volume_add(bench.files, "u0", "a", "f1", "one");
    open_volume(NULL, VOLUME_LOCAL);
    open_watch("index.json");
    pump();
    temp_volume_set_revision(bench.files, "u0", 9);
    pump();
    cr_expect(eq(sz, changed("u0"), 1));
    temp_volume_write(bench.files, "users/u0/memory.json", "{}", 2);
    pump();
    cr_expect(eq(sz, bench.call_count, 0));
    stop();
}

Test(watch_inotify, a_user_that_appears_is_watched_before_it_is_told)
{
    start(0);
    cr_expect(eq(u64, state().watched, 1), "there is no users directory yet");
    cr_expect(eq(u64, state().wanted, 1));
    (void) temp_volume_add(bench.files, "new", "a", "f1", "one");
    pump();
    cr_expect(eq(sz, changed("new"), 1));
    cr_expect(eq(u64, state().watched, 3));
    (void) temp_volume_add(bench.files, "new", "a", "f2", "two");
    pump();
    cr_expect(eq(sz, changed("new"), 1));
    stop();
}

Test(watch_inotify, a_tree_moved_in_is_watched_and_moved_out_is_not)
{
    start(1);
    (void) temp_volume_add(bench.files, "u9", "a", "f1", "one");
    pump();
    temp_volume_rename(bench.files, "users/u9", "../outside/u9");
    pump();
    cr_expect(eq(sz, gone("u9"), 1));
    cr_expect(eq(sz, changed("u9"), 0));
    cr_expect(eq(u64, state().watched, 3));
    cr_expect(eq(u64, state().wanted, 3));

    temp_volume_write(bench.files, "../outside/u9/memory.json", "{}", 2);
    pump();
    cr_expect(eq(sz, bench.call_count, 0), "it is no longer ours");

    temp_volume_rename(bench.files, "../outside/u9", "users/u9");
    pump();
    cr_expect(eq(sz, changed("u9"), 1));
    temp_volume_set_revision(bench.files, "u9", 4);
    pump();
    cr_expect(eq(sz, changed("u9"), 1));
    stop();
}

Test(watch_inotify, a_renamed_bucket_is_told_under_both_names)
{
    start(1);
    temp_volume_rename(bench.files, "users/u0", "users/other");
    pump();
    cr_expect(eq(sz, gone("u0"), 1));
    cr_expect(eq(sz, changed("other"), 1));
    temp_volume_set_revision(bench.files, "other", 2);
    pump();
    cr_expect(eq(sz, changed("other"), 1));
    cr_expect(eq(sz, bench.call_count, 1));
    cr_expect(eq(u64, state().watched, 3));
    stop();
}

Test(watch_inotify, two_buckets_that_change_places_keep_their_watches)
{
    start(2);
    temp_volume_rename(bench.files, "users/u0", "../outside/u0");
    temp_volume_rename(bench.files, "users/u1", "users/u0");
    temp_volume_rename(bench.files, "../outside/u0", "users/u1");
    pump();
    cr_expect(eq(sz, changed("u0"), 1));
    cr_expect(eq(sz, changed("u1"), 1));
    cr_expect(eq(sz, gone(NULL), 0));
    cr_expect(eq(u64, state().watched, 4));
    for (int i = 0; i < 2; i++) {
        const char *user = i ? "u1" : "u0";
        temp_volume_set_revision(bench.files, user, 2);
        pump();
        cr_expect(eq(sz, changed(user), 1), "%s", user);
        cr_expect(eq(sz, bench.call_count, 1), "%s", user);
    }
    stop();
}

Test(watch_inotify, a_directory_made_again_under_its_name_is_watched_again)
{
    start(2);
    for (unsigned i = 0; i < 3; i++) {
        /* All of it before the watcher looks. */
        temp_volume_remove(bench.files, "users/u0");
        (void) temp_volume_add(bench.files, "u0", "a", "f1", "one");
        pump();
        cr_expect(eq(sz, changed("u0"), 1), "time %u", i);
        cr_expect(eq(sz, gone("u0"), 0), "time %u", i);
        cr_expect(eq(u64, state().watched, 4), "time %u", i);
        (void) temp_volume_add(bench.files, "u0", "a", "f2", "two");
        pump();
        cr_expect(eq(sz, changed("u0"), 1), "time %u", i);
    }
    stop();
}

Test(watch_inotify, the_users_directory_may_go_and_come_back)
{
    start(2);
    temp_volume_remove(bench.files, "users");
    pump();
    cr_expect(eq(sz, gone("u0"), 1));
    cr_expect(eq(sz, gone("u1"), 1));
    cr_expect(eq(u64, state().watched, 1));
    cr_expect(eq(u64, state().wanted, 1));

    (void) temp_volume_add(bench.files, "u1", "a", "f1", "one");
    pump();
    cr_expect(eq(sz, changed("u1"), 1));
    cr_expect(eq(u64, state().watched, 3));

    temp_volume_rename(bench.files, "users", "../outside/users");
    temp_volume_make_dir(bench.files, "users/u2");
    pump();
    cr_expect(eq(sz, gone("u1"), 1));
    cr_expect(eq(sz, changed("u2"), 1));
    temp_volume_write(bench.files, "../outside/users/u1/memory.json", "{}", 2);
    temp_volume_make_dir(bench.files, "../outside/users/u7");
    pump();
    cr_expect(eq(sz, bench.call_count, 0));
    stop();
}

Test(watch_inotify, what_is_no_directory_of_a_user_is_left_alone)
{
    char link_path[PATH_MAX];
    char target[PATH_MAX];

    start(1);
    temp_volume_make_dir(bench.files, "../outside/real");
    temp_volume_file(bench.files, "users/linked", link_path);
    temp_volume_file(bench.files, "../outside/real", target);
    cr_assert(zero(int, symlink(target, link_path)));
    temp_volume_make_dir(bench.files, "users/lost+found");
    pump();
    cr_expect(eq(sz, bench.call_count, 0));
    temp_volume_write(bench.files, "../outside/real/memory.json", "{}", 2);
    pump();
    cr_expect(eq(sz, bench.call_count, 0), "a link leads nowhere");

    /* A bucket that turns into a link is gone. */
    temp_volume_rename(bench.files, "users/u0", "../outside/u0");
    temp_volume_rename(bench.files, "users/linked", "users/u0");
    pump();
    cr_expect(eq(sz, gone("u0"), 1));
    cr_expect(eq(u64, state().watched, 2));
    stop();
}

/* Two events that follow each other and are equal become one, so the names alternate. */
static void overflow_queue(void)
{
    char a[PATH_MAX];
    char b[PATH_MAX];

    AUTO_CLOSE int limit_fd = open("/proc/sys/fs/inotify/max_queued_events", O_RDONLY | O_CLOEXEC);
    char digits[32] = {0};
    cr_assert(gt(int, (int) read(limit_fd, digits, sizeof digits - 1), 0));
    unsigned long limit = strtoul(digits, NULL, 10);
    temp_volume_file(bench.files, "users/u0/a", a);
    temp_volume_file(bench.files, "users/u0/b", b);
    test_replace_file(a, "", 0);
    for (unsigned long i = 0; i < limit / 4 + 2; i++) {
        test_rename(a, b);
        test_rename(b, a);
    }
}

Test(watch_inotify, an_overflow_is_told_and_everything_is_looked_at_anew, .timeout = 60)
{
    start(4);
    overflow_queue();
    /* None of this makes an event any more, not even the end of a watch. */
    temp_volume_remove(bench.files, "users/u1");
    temp_volume_remove(bench.files, "users/u2");
    temp_volume_make_dir(bench.files, "users/u2");
    temp_volume_make_dir(bench.files, "users/u9");
    temp_volume_set_revision(bench.files, "u3", 5);
    pump();
    cr_expect(eq(sz, count_calls(WATCH_EVENTS_LOST, "(null)"), 1));
    cr_expect(eq(u64, state().overflows, 1));
    cr_expect(eq(sz, gone("u1"), 1));
    cr_expect(eq(sz, changed("u2"), 1));
    cr_expect(eq(sz, changed("u3"), 1));
    cr_expect(eq(sz, changed("u9"), 1));
    cr_expect(eq(u64, state().watched, 6));
    cr_expect(eq(u64, state().wanted, 6));

    const char *const users[] = {"u2", "u3", "u9"};
    for (size_t i = 0; i < ARRAY_SIZE(users); i++) {
        temp_volume_set_revision(bench.files, users[i], 8);
        pump();
        cr_expect(eq(sz, changed(users[i]), 1), "%s is still watched", users[i]);
        cr_expect(eq(sz, bench.call_count, 1));
    }
    stop();
}

Test(watch_inotify, a_stream_of_events_does_not_hide_other_users)
{
    start(2);
    for (unsigned i = 0; i < 500; i++) {
        temp_volume_set_mtime(bench.files, "users/u0", i);
        temp_volume_write(bench.files, "users/u0/memory.json", "{}", 2);
    }
    (void) temp_volume_add(bench.files, "u1", "a", "f1", "one");
    pump();
    cr_expect(eq(sz, changed("u1"), 1));
    cr_expect(le(sz, changed("u0"), 8), "one call a step: %zu", changed("u0"));
    stop();
}

/* ---- limits ---- */

static bool write_text(const char *path, const char *text)
{
    AUTO_CLOSE int fd = open(path, O_WRONLY | O_CLOEXEC);

    return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t) strlen(text);
}

/* A user namespace of our own has limits of its own, which bother nobody else. */
static bool enter_namespace(const char *limit, const char *value)
{
    char map[64];
    char path[64];

    (void) snprintf(map, sizeof map, "0 %u 1", (unsigned) geteuid());
    (void) snprintf(path, sizeof path, "/proc/sys/user/%s", limit);
    if (unshare(CLONE_NEWUSER) == 0 && write_text("/proc/self/setgroups", "deny") &&
        write_text("/proc/self/uid_map", map) && write_text(path, value))
        return true;
    (void) fprintf(stderr, "SKIPPED: no user namespace to set %s in: %s\n", limit, strerror(errno));
    return false;
}

static unsigned child_failures;

static void check_in_child(bool fine, const char *what, int line)
{
    if (fine)
        return;
    child_failures++;
    (void) fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, line, what);
}
#define CHECK(condition) check_in_child((condition), #condition, __LINE__)

/* Only a process with one thread may enter a user namespace, and a new one has one. */
static void run_with_limit(const char *limit, const char *value, void (*body)(void))
{
    int status = 0;
    pid_t child = fork();

    cr_assert(ge(int, child, 0));
    if (child == 0) {
        if (enter_namespace(limit, value))
            body();
        child_exit(child_failures == 0 ? 0 : 1);
    }
    cr_assert(eq(int, waitpid(child, &status, 0), child));
    cr_expect(eq(int, status, 0), "the checks above failed");
}

static void open_watch_in_child(void)
{
    CHECK(watch_inotify_create(bench.volume, "memory.json", note, &bench, &bench.watch, NULL) ==
          STATUS_OK);
    pump();
}

static void check_watch_limit(void)
{
    open_watch_in_child();
    CHECK(changed(NULL) == 41); /* all are told, watched or not */
    CHECK(state().watched == 2);
    CHECK(state().wanted == 42);
    CHECK(state().limit && strcmp(state().limit, "fs.inotify.max_user_watches") == 0);

    temp_volume_make_dir(bench.files, "users/late");
    pump();
    CHECK(changed("late") == 1);
    clock_advance_for_test(RETRY_NS);
    bench.call_count = 0;
    CHECK(watch_inotify_step(bench.watch, NULL) == STATUS_OK);
    CHECK(bench.call_count == 0); /* a vain try is no news */
    CHECK(captured_log_count("event=watch.limit ") == 1);
    CHECK(captured_log_count("watched=2 wanted=42") == 1);

    CHECK(write_text("/proc/sys/user/max_inotify_watches", "1000"));
    clock_advance_for_test(RETRY_NS);
    bench.call_count = 0;
    CHECK(watch_inotify_step(bench.watch, NULL) == STATUS_OK);
    CHECK(changed(NULL) == 41); /* what happened before the watch may be unseen */
    CHECK(state().watched == 43);
    CHECK(!state().limit);
    CHECK(captured_log_count("event=watch.limit_lifted") == 1);
}

Test(watch_inotify, a_watch_limit_is_told_once_and_the_rest_is_left_to_polling)
{
    make_files();
    add_users(40);
    open_volume(NULL, VOLUME_LOCAL);
    run_with_limit("max_inotify_watches", "2", check_watch_limit);
    stop();
}

static void check_freed_watch(void)
{
    open_watch_in_child();
    CHECK(state().watched == 4);
    CHECK(state().wanted == 5);
    temp_volume_remove(bench.files, "users/u0");
    temp_volume_remove(bench.files, "users/u1");
    pump();
    CHECK(state().watched == 3);
    CHECK(state().wanted == 3);
    CHECK(!state().limit);
    temp_volume_set_revision(bench.files, "u2", 2);
    pump();
    CHECK(changed("u2") == 1);
}

Test(watch_inotify, a_watch_that_is_freed_is_given_to_another_bucket)
{
    make_files();
    add_users(3);
    open_volume(NULL, VOLUME_LOCAL);
    run_with_limit("max_inotify_watches", "4", check_freed_watch);
    stop();
}

static bool is_busy_naming(const char *limit)
{
    struct watch_inotify *watch = NULL;
    struct error error = {0};

    return watch_inotify_create(bench.volume, "memory.json", note, &bench, &watch, &error) ==
               STATUS_BUSY &&
           strstr(error.message, limit) && !watch;
}

static void check_instance_limit(void)
{
    CHECK(is_busy_naming("fs.inotify.max_user_instances"));
}

Test(watch_inotify, an_instance_limit_is_named)
{
    make_files();
    open_volume(NULL, VOLUME_LOCAL);
    run_with_limit("max_inotify_instances", "0", check_instance_limit);
    stop();
}

Test(watch_inotify, a_descriptor_limit_is_not_taken_for_an_instance_limit)
{
    struct rlimit before;
    struct rlimit none;

    make_files();
    open_volume(NULL, VOLUME_LOCAL);
    cr_assert(zero(int, getrlimit(RLIMIT_NOFILE, &before)));
    none = before;
    none.rlim_cur = 0;
    cr_assert(zero(int, setrlimit(RLIMIT_NOFILE, &none)));
    cr_expect(is_busy_naming("RLIMIT_NOFILE"));
    cr_assert(zero(int, setrlimit(RLIMIT_NOFILE, &before)));
    stop();
}

/* Where a directory was a file has come. */
static enum status open_a_file(void *context, const char *bucket, const char *path, int *ret,
                               struct error *error)
{
    (void) context;
    (void) bucket;
    (void) path;
    *ret = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    return *ret < 0 ? error_set_errno(error, errno, NULL, "cannot open the file") : STATUS_OK;
}

Test(watch_inotify, what_cannot_be_watched_is_told_and_left_to_polling)
{
    make_files();
    add_users(1);
    open_volume(NULL, VOLUME_LOCAL);
    open_watch("memory.json");
    watch_inotify_open_with(bench.watch, open_a_file, NULL);
    captured_log_expect("event=watch.refused path=users/u0 ");
    pump();
    cr_expect(eq(sz, changed("u0"), 1), "told, so that somebody looks");
    cr_expect(eq(u64, state().watched, 2));
    cr_expect(eq(u64, state().wanted, 3));
    cr_expect(eq(sz, captured_log_count("cause=\"cannot watch: "), 1));
    stop();
}

/* There are three of them. */
Test(watch_inotify, without_all_of_its_descriptors_it_does_not_start)
{
    struct watch_inotify *watch = NULL;
    struct error error = {0};

    make_files();
    open_volume(NULL, VOLUME_LOCAL);
    for (unsigned left = 1; left < 3; left++) {
        descriptors_leave(left);
        enum status status =
            watch_inotify_create(bench.volume, "memory.json", note, &bench, &watch, &error);
        descriptors_give_back();
        cr_expect(ne(int, status, STATUS_OK));
        cr_expect(ne(ptr, strstr(error.message, "cannot prepare watching"), NULL), "%s",
                  error.message);
        cr_expect(eq(ptr, watch, NULL));
    }
    stop();
}

Test(watch_inotify, a_directory_that_may_not_be_read_is_tried_again_when_its_mode_changes)
{
    char path[PATH_MAX];
    bool is_root = geteuid() == 0;

    make_files();
    add_users(2);
    temp_volume_file(bench.files, "..", path);
    cr_assert(zero(int, chmod(path, 0755)));
    temp_volume_file(bench.files, "users/u1", path);
    cr_assert(zero(int, chmod(path, 0)));
    open_volume(NULL, VOLUME_LOCAL);
    open_watch("memory.json");
    captured_log_expect("event=watch.refused path=users/u1 ");
    if (is_root)
        cr_assert(zero(int, seteuid(65534)));
    pump();
    cr_expect(eq(sz, changed("u0"), 1));
    cr_expect(eq(sz, changed("u1"), 1), "told, so that somebody finds out why");
    cr_expect(eq(u64, state().watched, 3));
    cr_expect(eq(u64, state().wanted, 4));
    cr_expect(eq(ptr, (void *) (uintptr_t) state().limit, NULL));

    clock_advance_for_test(RETRY_NS);
    step();
    cr_expect(eq(sz, captured_log_count("event=watch.refused"), 1));
    if (is_root)
        cr_assert(zero(int, seteuid(0)));
    cr_assert(zero(int, chmod(path, 0755)));
    if (is_root)
        cr_assert(zero(int, seteuid(65534)));
    pump();
    cr_expect(eq(sz, changed("u1"), 1));
    cr_expect(eq(u64, state().watched, 4));
    if (is_root)
        cr_assert(zero(int, seteuid(0)));
    stop();
}

/* ---- faults of the volume ---- */

static unsigned failing_lists;
static unsigned vain_opens;

static ssize_t list_or_fail(int fd, void *bytes, size_t size)
{
    if (failing_lists == 0)
        return volume_real_calls()->list(fd, bytes, size);
    failing_lists--;
    errno = EIO;
    return -1;
}

static int open_counting(int dir_fd, const char *path, int flags, mode_t mode)
{
    int fd = volume_real_calls()->open_beneath(dir_fd, path, flags, mode);

    if (fd < 0 && errno == ENOENT && strstr(path, "users"))
        vain_opens++;
    return fd;
}

static struct volume_calls counting_calls(void)
{
    struct volume_calls calls = *volume_real_calls();

    calls.list = list_or_fail;
    calls.open_beneath = open_counting;
    return calls;
}

static int open_slowly(int dir_fd, const char *path, int flags, mode_t mode)
{
    const struct timespec delay = {.tv_nsec = 1000000};

    (void) nanosleep(&delay, NULL);
    return volume_real_calls()->open_beneath(dir_fd, path, flags, mode);
}

Test(watch_inotify, on_a_slow_volume_a_step_does_not_wait_for_all_users)
{
    static struct volume_calls calls;

    calls = *volume_real_calls();
    calls.open_beneath = open_slowly;
    make_files();
    add_users(120);
    open_volume(&calls, VOLUME_LOCAL);
    open_watch("memory.json");
    step();
    cr_expect(gt(sz, bench.call_count, 0));
    cr_expect(lt(sz, bench.call_count, 121));
    while (is_readable())
        step();
    cr_expect(eq(sz, bench.call_count, 121));
    cr_expect(eq(u64, state().watched, 122));
    stop();
}

Test(watch_inotify, a_failed_listing_says_so_and_is_repeated)
{
    static struct volume_calls calls;

    calls = counting_calls();
    make_files();
    add_users(2);
    open_volume(&calls, VOLUME_LOCAL);
    open_watch("memory.json");
    captured_log_expect("event=watch.refused path=users ");
    failing_lists = 1;
    cr_expect(eq(int, watch_inotify_step(bench.watch, NULL), STATUS_IO));
    cr_expect(eq(sz, changed("u0"), 0));
    clock_advance_for_test(RETRY_NS);
    bench.call_count = 0;
    step();
    cr_expect(eq(sz, changed("u0"), 1));
    cr_expect(eq(sz, changed("u1"), 1));

    /* A listing that fails later takes nothing away. */
    overflow_queue();
    failing_lists = 1;
    bench.call_count = 0;
    cr_expect(eq(int, watch_inotify_step(bench.watch, NULL), STATUS_IO));
    cr_expect(eq(sz, gone(NULL), 0));
    cr_expect(eq(u64, state().watched, 4));
    stop();
}

/* Where "not found" may be remembered, no name is opened that a listing did not show. */
Test(watch_inotify, on_a_network_volume_it_lists_and_does_not_probe)
{
    static struct volume_calls calls;

    calls = counting_calls();
    make_files();
    open_volume(&calls, VOLUME_UNKNOWN);
    open_watch("memory.json");
    pump();
    temp_volume_make_dir(bench.files, "users");
    temp_volume_make_dir(bench.files, "users/u0");
    temp_volume_remove(bench.files, "users/u0");
    temp_volume_make_dir(bench.files, "users/u1");
    pump();
    cr_expect(eq(sz, changed("u1"), 1));
    temp_volume_remove(bench.files, "users/u1");
    temp_volume_make_dir(bench.files, "users/u2");
    pump();
    cr_expect(eq(sz, gone("u1"), 1));
    cr_expect(eq(sz, changed("u2"), 1));
    temp_volume_remove(bench.files, "users");
    pump();
    cr_expect(eq(sz, gone("u2"), 1));
    cr_expect(eq(uint, vain_opens, 0));
    cr_expect(eq(u64, state().watched, 1));
    stop();
}
