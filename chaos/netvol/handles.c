#include "chaos/netvol/handles.h"

#include "chaos/netvol/flocks.h"
#include "chaos/netvol/listing.h"
#include "chaos/netvol/silly.h"

#include <sys/file.h>

struct handle *handle_open(struct node *node, struct inode *inode, int fd, bool is_file)
{
    struct handle *handle = malloc(sizeof *handle);

    if (!handle) {
        (void) close(fd);
        return NULL;
    }
    *handle = (struct handle){.fd = fd, .inode = inode, .is_file = is_file, .lock = LOCK_UN};
    (void) pthread_mutex_lock(&node->inodes.lock);
    handle->next = node->handles;
    if (handle->next)
        handle->next->previous = handle;
    node->handles = handle;
    node->handle_count++;
    (void) pthread_mutex_unlock(&node->inodes.lock);
    if (is_file)
        silly_note_open(node, inode);
    return handle;
}

void handle_close(struct node *node, struct handle *handle)
{
    flocks_drop(node, handle);
    listing_drop(&handle->listing);
    (void) close(handle->fd);
    if (handle->is_file)
        silly_note_close(node, handle->inode);
    (void) pthread_mutex_lock(&node->inodes.lock);
    if (handle->next)
        handle->next->previous = handle->previous;
    if (handle->previous)
        handle->previous->next = handle->next;
    else
        node->handles = handle->next;
    node->handle_count--;
    (void) pthread_mutex_unlock(&node->inodes.lock);
    free(handle);
}

void handles_close_all(struct node *node)
{
    while (node->handles)
        handle_close(node, node->handles);
}

struct handle *handle_of(const struct fuse_file_info *info)
{
    return (struct handle *) (uintptr_t) info->fh;
}
