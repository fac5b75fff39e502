/* core/volume_private.h - what the volume_* modules share behind core/volume.h.
 *
 * Nothing else includes it, except tests.
 */
#ifndef MEMSYNC_CORE_VOLUME_PRIVATE_H
#define MEMSYNC_CORE_VOLUME_PRIVATE_H

#include "core/volume.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/statfs.h>

#define VOLUME_OWN_DIR ".memsyncd"
#define VOLUME_MARKER_NAME "volume-id"
#define VOLUME_MARKER_LENGTH 32 /* lower-case hexadecimal digits */
#define VOLUME_FS_NAME_SIZE 24

/* One root that was opened at the volume's path. Constant once it is published. */
struct volume_root {
    int fd;
    uint64_t device;
    uint64_t inode;
    uint64_t mount_id; /* 0 where the kernel does not tell it */
    enum volume_kind kind;
    char fs_name[VOLUME_FS_NAME_SIZE];
    bool writable;
    bool directory_times_work;
    uint64_t cache_ns;                     /* how long an old listing may be shown */
    char place[VOLUME_ID_SIZE];            /* file-system id and root inode */
    char marker[VOLUME_MARKER_LENGTH + 1]; /* "" where there is none */
    struct volume_root *older;             /* was in use before; closed with the volume */
};

struct volume {
    const struct volume_calls *calls;
    char *path; /* absolute */
    bool write_marker;
    bool read_only;
    uint64_t cache_ns; /* told by the options; 0: by the mount's */
    bool kind_is_forced;
    enum volume_kind forced_kind;
    _Atomic(struct volume_root *) root;
    pthread_mutex_t publish_lock; /* makes the list of roots grow by one at a time; a leaf */
};

/* ---- calls of the table, repeated when a signal interrupts them ---- */

/* `dir_fd` -1 is the root. O_CLOEXEC is added. */
int volume_do_open(const struct volume *volume, int dir_fd, const char *path, int flags,
                   mode_t mode);
int volume_do_stat(const struct volume *volume, int fd, const char *path, struct statx *ret);
ssize_t volume_do_read(const struct volume *volume, int fd, void *bytes, size_t size, off_t offset);
ssize_t volume_do_write(const struct volume *volume, int fd, const void *bytes, size_t size);
ssize_t volume_do_list(const struct volume *volume, int fd, void *bytes, size_t size);
int volume_do_sync(const struct volume *volume, int fd);
int volume_do_lock(const struct volume *volume, int fd, int operation);
int volume_do_rename(const struct volume *volume, int from_fd, const char *from, int to_fd,
                     const char *to);
int volume_do_rename_new(const struct volume *volume, int from_fd, const char *from, int to_fd,
                         const char *to);
int volume_do_link(const struct volume *volume, int from_fd, const char *from, int to_fd,
                   const char *to);
int volume_do_unlink(const struct volume *volume, int dir_fd, const char *name, int flags);
int volume_do_mkdir(const struct volume *volume, int dir_fd, const char *name, mode_t mode);
int volume_do_close(const struct volume *volume, int fd);

/* Around a call to the volume that is none of these, so that others can tell should it hang; errno
 * stays as it is. */
void volume_call_begin(const struct volume *volume, const char *operation, int fd,
                       const char *path);
void volume_call_end(void);

/* The way of a kernel without openat2: one component at a time, none of them a link. */
int volume_open_by_component(int dir_fd, const char *path, int flags, mode_t mode);

/* ---- names and attributes ---- */

/* True for one component that leads nowhere else. */
bool volume_name_is_single(const char *name);

/* The part of the attributes that a stamp keeps, in nanoseconds. */
struct file_stamp volume_stamp_from_statx(const struct statx *status);

/* Gives the error that an inner call filled the path that its caller knows; returns `status`. */
enum status volume_error_at(struct error *error, enum status status, const char *path);

/* STATUS_CORRUPT for what lies in the place of a file and is none: `what` with its article. */
enum status volume_error_no_file(struct error *error, const char *path, const char *what);
const char *volume_mode_name(mode_t mode);

/* For an open() of a file that failed: as that for what is no file, else by the errno. */
enum status volume_error_open(struct error *error, int sys_errno, const char *path,
                              const char *what);

/* ---- opening ---- */

/* By f_type: kind and name of a file system. */
enum volume_kind volume_kind_of_fs(uint32_t type, char ret_name[VOLUME_FS_NAME_SIZE]);

/* The file system's own options in a line of mountinfo, when that is of the mount `id`; else NULL.
 */
const char *volume_mount_options_of_line(const char *line, uint64_t id);

/* Those of the mount that an open directory lies on; NULL when they cannot be told. The caller
 * frees them. The functions below take NULL for no option. */
char *volume_mount_options(int fd);

/* True when they keep locks on this node. */
bool volume_mount_keeps_locks(const char *options);

/* How long a client of the file system may show an old listing or old attributes, in nanoseconds:
 * from its options (NFS: noac, acregmax, acdirmax), else the longest that is usual. 0: it does not.
 */
uint64_t volume_mount_cache_ns(const char *fs_name, const char *options);

/* The marker's digits, or "" where a listing shows no sound one. `known`: it was there before, so
 * it may be looked up without a listing. */
MUST_CHECK enum status volume_marker_read(const struct volume *volume, int root_fd, bool known,
                                          char ret[VOLUME_MARKER_LENGTH + 1], struct error *error);

/* Makes a marker unless somebody else is faster; the one that counts is read afterwards. */
MUST_CHECK enum status volume_marker_create(const struct volume *volume, int root_fd,
                                            struct error *error);

