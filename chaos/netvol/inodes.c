#include "chaos/netvol/inodes.h"

#include "chaos/netvol/listing.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

bool inodes_init(struct inode_table *table)
{
    (void) pthread_mutex_init(&table->lock, NULL);
    table->buckets = calloc(INODE_BUCKETS, sizeof *table->buckets);
    return table->buckets;
}

static void free_inode(struct inode *inode)
{
    while (inode->absents) {
        struct absent *absent = inode->absents;
        inode->absents = absent->next;
        free(absent);
    }
    listing_drop(&inode->listing);
    if (inode->silly_dir_fd >= 0)
        (void) close(inode->silly_dir_fd);
    (void) close(inode->fd);
    free(inode);
}

void inodes_destroy(struct inode_table *table)
{
    for (size_t i = 0; table->buckets && i < INODE_BUCKETS; i++) {
        while (table->buckets[i]) {
            struct inode *inode = table->buckets[i];
            table->buckets[i] = inode->next;
            free_inode(inode);
        }
    }
    free(TAKE_PTR(table->buckets));
    (void) pthread_mutex_destroy(&table->lock);
}

static struct inode **bucket_of(struct inode_table *table, ino_t number)
{
    return &table->buckets[(number * UINT64_C(0x9e3779b97f4a7c15)) >> 32 & (INODE_BUCKETS - 1)];
}

static struct inode *find_locked(struct inode_table *table, const struct stat *info, uint64_t epoch)
{
    struct inode *inode = *bucket_of(table, info->st_ino);

    while (inode &&
           (inode->number != info->st_ino || inode->dev != info->st_dev || inode->epoch != epoch))
        inode = inode->next;
    return inode;
}

static struct inode *add_locked(struct inode_table *table, const struct stat *info, int fd,
                                uint64_t epoch)
{
    struct inode **bucket = bucket_of(table, info->st_ino);
    struct inode *inode = calloc(1, sizeof *inode);

    if (!inode)
        return NULL;
    inode->fd = fd;
    inode->silly_dir_fd = -1;
    inode->epoch = epoch;
    inode->number = info->st_ino;
    inode->dev = info->st_dev;
    inode->next = *bucket;
    *bucket = inode;
    table->count++;
    return inode;
}

int inodes_take(struct inode_table *table, int fd, uint64_t epoch, struct inode **ret)
{
    AUTO_CLOSE int own_fd = fd;
    struct stat info;

    if (fstat(fd, &info) < 0)
        return errno;
    (void) pthread_mutex_lock(&table->lock);
    struct inode *inode = find_locked(table, &info, epoch);
    if (!inode) {
        inode = add_locked(table, &info, fd, epoch);
        if (inode)
            own_fd = -1;
    }
    if (inode)
        inode->lookups++;
    (void) pthread_mutex_unlock(&table->lock);
    *ret = inode;
    return inode ? 0 : ENOMEM;
}

int inodes_look_up(struct inode_table *table, const struct inode *dir, const char *name,
                   struct inode **ret)
{
    int fd = openat(dir->fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);

    return fd < 0 ? errno : inodes_take(table, fd, dir->epoch, ret);
}

void inodes_forget(struct inode_table *table, struct inode *inode, uint64_t lookups)
{
    (void) pthread_mutex_lock(&table->lock);
    inode->lookups -= lookups;
    bool is_over = inode->lookups == 0;
    if (is_over) {
        struct inode **place = bucket_of(table, inode->number);
        while (*place != inode)
            place = &(*place)->next;
        *place = inode->next;
        table->count--;
    }
    (void) pthread_mutex_unlock(&table->lock);
    if (is_over)
        free_inode(inode);
}

void inode_path(const struct inode *inode, char ret[INODE_PATH_SIZE])
{
    (void) snprintf(ret, INODE_PATH_SIZE, "/proc/self/fd/%d", inode->fd);
}
