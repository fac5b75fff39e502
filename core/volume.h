/* core/volume.h - one shared volume: its root, and every call that touches it.
 *
 * All paths are relative to the root and opened beneath it without following symbolic links
 * (openat2 with RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS, or O_NOFOLLOW one component at a time where
 * the kernel lacks it), so nothing can lead out of the volume. Attributes are forced
 * (AT_STATX_FORCE_SYNC), since a network client answers a plain stat from a cache. Every system
 * call goes through one table, which tests replace.
 *
 * Thread-safe: a volume is shared by all threads; no call holds a mutex over a system call.
 */
#ifndef MEMSYNC_CORE_VOLUME_H
#define MEMSYNC_CORE_VOLUME_H

#include "core/signature.h"
#include "core/status.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

struct volume; /* opaque */
struct statx;

/* The table of calls. Each behaves as the system call of its name: -1 and errno on failure. */
struct volume_calls {
    int (*open_beneath)(int dir_fd, const char *path, int flags, mode_t mode);
    int (*stat_forced)(int fd, const char *path,
                       struct statx *ret); /* path "" = fd itself; no link followed */
    ssize_t (*read)(int fd, void *bytes, size_t size, off_t offset);
    ssize_t (*write)(int fd, const void *bytes, size_t size);
    ssize_t (*list)(int fd, void *bytes, size_t size); /* getdents64 */
    int (*sync)(int fd);
    int (*lock)(int fd, int operation); /* flock */
    int (*rename)(int from_dir_fd, const char *from, int to_dir_fd, const char *to);
    int (*rename_new)(int from_dir_fd, const char *from, int to_dir_fd,
                      const char *to); /* RENAME_NOREPLACE */
    int (*link)(int from_dir_fd, const char *from, int to_dir_fd, const char *to);
    int (*unlink)(int dir_fd, const char *name, int flags);
    int (*mkdir)(int dir_fd, const char *name, mode_t mode);
    int (*close)(int fd);
};

/* The real ones. */
const struct volume_calls *volume_real_calls(void);

/* What the volume's file system lets us believe. */
enum volume_kind {
    VOLUME_LOCAL,   /* ext4, xfs, btrfs, tmpfs, overlay, ...: the kernel sees every change */
    VOLUME_CLUSTER, /* NFS, CephFS and the like: cached, locks reach every node */
    VOLUME_UNKNOWN, /* FUSE, SMB, anything else, or one of the above mounted with locks that stay
                       on the node (nolock, local_lock=...): cached, locks may not reach others */
};

struct volume_options {
    const char *path;                 /* absolute, or against the working directory */
    const struct volume_calls *calls; /* NULL: the real ones */
    enum volume_kind *force_kind;     /* NULL: by file system type; for tests and odd mounts */
    uint64_t cache_ns; /* how long an old listing may be shown; 0: as the mount's options say */
    bool write_marker; /* create .memsyncd/volume-id where the volume is writable */
    bool read_only;    /* write nothing, no probe either: counts as not writable */
};

/* Opens the root and learns kind and identity. STATUS_NOT_FOUND, STATUS_DENIED, ... with a message.
 */
MUST_CHECK enum status volume_open(const struct volume_options *options, struct volume **ret,
                                   struct error *error);
void volume_close(struct volume **volume);

/* What volume_open() learnt; strings are the volume's. A volume is writable when neither the mount
 * nor a right is in the way of this process. */
const char *volume_path(const struct volume *volume);
enum volume_kind volume_kind(const struct volume *volume);
const char *volume_kind_name(enum volume_kind kind);     /* "local", "cluster", "unknown" */
const char *volume_fs_name(const struct volume *volume); /* "ext4", "nfs", "fuse", or "0x..." */
bool volume_is_writable(const struct volume *volume);

/* True where "not found" and attributes are never cached beyond our reach, so a name may be looked
 * up without a listing that showed it (design: list, don't probe). */
bool volume_lookups_are_safe(const struct volume *volume);

/* W of the racily-clean rule: the coarsest tick the volume may have, plus the longest time a
 * listing may be cached where freshness cannot be forced, in nanoseconds. */
uint64_t volume_settle_ns(const struct volume *volume);

/* True where a directory's own times tell that an entry was made, replaced or removed: known kernel
 * file systems, or seen so by a probe under .memsyncd/. Elsewhere every refresh lists every
 * directory. */
bool volume_directory_times_work(const struct volume *volume);

/* The volume's identity: the marker under .memsyncd/ where there is one, else file-system id and
 * root inode. */
#define VOLUME_ID_SIZE 64
void volume_identity(const struct volume *volume, char ret[VOLUME_ID_SIZE]);

/* True when `identity` is the volume's marker, or its file-system id and root inode: a volume that
 * got its marker later is still the one that was known by its place. */
bool volume_is_known_as(const struct volume *volume, const char *identity);

/* Gives the volume a marker, where it is writable and has none. Before other threads use it. */
MUST_CHECK enum status volume_write_marker(struct volume *volume, struct error *error);

/* Opens the root anew by its path (a held handle survives an unmount) and compares identities:
 * markers where both have one, else the places. `ret_same` is false when another volume, or the
 * empty mount point of ours, lies there; the old root stays in use then. The same volume on another
 * mount is used from here on. Cheap enough for once a second; any thread. */
MUST_CHECK enum status volume_check_identity(struct volume *volume, bool *ret_same,
                                             struct error *error);

/* Which directory is the root: what holds for one handle of it. */
struct volume_root_id {
    uint64_t device, inode;
};

/* Of the root in use. */
struct volume_root_id volume_root_id(const struct volume *volume);

/* Whether the path leads to that directory still: one look, whose answer may come from the mount's
 * caches. False also where nobody can tell. Cheap enough for every commit; any thread. */
