#include "chaos/netvol/call.h"
#include "chaos/netvol/handles.h"
#include "chaos/netvol/ops.h"
#include "chaos/netvol/trace.h"
#include "chaos/netvol/view.h"
#include "chaos/netvol/words.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>

void ops_opendir(fuse_req_t request, fuse_ino_t number, struct fuse_file_info *info)
{
    struct call call = {.request = request, .operation = OPERATION_opendir, .number = number};

    if (!call_begin(&call))
        return;
    int fd = openat(call.inode->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        call_answer(&call, errno);
        return;
    }
    struct handle *handle = handle_open(call.node, call.inode, fd, false);
    if (!handle) {
        call_answer(&call, ENOMEM);
        return;
    }
    info->fh = (uint64_t) (uintptr_t) handle;
    info->cache_readdir = knobs_get(&call.node->knobs, KNOB_LISTING_CACHE_S) > 0;
    info->keep_cache = info->cache_readdir && view_may_keep(call.node, KNOB_LISTING_CACHE_S,
                                                            &call.inode->listing_cached_ns);
    if (!call_answer_open(&call, info))
        handle_close(call.node, handle);
}

void ops_releasedir(fuse_req_t request, fuse_ino_t number, struct fuse_file_info *info)
{
    struct call call = {.request = request, .operation = OPERATION_releasedir, .number = number};
    int error = call_begin_close(&call);

    /* Before the answer: after it the kernel may forget the inode. */
    handle_close(call.node, handle_of(info));
    call_answer(&call, error);
}

void ops_fsyncdir(fuse_req_t request, fuse_ino_t number, int data_only, struct fuse_file_info *info)
{
    struct call call = {.request = request, .operation = OPERATION_fsyncdir, .number = number};
    int fd = handle_of(info)->fd;

    if (call_begin(&call))
        call_answer(&call, (data_only ? fdatasync(fd) : fsync(fd)) < 0 ? errno : 0);
}

/* ---- reading ---- */

struct filling {
    struct call *call;
    char *bytes;
    size_t size;
    size_t used;
    bool plus; /* with the inodes that the names stand for */
};

static bool is_dots(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* An entry without an inode is a name and no more; so are those that have gone since the listing.
 */
static bool add_plus(struct filling *filling, const struct listing_entry *entry, off_t next)
{
    struct node *node = filling->call->node;
    struct inode *inode = NULL;
    struct fuse_entry_param param = {.attr = {.st_ino = entry->number, .st_mode = entry->type}};
    size_t left = filling->size - filling->used;

    if (!is_dots(entry->name) &&
        inodes_look_up(&node->inodes, filling->call->inode, entry->name, &inode) == 0 &&
        call_make_entry(node, inode, &param) != 0) {
        node_forget(node, TAKE_PTR(inode), 1);
        param = (struct fuse_entry_param){.attr = {.st_ino = entry->number}};
    }
    size_t needed = fuse_add_direntry_plus(filling->call->request, filling->bytes + filling->used,
                                           left, entry->name, &param, next);
    if (needed > left && inode)
        node_forget(node, inode, 1);
    filling->used += needed <= left ? needed : 0;
    return needed <= left;
}

static bool add_plain(struct filling *filling, const struct listing_entry *entry, off_t next)
{
    const struct stat info = {.st_ino = entry->number, .st_mode = entry->type};
    size_t left = filling->size - filling->used;
    size_t needed = fuse_add_direntry(filling->call->request, filling->bytes + filling->used, left,
                                      entry->name, &info, next);

    filling->used += needed <= left ? needed : 0;
    return needed <= left;
}

/* Fills in what there is room for, from the entry `first` on. */
static void fill(struct filling *filling, const struct listing *listing, size_t first)
{
    struct text *details = &filling->call->details;
    bool traced = trace_is_on();
    const char *comma = "";
    size_t i = first;

    if (traced)
        text_append_format(details, ", \"offset\": %zu, \"names\": [", first);
    for (; i < listing->count; i++) {
        const struct listing_entry *entry = &listing->entries[i];
        if (!(filling->plus ? add_plus : add_plain)(filling, entry, (off_t) (i + 1)))
            break;
        if (traced && !is_dots(entry->name)) {
            text_append_string(details, comma);
            words_append_json(details, entry->name);
            comma = ", ";
        }
    }
    if (traced)
        text_append_format(details, "], \"complete\": %s", i >= listing->count ? "true" : "false");
}

static void read_directory(struct call *call, size_t size, off_t offset, bool plus,
                           struct handle *handle)
{
    AUTO_FREE char *bytes = NULL;
    int error = 0;

    if (!call_begin(call))
        return;
    /* What was told and then lost would have to be taken back, and nothing else tells the two
     * apart. */
    if (call->late_error) {
        call_answer(call, call->late_error);
        return;
    }
    /* One moment's names, until they are read from the beginning again. */
    if (offset == 0 || !handle->listing) {
        listing_drop(&handle->listing);
        error = view_listing(call->node, call->inode, &handle->listing);
    }
    bytes = malloc(size);
    if (error || !bytes) {
        call_answer(call, error ? error : ENOMEM);
        return;
    }
    struct filling filling = {.call = call, .bytes = bytes, .size = size, .plus = plus};
    fill(&filling, handle->listing, (size_t) offset);
    call_answer_bytes(call, bytes, filling.used);
}

void ops_readdir(fuse_req_t request, fuse_ino_t number, size_t size, off_t offset,
                 struct fuse_file_info *info)
{
    struct call call = {.request = request, .operation = OPERATION_readdir, .number = number};

    read_directory(&call, size, offset, false, handle_of(info));
}

void ops_readdirplus(fuse_req_t request, fuse_ino_t number, size_t size, off_t offset,
                     struct fuse_file_info *info)
{
    struct call call = {.request = request, .operation = OPERATION_readdir, .number = number};

    read_directory(&call, size, offset, true, handle_of(info));
}
