/* chaos/netvol/call.h - one operation from the kernel's request to the answer.
 *
 *     struct call call = {.request = request, .operation = OPERATION_mkdir, .number = parent,
 *                         .name = name};
 *     if (!call_begin(&call))
 *         return;                      // answered already
 *     ... do it below call.inode ...
 *     call_answer(&call, error);       // or call_answer_entry() and so on
 *
 * Each call ends with exactly one answer. What the kernel does not get to know, since a rule wants
 * the answer lost or the caller is dead, is undone: here for entries, by the caller where there is
 * a handle. Used by one thread.
 */
#ifndef MEMSYNC_CHAOS_CALL_H
#define MEMSYNC_CHAOS_CALL_H

#include "chaos/netvol/node.h"

struct call {
    /* From the caller. */
    fuse_req_t request;
    enum operation operation;
    fuse_ino_t number;
    const char *name;     /* below it; NULL: about itself */
    fuse_ino_t to_number; /* where a rename or link leads to */
    const char *to_name;  /* else NULL */

    /* Set by call_begin(). */
    struct node *node;
    struct inode *inode;
    struct inode *to_inode; /* NULL without `to_name` */
    size_t bytes_max;       /* for a read or write */

    /* Its own. */
    struct text details; /* more members for the trace */
    uint64_t begun_ns;
    int late_error;
};

/* Counts it, lets it take its time, hang or fail. False: it has been answered with an error. */
MUST_CHECK bool call_begin(struct call *call);

/* The same for what must be done in any case: an errno, or 0, for the answer. */
MUST_CHECK int call_begin_close(struct call *call);

/* More for the trace, as JSON members that begin with ", ". */
void call_note(struct call *call, const char *format, ...) PRINTF(2, 3);

/* The answers; `error` is an errno or 0. An inode has been counted once for the kernel. */
void call_answer(struct call *call, int error);
void call_answer_absent(struct call *call); /* there is no such name */
void call_answer_entry(struct call *call, struct inode *inode);
void call_answer_attributes(struct call *call); /* those of call->inode */
void call_answer_bytes(struct call *call, const char *bytes, size_t size);
void call_answer_text(struct call *call, const char *text); /* where a symbolic link leads to */
void call_answer_written(struct call *call, size_t size);
void call_answer_statfs(struct call *call, const struct statvfs *info);

/* False: the kernel has got neither the handle, which must be closed, nor the inode behind it,
 * which must be forgotten after that. */
MUST_CHECK bool call_answer_open(struct call *call, const struct fuse_file_info *info);
MUST_CHECK bool call_answer_create(struct call *call, struct inode *inode,
                                   const struct fuse_file_info *info);

/* An entry as the kernel gets it, without the count. An errno, or 0. */
MUST_CHECK int call_make_entry(struct node *node, struct inode *inode,
                               struct fuse_entry_param *ret);

#endif
