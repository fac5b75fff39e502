/* core/refresh_plan.h - the working set of one refresh: what was seen before, what is seen now,
 * what follows.
 *
 * The plan starts from the seen entries that belong to the index's rows. The snapshot
 * (core/volume_snapshot.h) tells it what it finds; the plan answers what must be listed and read,
 * and in the end what must be put into and removed from the index. It lives through the attempts of
 * one refresh, so that a file which was read and has settled needs no second read.
 *
 * Which stamps may be trusted is the racily-clean rule of core/racy.h. Pure: no I/O, no clock
 * (times are arguments). Not thread-safe.
 */
#ifndef MEMSYNC_CORE_REFRESH_PLAN_H
#define MEMSYNC_CORE_REFRESH_PLAN_H

#include "core/racy.h"
#include "core/seen_entry.h"

struct refresh_plan;

#define REFRESH_PLAN_DEPTH_MAX 8         /* levels of directories below facts/ */
#define REFRESH_PLAN_ENTRIES_MAX 4000000 /* files and directories of one scope */

/* Reads the seen files below a directory, however deep; the plan destroys the list. */
typedef enum status (*refresh_plan_load)(void *context, const char *directory,
                                         struct seen_list *ret);

struct refresh_plan_options {
    const struct seen_list *seen; /* of the rows in the index; copied; NULL: none */
    refresh_plan_load load; /* for what `seen` leaves out: trusted sound files below directories
                               (index_read_special()). NULL: it is complete */
    void *load_context;
    size_t base_files;         /* with `load`: how many files the index has */
    size_t base_broken;        /* ... of them without a row */
    const struct racy *racy;   /* since when their stamps are known; used during the plan's life */
    bool full;                 /* trust no stamp that the plan did not see itself */
    bool directory_times_work; /* false: every directory is listed every time */
    uint64_t settle_ns;
    uint64_t now_ns; /* monotonic */
};

/* STATUS_TOO_LARGE above REFRESH_PLAN_ENTRIES_MAX seen entries, STATUS_NO_MEMORY. */
MUST_CHECK enum status refresh_plan_create(const struct refresh_plan_options *options,
                                           struct refresh_plan **ret);
void refresh_plan_destroy(struct refresh_plan **plan);

#define AUTO_PLAN CLEANUP(refresh_plan_destroy)

/* Starts an attempt: every directory must be looked at again. `facts_present`: the facts directory
 * is there (else everything that was seen is gone). */
MUST_CHECK enum status refresh_plan_begin(struct refresh_plan *plan, bool facts_present);

/* From now on no directory's stamp is trusted: each is listed once more. For an attempt that
 * follows one which met a contradiction. */
void refresh_plan_distrust_dirs(struct refresh_plan *plan);

/* Entries have numbers; a number stays valid for the plan's life. */
typedef uint32_t plan_entry;

/* The next directory that nobody has looked at in this attempt; false when there is none. */
bool refresh_plan_next_dir(struct refresh_plan *plan, plan_entry *ret);

/* True when a listing of this attempt no longer shows it (or never did). */
bool refresh_plan_is_gone(const struct refresh_plan *plan, plan_entry entry);

/* Relative to the facts directory, which is "" itself; the plan's. */
const char *refresh_plan_path(const struct refresh_plan *plan, plan_entry entry);

/* True when a directory will be listed whatever its stamp is, so that nobody need ask for that. */
bool refresh_plan_must_list(const struct refresh_plan *plan, plan_entry dir);

/* A directory's stamp (forced, taken at `looked_ns`): true when it must be listed, false when the
 * entries below it stand as they were seen. */
bool refresh_plan_dir_stamped(struct refresh_plan *plan, plan_entry dir,
                              const struct file_stamp *stamp, uint64_t looked_ns);

/* The directory is not there (any more): everything below it is gone. */
void refresh_plan_dir_gone(struct refresh_plan *plan, plan_entry dir);

/* To be called before a listing: what was seen below the directory is read, if it is not known yet.
 * What `load` returned. */
MUST_CHECK enum status refresh_plan_open_dir(struct refresh_plan *plan, plan_entry dir);

/* A listing of `dir` has begun; its stamp was forced before. Then one call for each name that may
 * be a fact file or a directory of such, then the end. STATUS_UNSUPPORTED: it lies too deep, or has
 * too long a path, and is left out; STATUS_TOO_LARGE: too many entries; STATUS_NO_MEMORY. */
void refresh_plan_list_begin(struct refresh_plan *plan, plan_entry dir,
                             const struct file_stamp *stamp, uint64_t looked_ns);
MUST_CHECK enum status refresh_plan_list_name(struct refresh_plan *plan, plan_entry dir,
                                              const char *name, bool is_dir, plan_entry *ret);
void refresh_plan_list_end(struct refresh_plan *plan, plan_entry dir);

/* True when an unchanged stamp is enough to leave a listed file unread; else nobody need ask for
 * its stamp. */
bool refresh_plan_trusts_file(const struct refresh_plan *plan, plan_entry file);

/* A listed file's stamp: true when the file must be read. */
bool refresh_plan_file_stamped(struct refresh_plan *plan, plan_entry file,
                               const struct file_stamp *stamp, uint64_t looked_ns);

/* A file was read. The plan takes `fact` (NULL with a fault) and copies `problem`. */
MUST_CHECK enum status refresh_plan_file_read(struct refresh_plan *plan, plan_entry file,
                                              const struct file_stamp *stamp, uint64_t looked_ns,
                                              uint64_t digest, struct fact *fact,
                                              enum fact_fault fault, const char *problem);

/* What must change in the index. The arrays and what they point to stay the plan's. */
struct plan_row {
    const char *path;
    const struct fact *fact;
};

struct plan_result {
    struct plan_row *put;
    size_t put_count;
    const char **removed; /* paths that lose their row; some of them are in `seen` again, as broken
                             or as a directory */
    size_t removed_count;
    struct seen_entry *seen;
    size_t seen_count;
    bool unsettled; /* some stamps may not be trusted yet: worth another look after W */
    bool refused;   /* some files may not be read now: worth another look after a while */
    size_t files;   /* all fact files of the scope */
    size_t broken;  /* of them without a row */
};
/* STATUS_NO_MEMORY, or what `load` returned. */
MUST_CHECK enum status refresh_plan_finish(struct refresh_plan *plan, struct plan_result *ret);
void plan_result_destroy(struct plan_result *result);
#define AUTO_PLAN_RESULT CLEANUP(plan_result_destroy)

/* Brings `racy` up to date after the result was installed: stamps that are new and not yet settled
 * count as known since they were looked at. */
void refresh_plan_note_racy(const struct refresh_plan *plan, struct racy *racy, uint64_t now_ns);

struct plan_counts {
    uint64_t dirs_checked, dirs_listed, files_checked, files_read;
};
/* What the plan was asked and what it answered, over all attempts; for the log. */
void refresh_plan_counts(const struct refresh_plan *plan, struct plan_counts *ret);

#endif