/* Watches whether a directory's times move when an entry is made, replaced and removed. */
bool volume_probe_directory_times(const struct volume *volume, int root_fd);

/* ---- walking ---- */

/* Opens a directory in an open one, where look-ups are not safe only when a listing shows it;
 * STATUS_NOT_FOUND else. */
MUST_CHECK enum status volume_open_listed(const struct volume *volume, int dir_fd, const char *name,
                                          int *ret, struct error *error);

/* Opens the directory `path` below an open one in this way, a component at a time; makes what is
 * missing when `may_create`. */
MUST_CHECK enum status volume_walk(const struct volume *volume, int dir_fd, const char *path,
                                   bool may_create, int *ret, struct error *error);

struct sync_batch;

/* Makes what is missing, and has that made durable with the rest of the batch, whose errors name
 * `reason`, for whose sake it is made. */
MUST_CHECK enum status volume_walk_making(const struct volume *volume, int dir_fd, const char *path,
                                          const char *reason, struct sync_batch *batch, int *ret,
                                          struct error *error);

/* ---- writing ---- */

/* How names of an operation's directory begin that are no backups: complete files that a commit has
 * not put into their places yet. */
#define VOLUME_NEW_PREFIX ".new-"

/* Keeps a file of `dir_fd` under another name in `to_fd`, and reads it: by a hard link, since files
 * are replaced and never changed in place; by a copy, durable with the batch, where the volume has
 * no links for us. */
MUST_CHECK enum status volume_back_up(const struct volume *volume, int dir_fd, const char *name,
                                      size_t size_max, int to_fd, const char *backup,
                                      struct sync_batch *batch, struct file_image *ret,
                                      struct error *error);

#define VOLUME_HEX_SIZE (VOLUME_MARKER_LENGTH + 1)

/* 128 random bits. */
MUST_CHECK enum status volume_random_hex(char ret[VOLUME_HEX_SIZE]);

/* Gives a file or directory that we made owner, group and mode: those of `model` where there is
 * one, else what the directory above it allows. What the file system refuses is left as it is. */
void volume_adopt_attributes(const struct volume *volume, int fd, const struct statx *model,
                             int dir_fd);

/* Makes a directory below an open one, with its parent's mode and group, durably; one that is there
 * is fine. */
MUST_CHECK enum status volume_make_dir(const struct volume *volume, int dir_fd, const char *name,
                                       struct error *error);

/* The same, but a power cut may take it away again until somebody syncs `dir_fd`. `ret_made` says
 * whether it was made, also after an error. */
MUST_CHECK enum status volume_make_dir_soon(const struct volume *volume, int dir_fd,
                                            const char *name, bool *ret_made, struct error *error);

/* volume_remove_dir(), but a power cut may bring it back until somebody syncs `dir_fd`. */
MUST_CHECK enum status volume_remove_dir_soon(const struct volume *volume, int dir_fd,
                                              const char *name, bool *ret_left,
                                              struct error *error);

/* Makes the names in a directory durable. */
MUST_CHECK enum status volume_sync_dir(const struct volume *volume, int dir_fd,
                                       struct error *error);

/* The two halves of volume_replace_file(): a complete, synced file beside `name`, under a name that
 * volume_name_is_temporary() knows; then its rename, which takes the temporary away when it fails.
 * The directory is not synced. */
MUST_CHECK enum status volume_replacement_prepare(const struct volume *volume, int dir_fd,
                                                  const char *name, const char *bytes, size_t size,
                                                  char ret_temporary[NAME_MAX + 1],
                                                  struct error *error);
MUST_CHECK enum status volume_replacement_apply(const struct volume *volume, int from_fd,
                                                const char *temporary, int dir_fd, const char *name,
                                                struct error *error);

/* True for the name of a file that a writer of this format had not yet renamed when it died. */
bool volume_name_is_temporary(const char *name);

/* Gives a new file its name durably, whole and exclusively: STATUS_CONFLICT where the name is
 * taken. Where the volume knows neither hard links nor RENAME_NOREPLACE, a listing stands in for
 * that. */
MUST_CHECK enum status volume_place_new(const struct volume *volume, int dir_fd, const char *name,
                                        const char *bytes, size_t size, struct error *error);

/* The same for a file that lies complete and synced in another directory, or this one; its own name
 * is gone in any case. */
MUST_CHECK enum status volume_place(const struct volume *volume, int from_fd, const char *temporary,
                                    int dir_fd, const char *name, struct error *error);

/* Whether files of the directory may be replaced and removed: STATUS_DENIED says `what` of `path`.
 */
MUST_CHECK enum status volume_check_right(const struct volume *volume, int dir_fd, const char *path,
                                          const char *what, struct error *error);

/* True when that file was going to be called `name`. */
bool volume_name_is_temporary_of(const char *temporary, const char *name);
/* Removes such files from a directory. What cannot be removed stays. */
void volume_sweep_temporaries(const struct volume *volume, int dir_fd);

/* Writes a new file, not synced yet and open; it is gone again after an error. It gets the
 * attributes of `model`, or where that is NULL what the open directory `model_fd` gives to its
 * files. */
MUST_CHECK enum status volume_begin_new(const struct volume *volume, int dir_fd, const char *name,
                                        const struct statx *model, int model_fd, const char *bytes,
                                        size_t size, int *ret, struct error *error);

/* Writes a new file, synced and closed; it is gone again after an error. */
MUST_CHECK enum status volume_write_new(const struct volume *volume, int dir_fd, const char *name,
                                        const struct statx *model, const char *bytes, size_t size,
                                        struct error *error);

#endif
