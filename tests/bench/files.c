/* The floor of a build: lists a tree and reads every file in it.
 *
 *     files DIRECTORY [THREADS [NAME]]
 *
 * So many threads at a time (1), each in a directory of its own, which is held open while names in
 * it and below it are opened: nobody looks a long path up. With NAME only files called so are read,
 * and nothing below a directory that has one. */
#include "tests/support/files.h"
#include "core/array.h"
#include "core/clock.h"
#include "core/reader_pool.h"
#include "tests/bench/samples.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

struct directory {
    struct directory *parent; /* NULL: the working directory */
    int fd;
    _Atomic unsigned uses; /* itself until it is read, and its directories until they are */
    char name[NAME_MAX + 1];
};

/* Directories of one depth. */
struct level {
    struct directory **items;
    size_t count, capacity;
};

struct reading {
    const char *only; /* NULL: every file */
    struct level level;
    pthread_mutex_t lock; /* guards `next` */
    struct level next;
    _Atomic size_t files;
    _Atomic size_t bytes;
};

static void leave(struct directory *directory)
{
    while (directory && atomic_fetch_sub(&directory->uses, 1) == 1) {
        struct directory *parent = directory->parent;
        (void) close(directory->fd);
        free(directory);
        directory = parent;
    }
}

static struct directory *enter(struct directory *parent, const char *name)
{
    struct directory *directory = calloc(1, sizeof *directory);

    if (!directory)
        test_die("no memory");
    directory->parent = parent;
    if (parent)
        atomic_fetch_add(&parent->uses, 1);
    atomic_init(&directory->uses, 1);
    (void) snprintf(directory->name, sizeof directory->name, "%s", name);
    return directory;
}

static void add(struct level *level, struct directory *directory)
{
    if (!array_make_room(&level->items, level->count, &level->capacity, sizeof(struct directory *)))
        test_die("no memory");
    level->items[level->count++] = directory;
}

static void read_file(struct reading *reading, int dir_fd, const char *name)
{
    char bytes[65536];
    int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC);
    ssize_t size = fd < 0 ? -1 : read(fd, bytes, sizeof bytes);

    if (size < 0)
        test_die("cannot read %s: %s", name, strerror(errno));
    (void) close(fd);
    atomic_fetch_add(&reading->files, 1);
    atomic_fetch_add(&reading->bytes, (size_t) size);
}

/* What the directory holds, files read. */
static struct level read_entries(struct reading *reading, struct directory *directory)
{
    struct level below = {0};
    bool found = false;
    DIR *listing = fdopendir(openat(directory->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));

    if (!listing)
        test_die("cannot list %s: %s", directory->name, strerror(errno));
    for (const struct dirent *entry = readdir(listing); entry; entry = readdir(listing)) {
        bool wanted = !reading->only || strcmp(entry->d_name, reading->only) == 0;
        if (entry->d_type == DT_REG && wanted) {
            read_file(reading, directory->fd, entry->d_name);
            found = true;
        } else if (entry->d_type == DT_DIR && entry->d_name[0] != '.') {
            add(&below, enter(directory, entry->d_name));
        }
    }
    (void) closedir(listing);
    while (reading->only && found && below.count > 0) {
        struct directory *unwanted = below.items[--below.count];
        unwanted->fd = -1;
        leave(unwanted);
    }
    return below;
}

static enum status read_directory(void *context, size_t index)
{
    struct reading *reading = context;
    struct directory *directory = reading->level.items[index];
    int at = directory->parent ? directory->parent->fd : AT_FDCWD;

    directory->fd = openat(at, directory->name, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (directory->fd < 0)
        test_die("cannot open %s: %s", directory->name, strerror(errno));
    struct level below = read_entries(reading, directory);
    (void) pthread_mutex_lock(&reading->lock);
    for (size_t i = 0; i < below.count; i++)
        add(&reading->next, below.items[i]);
    (void) pthread_mutex_unlock(&reading->lock);
    free(below.items);
    leave(directory);
    return STATUS_OK;
}

/* Directories wait open for what is below them to be read. */
static void raise_limit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        (void) setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static void read_tree(struct reading *reading, const char *root, unsigned threads)
{
    struct reader_pool *pool = NULL;

    if (reader_pool_create(threads - 1, READER_POOL_EAGER, &pool) != STATUS_OK)
        test_die("no threads");
    add(&reading->level, enter(NULL, root));
    while (reading->level.count > 0) {
        if (reader_pool_run(pool, reading->level.count, read_directory, reading) != STATUS_OK)
            test_die("cannot read %s", root);
        free(reading->level.items);
        reading->level = reading->next;
        reading->next = (struct level){0};
    }
    free(reading->level.items);
    reader_pool_destroy(&pool);
}

int main(int argc, char **argv)
{
    struct reading reading = {.lock = PTHREAD_MUTEX_INITIALIZER};

    if (argc < 2 || argc > 4) {
        (void) fprintf(stderr, "usage: files DIRECTORY [THREADS [NAME]]\n");
        return 2;
    }
    unsigned threads = argc > 2 ? (unsigned) bench_number(argv[2], 257) : 1;
    reading.only = argc > 3 ? argv[3] : NULL;
    raise_limit();
    if (chdir(argv[1]) < 0)
        test_die("cannot go to %s: %s", argv[1], strerror(errno));
    uint64_t begun_ns = clock_monotonic_ns();
    read_tree(&reading, ".", threads);
    double seconds = (double) (clock_monotonic_ns() - begun_ns) / (double) NS_PER_SECOND;
    (void) printf("{\"files\": %zu, \"bytes\": %zu, \"files_per_second\": %.0f}\n", reading.files,
                  reading.bytes, (double) reading.files / seconds);
    return 0;
}
