#include "chaos/netvol/ops.h"

#include "chaos/netvol/node.h"

#define IN_FLIGHT_MAX 256

static void ops_init(void *context, struct fuse_conn_info *connection)
{
    (void) context;
    connection->want |= connection->capable & (FUSE_CAP_FLOCK_LOCKS | FUSE_CAP_PARALLEL_DIROPS);
    /* The kernel must not look for news by itself where it was told to keep what it has. */
    connection->want &= ~(unsigned) FUSE_CAP_AUTO_INVAL_DATA;
    /* Reads count as background, of which the kernel lets only 12 through at a time. */
    connection->max_background = IN_FLIGHT_MAX;
    connection->congestion_threshold = IN_FLIGHT_MAX;
}

static void forget_one(fuse_req_t request, fuse_ino_t number, uint64_t lookups)
{
    struct node *node = fuse_req_userdata(request);

    node_forget(node, node_inode(node, number), lookups);
}

static void ops_forget(fuse_req_t request, fuse_ino_t number, uint64_t lookups)
{
    forget_one(request, number, lookups);
    fuse_reply_none(request);
}

static void ops_forget_multi(fuse_req_t request, size_t count, struct fuse_forget_data *forgets)
{
    for (size_t i = 0; i < count; i++)
        forget_one(request, forgets[i].ino, forgets[i].nlookup);
    fuse_reply_none(request);
}

/* Without extended attributes: "not supported" is what the kernel makes of it. */
const struct fuse_lowlevel_ops ops_table = {
    .init = ops_init,
    .forget = ops_forget,
    .forget_multi = ops_forget_multi,
    .lookup = ops_lookup,
    .mkdir = ops_mkdir,
    .symlink = ops_symlink,
    .link = ops_link,
    .unlink = ops_unlink,
    .rmdir = ops_rmdir,
    .rename = ops_rename,
    .getattr = ops_getattr,
    .setattr = ops_setattr,
    .readlink = ops_readlink,
    .access = ops_access,
    .statfs = ops_statfs,
    .open = ops_open,
    .create = ops_create,
    .read = ops_read,
    .write = ops_write,
    .flush = ops_flush,
    .fsync = ops_fsync,
    .flock = ops_flock,
    .release = ops_release,
    .opendir = ops_opendir,
    .readdir = ops_readdir,
    .readdirplus = ops_readdirplus,
    .fsyncdir = ops_fsyncdir,
    .releasedir = ops_releasedir,
};
