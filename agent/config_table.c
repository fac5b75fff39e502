#include "agent/config_table.h"

#include <assert.h>
#include <ctype.h>
#include <stddef.h>
#include <string.h>

#define MEMBER(name) offsetof(struct config, name)
#define HOUR_MS (UINT64_C(3600) * 1000)
#define KIB UINT64_C(1024)
#define MIB (KIB * 1024)
#define GIB (MIB * 1024)

static const struct config_key keys[] = {
    {"volume.path", CONFIG_ABSOLUTE, MEMBER(volume_path), .example = "/srv/memsync",
     .help = "The root of the shared volume. Required. The unit may only write below\n"
             "/srv/memsync; for another place see the drop-in in systemd/README.md."},
    {"volume.manifest_filename", CONFIG_FILENAME, MEMBER(volume_manifest_filename),
     .standard = "memory.json",
     .help = "The name of the manifest in each bucket; the same for all writers of a volume."},
    {"volume.locks", CONFIG_CHOICE, MEMBER(volume_locks), .standard = "auto",
     .choices = "auto|trusted|local",
     .help = "Whether locks reach the other nodes. auto: decided by the file system; trusted:\n"
             "they do; local: they do not, so a journal is only rolled back after the grace."},
    {"volume.recovery_grace_ms", CONFIG_MS, MEMBER(volume_recovery_grace_ms), 100, 24 * HOUR_MS,
     .standard = "60000",
     .help = "How long a writer's journal must stay unchanged before it counts as dead where\n"
             "locks do not reach the other nodes."},
    {"volume.cache_ms", CONFIG_MS, MEMBER(volume_cache_ms), 0, 24 * HOUR_MS, .standard = "0",
     .help = "How long a client of the file system may show an old listing: a scope that changed\n"
             "is looked at once more after that. 0: as the mount's options and type say."},
    {"volume.kind", CONFIG_CHOICE, MEMBER(volume_kind), .standard = "auto",
     .choices = "auto|local|cluster|unknown",
     .help = "What to take the file system for. auto: by its type; cluster: NFS, CephFS and\n"
             "the like; unknown: nothing is believed about caches and locks."},
    {"volume.multi_instance", CONFIG_BOOL, MEMBER(volume_multi_instance), .standard = "false",
     .help = "Several agents or other programs write to the volume: warns about an index that\n"
             "is placed where they would meet."},
    {"volume.read_only", CONFIG_BOOL, MEMBER(volume_read_only), .standard = "false",
     .help = "Never write to the volume: no recovery of dead writers, no marker."},

    {"index.path", CONFIG_PATH, MEMBER(index_path), .example = "/var/cache/memsyncd",
     .help = "The directory of the search index, on a local disk. Not given: the service's\n"
             "cache directory; \"\": .retrieval in the volume; relative: against the volume."},
    {"index.allow_network", CONFIG_BOOL, MEMBER(index_allow_network), .standard = "false",
     .help = "Accept an index on a network or unknown file system. SQLite's locks are not\n"
             "reliable there."},
    {"index.mmap_bytes", CONFIG_BYTES, MEMBER(index_mmap_bytes), 0, 64 * GIB, .standard = "1G",
     .help = "How much of the index is mapped into memory; 0: nothing."},
    {"index.wal_bytes_max", CONFIG_BYTES, MEMBER(index_wal_bytes_max), MIB, 16 * GIB,
     .standard = "64M", .help = "The size at which the index's write-ahead log is written back."},

    {"sync.freshness", CONFIG_CHOICE, MEMBER(sync_freshness), .standard = "strict",
     .choices = "strict|bounded|local",
     .help = "The mode of searches that name none. strict: compare with the volume and refresh\n"
             "first; bounded: accept a compare that is younger than max_staleness_ms; local:\n"
             "answer from the index alone."},
    {"sync.max_staleness_ms", CONFIG_MS, MEMBER(sync_max_staleness_ms), 0, HOUR_MS,
     .standard = "1000", .help = "For bounded searches: the age at which a compare is too old."},
    {"sync.poll_interval_min_ms", CONFIG_MS, MEMBER(sync_poll_interval_min_ms), 10, HOUR_MS,
     .standard = "1000", .help = "How often users that are searched are compared unasked."},
    {"sync.poll_interval_max_ms", CONFIG_MS, MEMBER(sync_poll_interval_max_ms), 10, 24 * HOUR_MS,
     .standard = "60000", .help = "How rarely idle users are compared at most."},
    {"sync.operations_per_second", CONFIG_NUMBER, MEMBER(sync_operations_per_second), 1, 1000000,
     .standard = "500",
     .help = "What polling may cost the volume, whatever the number of users: on a local one\n"
             "compares, on others the operations that these take, about ten each."},
    {"sync.refreshers", CONFIG_NUMBER, MEMBER(sync_refreshers), 0, 64, .standard = "0",
     .help = "Threads that bring the index in step with the volume. 0: 2 on a local one, 8 on\n"
             "others."},
    {"sync.readers", CONFIG_NUMBER, MEMBER(sync_readers), 0, 256, .standard = "0",
     .help = "Threads that read fact files; more of them pay on volumes that answer slowly.\n"
             "0: 8 on a local volume, 32 on others."},
    {"sync.inotify", CONFIG_BOOL, MEMBER(sync_inotify), .standard = "true",
     .help = "Let the kernel tell about changes by this node. Polling goes on in any case."},

    {"ipc.endpoint", CONFIG_ENDPOINT, MEMBER(ipc_endpoint),
     .standard = "ipc:///run/memsync/memsyncd.sock",
     .help = "Where workers connect. tcp:// needs a drop-in for the unit, see\n"
             "systemd/README.md. MEMSYNC_ENDPOINT is another name for its variable."},
    {"ipc.events", CONFIG_EVENTS, MEMBER(ipc_events), .standard = "",
     .help = "Where changes are published. \"\": beside an ipc endpoint, with .events appended;\n"
             "off: nowhere. With a tcp endpoint and \"\" none are published."},
    {"ipc.socket_mode", CONFIG_MODE, MEMBER(ipc_socket_mode), .standard = "0660",
     .help = "Permissions of the sockets, octal. Whoever may write to them may read and\n"
             "change every memory."},
    {"ipc.socket_group", CONFIG_STRING, MEMBER(ipc_socket_group), .example = "memsync",
     .help = "The group of the sockets. Not given: the agent's own."},
    {"ipc.threads", CONFIG_NUMBER, MEMBER(ipc_threads), 1, 64, .standard = "8",
     .help = "Threads for requests that have to wait for the volume."},
    {"ipc.max_message_bytes", CONFIG_BYTES, MEMBER(ipc_max_message_bytes), 4 * KIB, 256 * MIB,
     .standard = "4M",
     .help = "Larger requests are told too_large; beyond twice the size they lose their\n"
             "connection."},
    {"ipc.queue_per_client", CONFIG_NUMBER, MEMBER(ipc_queue_per_client), 1, 65536,
     .standard = "64", .help = "Waiting requests of one client; beyond, it is told busy."},
    {"ipc.queue_total", CONFIG_NUMBER, MEMBER(ipc_queue_total), 1, 1000000, .standard = "4096",
     .help = "Waiting requests of all clients together."},
    {"ipc.timeout_ms", CONFIG_MS, MEMBER(ipc_timeout_ms), 1, HOUR_MS, .standard = "5000",
     .help = "The deadline of requests that name none."},
    {"ipc.timeout_max_ms", CONFIG_MS, MEMBER(ipc_timeout_max_ms), 1, HOUR_MS, .standard = "600000",
     .help = "The longest deadline that a request may ask for."},

    {"backend.name", CONFIG_STRING, MEMBER(backend_name), .standard = "deermem",
     .help = "Which backend answers: deermem, or noop, which holds nothing."},
    {"backend.config", CONFIG_OBJECT, MEMBER(backend_config), .standard = "{}",
     .help = "The backend's own keys."},

    {"access.enabled", CONFIG_ABSENT, 0, .standard = "false",
     .help = "This version does not check who may see which user's memory; true is refused."},

    {"log.level", CONFIG_CHOICE, MEMBER(log_level), .standard = "info",
     .choices = "error|warning|notice|info|debug", .help = "Lines below this level are left out."},

    {"metrics.listen", CONFIG_LISTEN, MEMBER(metrics_listen), .standard = "",
     .help =
         "Where /metrics, /healthz and /readyz are served by HTTP. \"\": nowhere. A port alone\n"
         "is one of 127.0.0.1; nobody is asked who he is, so think before you name an\n"
         "address that other hosts can reach. Needs a drop-in for the unit, see\n"
         "systemd/README.md."},
};

