/* Another node's write, and the search that sees it.
 *
 *     changes ENDPOINT VOLUME USERS FACTS COUNT [OTHER THREADS]
 *
 * COUNT times: one of the facts f0 ... of one of the users u0 ... (make_volume.py writes such
 * volumes) and the manifest are replaced as a peer would, without syncing; then a search for the
 * new word must find it. Users take turns, and each rests until its last change has settled: what
 * is younger has to be read again by the next refresh, whoever makes it. Beside it the floor: what
 * anybody must do who looks for a change without being told, a look at each shard's directory, a
 * listing of the one that changed, and a read of the file; that many threads at a time (1).
 *
 * OTHER is where another node has the volume, which writes there; VOLUME is the agent's.
 *
 * One JSON object comes out: p50 and p99 of both in microseconds. */
#include "core/clock.h"
#include "core/reader_pool.h"
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
    char bucket[4096]; /* where the other node has it */
    char facts[4096 + 64];
    int shard_fds[SHARDS]; /* ours; -1: there is none */
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

static void open_shards(struct target *target, const char *volume)
{
    for (unsigned i = 0; i < SHARDS; i++) {
        char path[8192];
        (void) snprintf(path, sizeof path, "%s/users/%s/agents/__default__/facts/%02x", volume,
                        target->user, i);
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

static void open_target(struct target *target, const char *volume, const char *other, size_t number)
{
    (void) snprintf(target->user, sizeof target->user, "u%zu", number);
    (void) snprintf(target->bucket, sizeof target->bucket, "%s/users/%s", other, target->user);
    (void) snprintf(target->facts, sizeof target->facts, "%s/agents/__default__/facts",
                    target->bucket);
    open_shards(target, volume);
}

static void look_at(int fd, const char *name)
{
    struct statx info;

    if (statx(fd, name, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW | AT_STATX_FORCE_SYNC,
              STATX_BASIC_STATS, &info) < 0)
        test_die("cannot look at a shard%s%s: %s", *name ? " at " : "", name, strerror(errno));
}

static enum status look_at_shard(void *context, size_t index)
{
    const struct target *target = context;

    if (target->shard_fds[index] >= 0)
        look_at(target->shard_fds[index], "");
    return STATUS_OK;
}

/* The shard that changed, held open. */
struct shard {
    int fd;
    size_t count;
    char names[4096][NAME_MAX + 1];
};

static enum status look_at_file(void *context, size_t index)
{
    const struct shard *shard = context;

    look_at(shard->fd, shard->names[index]);
    return STATUS_OK;
}

static void list_shard(struct shard *shard)
{
    DIR *listing = fdopendir(openat(shard->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));

    if (!listing)
        test_die("cannot list a shard: %s", strerror(errno));
    shard->count = 0;
    for (const struct dirent *entry = readdir(listing); entry; entry = readdir(listing)) {
        if (entry->d_name[0] != '.' && shard->count < ARRAY_SIZE(shard->names))
            (void) snprintf(shard->names[shard->count++], sizeof shard->names[0], "%s",
                            entry->d_name);
    }
    (void) closedir(listing);
}

static void look(struct target *target, struct reader_pool *pool, const char *path)
{
    static struct shard shard;
    char bytes[65536];
    const char *name = strrchr(path, '/') + 1;

    shard.fd = target->shard_fds[strtoul(name - 3, NULL, 16)];
    if (reader_pool_run(pool, SHARDS, look_at_shard, target) != STATUS_OK)
        test_die("cannot look at the shards");
    list_shard(&shard);
    if (reader_pool_run(pool, shard.count, look_at_file, &shard) != STATUS_OK)
        test_die("cannot look at the files");
    int fd = openat(shard.fd, name, O_RDONLY | O_CLOEXEC);
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

static struct reader_pool *create_pool(size_t threads)
{
    struct reader_pool *pool = NULL;

    if (reader_pool_create((unsigned) threads - 1, READER_POOL_EAGER, &pool) != STATUS_OK)
        test_die("no threads");
    return pool;
}

int main(int argc, char **argv)
{
    memsync_client *client = NULL;
    AUTO_SAMPLES struct samples looks = {0};
    AUTO_SAMPLES struct samples searches = {0};

    if (argc != 6 && argc != 8) {
        (void) fprintf(stderr,
                       "usage: changes ENDPOINT VOLUME USERS FACTS COUNT [OTHER THREADS]\n");
        return 2;
    }
    size_t users = bench_number(argv[3], 1000);
    size_t facts = bench_number(argv[4], 10000000);
    size_t count = bench_number(argv[5], 1000000);
    struct reader_pool *pool = create_pool(argc == 8 ? bench_number(argv[7], 257) : 1);
    struct target *targets = calloc(users, sizeof *targets);
    if (!targets)
        test_die("no memory");
    raise_limit();
    for (size_t i = 0; i < users; i++)
        open_target(&targets[i], argv[2], argc == 8 ? argv[6] : argv[2], i);
    if (memsync_open(argv[1], &client) != MEMSYNC_OK)
        test_die("%s", memsync_last_error());
    unsigned revision = (unsigned) time(NULL) % 1000000 + 2;
    for (size_t i = 0; i < count; i++) {
        struct target *target = &targets[i % users];
        char path[8192];

        write_fact(target, (unsigned) (i * 7919 % facts), ++revision, path, sizeof path);
        write_manifest(target, revision);
        uint64_t begun_ns = clock_monotonic_ns();
        look(target, pool, path);
        samples_add(&looks, clock_monotonic_ns() - begun_ns);
        begun_ns = clock_monotonic_ns();
        search(client, target->user, revision);
        samples_add(&searches, clock_monotonic_ns() - begun_ns);
        (void) usleep((useconds_t) (REST_US / users));
    }
    memsync_close(&client);
    reader_pool_destroy(&pool);
    free(targets);
    (void) printf("{");
    samples_print(&looks, "look");
    (void) printf(", ");
    samples_print(&searches, "search");
    (void) printf("}\n");
    return 0;
}