bool volume_root_is_at_path(const struct volume *volume, struct volume_root_id id);

/* Takes what lies at the path now as the volume from here on. */
MUST_CHECK enum status volume_accept(struct volume *volume, struct error *error);

/* ---- reading ---- */

/* The attributes of an open file, forced. */
MUST_CHECK enum status volume_stamp_fd(const struct volume *volume, int fd, struct file_stamp *ret);

/* The attributes of one name (a single component) in an open directory, forced, no link followed.
 * `ret_is_dir` and `ret_is_file` may be NULL. */
MUST_CHECK enum status volume_stamp_at(const struct volume *volume, int dir_fd, const char *name,
                                       struct file_stamp *ret, bool *ret_is_dir, bool *ret_is_file);

/* Opens a directory beneath `dir_fd` (-1: the root). The caller closes it with close(). */
MUST_CHECK enum status volume_open_dir(const struct volume *volume, int dir_fd, const char *path,
                                       int *ret, struct error *error);

/* The same, only to look up what is in it: it cannot be listed, and costs no more than the look-up
 * of its name. */
MUST_CHECK enum status volume_hold_dir(const struct volume *volume, int dir_fd, const char *path,
                                       int *ret, struct error *error);

/* Opens a file for reading beneath `dir_fd` (-1: the root), without waiting for the other side of a
 * pipe. The caller closes it with close(). */
MUST_CHECK enum status volume_open_file(const struct volume *volume, int dir_fd, const char *path,
                                        int *ret, struct error *error);

struct file_image {
    char *bytes; /* NUL-terminated beyond `size`; owned by the image */
    size_t size;
    struct file_stamp stamp; /* forced; the same before and after the bytes were read */
};

/* Reads an open file from its beginning to its end, whatever size it was told: to a read that finds
 * nothing more, or less than there was room for where the size agrees. STATUS_STALE when
 * its size or times changed meanwhile, when fewer bytes came than the file has, or on ESTALE;
 * STATUS_TOO_LARGE beyond `size_max`; STATUS_CORRUPT for what is no regular file. Leaves
 * the descriptor's position alone. */
MUST_CHECK enum status volume_read_fd(const struct volume *volume, int fd, size_t size_max,
                                      struct file_image *ret, struct error *error);

/* Opens beneath `dir_fd` (-1: the root), reads, closes. The error names `path`. */
MUST_CHECK enum status volume_read_file(const struct volume *volume, int dir_fd, const char *path,
                                        size_t size_max, struct file_image *ret,
                                        struct error *error);

/* As volume_read_file(), but looks at the attributes only before it reads: for a caller who
 * compares the bytes with such as he knows. What was written to while it was read equals none of
 * those. */
MUST_CHECK enum status volume_read_file_once(const struct volume *volume, int dir_fd,
                                             const char *path, size_t size_max,
                                             struct file_image *ret, struct error *error);
void file_image_destroy(struct file_image *image);
#define AUTO_IMAGE CLEANUP(file_image_destroy)

struct listing_entry {
    const char *name; /* points into the listing */
    uint64_t inode;
    bool is_dir;  /* by d_type; names whose type the file system does not tell are stat'ed */
    bool is_file; /* a regular file */
};

struct listing {
    struct file_stamp stamp;       /* of the directory, forced before it was read */
    struct listing_entry *entries; /* sorted by name; "." and ".." left out */
    size_t count;
    char *names;
};

/* Reads an open directory from its beginning to its end. A listing that failed half-way is no
 * listing; STATUS_STALE when the directory or, before its type was known, an entry went away. Moves
 * the descriptor's position: one thread at a time. */
MUST_CHECK enum status volume_list_fd(const struct volume *volume, int dir_fd, struct listing *ret,
                                      struct error *error);
/* Opens beneath `dir_fd` (-1: the root), lists, closes. */
MUST_CHECK enum status volume_list(const struct volume *volume, int dir_fd, const char *path,
                                   struct listing *ret, struct error *error);
const struct listing_entry *listing_find(const struct listing *listing, const char *name);
void listing_destroy(struct listing *listing);
#define AUTO_LISTING CLEANUP(listing_destroy)

/* ---- writing: recovery now, commits later ---- */

/* Replaces `name` in an open directory by `bytes`, atomically and durably: a temporary file of a
 * unique name in the same directory, write, fsync, mode, group and (where permitted) owner of the
 * file replaced or else of the directory, rename, fsync of the directory. On an error the old file
 * is whole and the temporary is gone; only when the last step failed the new one is in its place,
 * whole too, and may be lost with the node's power. */
MUST_CHECK enum status volume_replace_file(const struct volume *volume, int dir_fd,
                                           const char *name, const char *bytes, size_t size,
                                           struct error *error);

/* Removes a file durably; a file that is not there is STATUS_OK. */
MUST_CHECK enum status volume_remove_file(const struct volume *volume, int dir_fd, const char *name,
                                          struct error *error);

/* Removes a directory and the plain files in it. Silly-renamed leftovers (.nfs...) make it stay:
 * `ret_left` is true then and the status is OK. */
MUST_CHECK enum status volume_remove_dir(const struct volume *volume, int dir_fd, const char *name,
                                         bool *ret_left, struct error *error);

/* How many operations the calling thread has asked volumes for since it was started, counted as a
 * client without any cache would send them: one for each component of a path, and those for what is
 * then done. Closing is free. */
uint64_t volume_operations_here(void);
/* Counts operations that another thread has made for this one. */
void volume_count_operations(uint64_t count);

/* The table and the root, for the volume_* modules beside this one. The root stays open until
 * volume_close(). */
const struct volume_calls *volume_get_calls(const struct volume *volume);
int volume_root_fd(const struct volume *volume);

#endif
