/* tests/support/temp_calls.h - a volume's table of calls with faults to order.
 *
 * Rules name what they hit by the end of its path ("/memory.json", "/facts/ab"), since that is how
 * a test thinks of it; the path is what the kernel says of the descriptor. In it `*` stands for any
 * text, so that "/.memory.json.*.tmp" is a manifest that is not yet renamed. Renames and links are
 * known by their new name. Thread-safe; one set of rules for the process.
 */
#ifndef MEMSYNC_TESTS_TEMP_CALLS_H
#define MEMSYNC_TESTS_TEMP_CALLS_H

#include "core/volume.h"

/* The table; without rules it does what the real one does, but for syncs, which do nothing. */
const struct volume_calls *temp_calls(void);

enum temp_call {
    TEMP_CALL_OPEN,
    TEMP_CALL_STAT,
    TEMP_CALL_READ,
    TEMP_CALL_WRITE,
    TEMP_CALL_LIST,
    TEMP_CALL_SYNC,
    TEMP_CALL_LOCK,
    TEMP_CALL_RENAME,
    TEMP_CALL_RENAME_NEW,
    TEMP_CALL_LINK,
    TEMP_CALL_UNLINK,
    TEMP_CALL_MKDIR,
    TEMP_CALL_CLOSE, /* the descriptor is closed all the same */
    /* Asked about before a call of more than one byte, only of a judge. */
    TEMP_CALL_READ_SIZE,
    TEMP_CALL_WRITE_SIZE,
    TEMP_CALL_COUNT,
};
const char *temp_call_name(enum temp_call call);

/* From the `skip`th matching call on (0: the first) the call fails with `sys_errno`, `times` times
 * (0: for ever). `path_end` must stay valid. */
void temp_calls_fail(enum temp_call call, const char *path_end, int sys_errno, unsigned skip,
                     unsigned times);

/* The same, but the call is done first: its answer is what gets lost. */
void temp_calls_lose_answer(enum temp_call call, const char *path_end, int sys_errno, unsigned skip,
                            unsigned times);

/* Of all calls that this thread makes from now on, whatever their kind, the `number`th (1: the
 * next) and the `times - 1` after it fail (`times` 0: and all that follow). */
void temp_calls_fail_nth(unsigned number, int sys_errno, unsigned times);

/* What it struck first, as "kind path"; "" when that many calls were never made. */
void temp_calls_struck(char *ret, size_t size);

/* Somebody else who decides: asked about each call, by any thread. What does not pass needs no
 * rule, and the first such call is told by temp_calls_struck(). */
enum temp_fate {
    TEMP_PASSES,
    TEMP_FAILS,        /* with `sys_errno` */
    TEMP_LOSES_ANSWER, /* the same, but it is done first */
    TEMP_HALVES,       /* answer to TEMP_CALL_READ_SIZE and TEMP_CALL_WRITE_SIZE */
};
struct temp_ruling {
    enum temp_fate fate;
    int sys_errno;
};
typedef struct temp_ruling (*temp_judge)(enum temp_call call);
void temp_calls_ask(temp_judge of_each_call); /* no call may be under way */

/* Such calls do not return before temp_calls_reset(). */
void temp_calls_hang(enum temp_call call, const char *path_end);

/* A write to such a file takes `bytes` at most. */
void temp_calls_write_short(const char *path_end, size_t bytes);

/* Locks are a no-op: every call succeeds and excludes nobody. */
void temp_calls_ignore_locks(void);

/* Everything whose path ends so is told to have been changed at `time_ns` and to have an inode made
 * from its path: a volume whose clock stands still and whose inodes come back. */
void temp_calls_freeze(const char *path_end, uint64_t time_ns);

/* Counts the calls that match, from now on; one counter. */
void temp_calls_count(enum temp_call call, const char *path_end);
void temp_calls_count_here(enum temp_call call, const char *path_end); /* of this thread alone */
unsigned temp_calls_counted(void);

/* Forgets faults, frozen times and the rest; the counter stays. */
void temp_calls_reset(void);

#endif
