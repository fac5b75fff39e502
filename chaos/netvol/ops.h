/* chaos/netvol/ops.h - the operations that the kernel asks for, each a call (call.h).
 *
 * What an operation means beyond the bare system call on the backing directory stands in view.h,
 * silly.h and flocks.h.
 */
#ifndef MEMSYNC_CHAOS_OPS_H
#define MEMSYNC_CHAOS_OPS_H

#include "chaos/netvol/lowlevel.h"

extern const struct fuse_lowlevel_ops ops_table;

/* ops_names.c */
void ops_lookup(fuse_req_t request, fuse_ino_t parent, const char *name);
void ops_mkdir(fuse_req_t request, fuse_ino_t parent, const char *name, mode_t mode);
void ops_symlink(fuse_req_t request, const char *target, fuse_ino_t parent, const char *name);
void ops_link(fuse_req_t request, fuse_ino_t number, fuse_ino_t parent, const char *name);
void ops_unlink(fuse_req_t request, fuse_ino_t parent, const char *name);
void ops_rmdir(fuse_req_t request, fuse_ino_t parent, const char *name);
void ops_rename(fuse_req_t request, fuse_ino_t parent, const char *name, fuse_ino_t to_parent,
                const char *to_name, unsigned flags);

/* ops_attributes.c */
void ops_getattr(fuse_req_t request, fuse_ino_t number, struct fuse_file_info *info);
void ops_setattr(fuse_req_t request, fuse_ino_t number, struct stat *wanted, int which,
                 struct fuse_file_info *info);
void ops_readlink(fuse_req_t request, fuse_ino_t number);
void ops_access(fuse_req_t request, fuse_ino_t number, int mask);
void ops_statfs(fuse_req_t request, fuse_ino_t number);

/* ops_files.c */
void ops_open(fuse_req_t request, fuse_ino_t number, struct fuse_file_info *info);
void ops_create(fuse_req_t request, fuse_ino_t parent, const char *name, mode_t mode,
                struct fuse_file_info *info);
void ops_read(fuse_req_t request, fuse_ino_t number, size_t size, off_t offset,
              struct fuse_file_info *info);
void ops_write(fuse_req_t request, fuse_ino_t number, const char *bytes, size_t size, off_t offset,
               struct fuse_file_info *info);
void ops_flush(fuse_req_t request, fuse_ino_t number, struct fuse_file_info *info);
void ops_fsync(fuse_req_t request, fuse_ino_t number, int data_only, struct fuse_file_info *info);
void ops_flock(fuse_req_t request, fuse_ino_t number, struct fuse_file_info *info, int wanted);
void ops_release(fuse_req_t request, fuse_ino_t number, struct fuse_file_info *info);

/* ops_listing.c */
void ops_opendir(fuse_req_t request, fuse_ino_t number, struct fuse_file_info *info);
void ops_readdir(fuse_req_t request, fuse_ino_t number, size_t size, off_t offset,
                 struct fuse_file_info *info);
void ops_readdirplus(fuse_req_t request, fuse_ino_t number, size_t size, off_t offset,
                     struct fuse_file_info *info);
void ops_fsyncdir(fuse_req_t request, fuse_ino_t number, int data_only,
                  struct fuse_file_info *info);
void ops_releasedir(fuse_req_t request, fuse_ino_t number, struct fuse_file_info *info);

#endif