const struct config_key *config_key_at(size_t i)
{
    return i < ARRAY_SIZE(keys) ? &keys[i] : NULL;
}

const struct config_key *config_key_find(const char *name, size_t length)
{
    for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
        if (strlen(keys[i].name) == length && memcmp(keys[i].name, name, length) == 0)
            return &keys[i];
    }
    return NULL;
}

void config_key_section(const struct config_key *key, char ret[CONFIG_SECTION_NAME_SIZE])
{
    size_t length = (size_t) (strchr(key->name, '.') - key->name);

    assert(length < CONFIG_SECTION_NAME_SIZE);
    memcpy(ret, key->name, length);
    memset(ret + length, 0, CONFIG_SECTION_NAME_SIZE - length);
}

const char *config_key_word(const struct config_key *key)
{
    return strchr(key->name, '.') + 1;
}

bool config_section_exists(const char *name)
{
    char section[CONFIG_SECTION_NAME_SIZE];

    for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
        config_key_section(&keys[i], section);
        if (strcmp(name, section) == 0)
            return true;
    }
    return false;
}

void config_key_environment(const struct config_key *key, char ret[CONFIG_ENVIRONMENT_NAME_SIZE])
{
    static const char prefix[] = "MEMSYNC_";
    size_t used = sizeof prefix - 1;

    memcpy(ret, prefix, used);
    for (const char *at = key->name; *at && used < CONFIG_ENVIRONMENT_NAME_SIZE - 1; at++) {
        int character = *at == '.' ? '_' : toupper((unsigned char) *at);
        ret[used++] = (char) character;
    }
    ret[used] = '\0';
}
