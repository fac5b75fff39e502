/* chaos/netvol/inodes.h - what one node knows of files: an O_PATH descriptor for each.
 *
 * The kernel has a number for each inode it was told of, which here is the inode's address, and
 * counts how often it was told; when it forgets all of these, the inode goes. As long as it has an
 * operation under way on an inode it does not forget it, so operations need no count of their own.
 *
 * The descriptor keeps a removed file's number from being given to another one.
 */
#ifndef MEMSYNC_CHAOS_INODES_H
#define MEMSYNC_CHAOS_INODES_H

#include "chaos/netvol/lowlevel.h"
#include "core/compiler.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#define INODE_BUCKETS 16384
#define SILLY_NAME_SIZE 24

struct listing;
struct handle;

/* A name that was looked for in vain. */
struct absent {
    struct absent *next;
    uint64_t since_ns;
    char name[];
};

/* Fields behind `dev` are guarded by the table's lock. */
struct inode {
    int fd;
    uint64_t epoch; /* of the node when it was found: how often its root had been exchanged */
    ino_t number;
    dev_t dev;
    uint64_t lookups;
    unsigned opens; /* open files, not directories */
    struct inode *next;

    /* What the node remembers (view.h). */
    uint64_t changes; /* its own ones: what was asked for before one is not remembered behind it */
    struct stat told;
    uint64_t told_ns; /* 0: nothing is remembered */
    struct listing *listing;
    uint64_t listed_ns;
    struct absent *absents;
    uint64_t listing_cached_ns; /* since when the kernel may have a listing */
    uint64_t data_cached_ns;

    /* The name that keeps it until the last close (silly.h). */
    int silly_dir_fd; /* -1: none */
    char silly_name[SILLY_NAME_SIZE];

    /* Locks within the node (flocks.h). */
    unsigned lock_readers;
    const struct handle *lock_writer;
};

struct inode_table {
    pthread_mutex_t lock;
    struct inode **buckets;
    size_t count;
};

MUST_CHECK bool inodes_init(struct inode_table *table);
void inodes_destroy(struct inode_table *table); /* with all inodes */

/* The inode for an O_PATH descriptor, which is taken over, counted once more. An errno, or 0. */
MUST_CHECK int inodes_take(struct inode_table *table, int fd, uint64_t epoch, struct inode **ret);

/* The same for a name below a directory. */
MUST_CHECK int inodes_look_up(struct inode_table *table, const struct inode *dir, const char *name,
                              struct inode **ret);

/* The kernel forgets it so many times; the inode may be gone afterwards. */
void inodes_forget(struct inode_table *table, struct inode *inode, uint64_t lookups);

/* "/proc/self/fd/N", by which an O_PATH descriptor can be opened. */
#define INODE_PATH_SIZE 32
void inode_path(const struct inode *inode, char ret[INODE_PATH_SIZE]);

#endif
