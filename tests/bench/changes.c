/* Another node's write, and the search that sees it.
 *
 *     changes ENDPOINT VOLUME USERS FACTS COUNT
 *
 * COUNT times: one of the facts f0 ... of one of the users u0 ... (make_volume.py writes such
 * volumes) and the manifest are replaced as a peer would, without syncing; then a search for the
 * new word must find it. Users take turns, and each rests until its last change has settled: what
 * is younger has to be read again by the next refresh, whoever makes it. Beside it the floor: what
 * anybody must do who looks for a change without being told, a look at each shard's directory, a
 * listing of the one that changed, and a read of the file.
 *
 * One JSON object comes out: p50 and p99 of both in microseconds. */
#include "core/clock.h"
#include "core/scope.h"
#include "core/text.h"
#include "ipc/memsync.h"
#include "tests/bench/samples.h"
#include "tests/support/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define SHARDS 256
#define TIMEOUT_MS 30000
#define REST_US 2500000 /* between two changes of one user */

struct target {
    char user[32];
    char bucket[4096];
    char facts[4096 + 64];
    int shard_fds[SHARDS];
};

static void write_manifest(const struct target *target, unsigned revision)
{
    char path[8192];
    AUTO_TEXT struct text text = {0};

    (void) snprintf(path, sizeof path, "%s/memory.json", target->bucket);
    text_append_format(&text,
                       "{\"version\": \"2.0\", \"revision\": %u,\n"
                       " \"lastUpdated\": \"2026-03-01T08:00:00Z\", \"user\": {}, \"history\": {}}",
                       revision);
    test_replace_file(path, text_string(&text), text.size);
}

static void write_fact(const struct target *target, unsigned number, unsigned revision,
                       char *ret_path, size_t size)
{
    char id[32];
    char shard[3];
    AUTO_TEXT struct text text = {0};

    (void) snprintf(id, sizeof id, "f%u", number);
    fact_id_shard(id, shard);
    (void) snprintf(ret_path, size, "%s/%s/%s.md", target->facts, shard, id);
    text_append_format(&text,
                       "---\nid: %s\ncategory: context\nconfidence: 0.7\n"
                       "createdAt: '2026-03-01T08:00:00.000000Z'\n"
                       "source:\n  type: manual\n  threadId: null\nschemaVersion: 2\n"
                       "status: active\ntopics: []\nconsolidatedFrom: []\n"
                       "updatedAt: '2026-03-01T08:00:00.000000Z'\nrevision: %u\n"
                       "user_id: %s\nagent_name: __default__\n---\n\n# changed\n\n"
                       "changed by another node, which tells of it with the word zq%ux\n",
                       id, revision, target->user, revision);
    test_replace_file(ret_path, text_string(&text), text.size);
}

/* ---- the floor ---- */

static void open_shards(struct target *target)
{
    for (unsigned i = 0; i < SHARDS; i++) {
        char path[8192];
        (void) snprintf(path, sizeof path, "%s/%02x", target->facts, i);
        target->shard_fds[i] = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (target->shard_fds[i] < 0 && errno != ENOENT)
            test_die("cannot open %s: %s", path, strerror(errno));
    }
}

/* Each user's shards are held open. */
static void raise_limit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        (void) setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static void open_target(struct target *target, const char *volume, size_t number)
{
    (void) snprintf(target->user, sizeof target->user, "u%zu", number);
    (void) snprintf(target->bucket, sizeof target->bucket, "%s/users/%s", volume, target->user);
    (void) snprintf(target->facts, sizeof target->facts, "%s/agents/__default__/facts",
                    target->bucket);
    open_shards(target);
}

static void look(const struct target *target, const char *path)
{
    char directory[8192];
    char bytes[65536];
    struct stat info;

    for (unsigned i = 0; i < SHARDS; i++) {
        if (target->shard_fds[i] >= 0 && fstat(target->shard_fds[i], &info) < 0)
            test_die("cannot look at a shard: %s", strerror(errno));
    }
    (void) snprintf(directory, sizeof directory, "%.*s", (int) (strrchr(path, '/') - path), path);
    DIR *listing = opendir(directory);
    if (!listing)
        test_die("cannot list %s: %s", directory, strerror(errno));
    for (const struct dirent *entry = readdir(listing); entry; entry = readdir(listing)) {
        if (fstatat(dirfd(listing), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) < 0)
            test_die("cannot look at %s: %s", entry->d_name, strerror(errno));
    }
    (void) closedir(listing);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || read(fd, bytes, sizeof bytes) <= 0)
        test_die("cannot read %s: %s", path, strerror(errno));
    (void) close(fd);
}

/* ---- the search ---- */

static void search(memsync_client *client, const char *user, unsigned revision)
{
    char params[512];
    char word[32];
    char *reply = NULL;

    (void) snprintf(word, sizeof word, "zq%ux", revision);
    (void) snprintf(params, sizeof params,
                    "{\"user_id\":\"%s\",\"query\":\"%s\",\"top_k\":5,\"freshness\":\"strict\"}",
                    user, word);
    if (memsync_call(client, "search", params, TIMEOUT_MS, &reply) != MEMSYNC_OK)
        test_die("a search failed: %s", memsync_last_error());
    if (!strstr(reply, "\"results\":[{") || !strstr(reply, word))
        test_die("the search does not see the change: %s", reply);
    memsync_free(reply);
}

int main(int argc, char **argv)
{
    memsync_client *client = NULL;
    AUTO_SAMPLES struct samples looks = {0};
    AUTO_SAMPLES struct samples searches = {0};

    if (argc != 6) {
        (void) fprintf(stderr, "usage: changes ENDPOINT VOLUME USERS FACTS COUNT\n");
        return 2;
    }
    size_t users = bench_number(argv[3], 1000);
    size_t facts = bench_number(argv[4], 10000000);
    size_t count = bench_number(argv[5], 1000000);
    struct target *targets = calloc(users, sizeof *targets);
    if (!targets)
        test_die("no memory");
    raise_limit();
    for (size_t i = 0; i < users; i++)
        open_target(&targets[i], argv[2], i);
    if (memsync_open(argv[1], &client) != MEMSYNC_OK)
        test_die("%s", memsync_last_error());
    unsigned revision = (unsigned) time(NULL) % 1000000 + 2;
    for (size_t i = 0; i < count; i++) {
        const struct target *target = &targets[i % users];
        char path[8192];

        write_fact(target, (unsigned) (i * 7919 % facts), ++revision, path, sizeof path);
        write_manifest(target, revision);
        uint64_t begun_ns = clock_monotonic_ns();
        look(target, path);
        samples_add(&looks, clock_monotonic_ns() - begun_ns);
        begun_ns = clock_monotonic_ns();
        search(client, target->user, revision);
        samples_add(&searches, clock_monotonic_ns() - begun_ns);
        (void) usleep((useconds_t) (REST_US / users));
    }
    memsync_close(&client);
    free(targets);
    (void) printf("{");
    samples_print(&looks, "look");
    (void) printf(", ");
    samples_print(&searches, "search");
    (void) printf("}\n");
    return 0;
}
