#include "core/fact_walk.h"

#include "core/array.h"
#include "core/clock.h"
#include "core/text.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define READ_BATCH 2048 /* files whose bytes and documents are under way at once */
#define BUNCH_MAX 16    /* files of one directory that one thread looks at in a row */

/* A directory that is looked at: its stamp, and where that does not suffice its listing. */
struct dir_look {
    plan_entry entry;
    char *path;
    bool list; /* a listing is wanted */
    bool missing;
    uint64_t looked_ns;
    struct file_stamp stamp;
    struct listing listing;
    struct error *error; /* NULL: none, or no memory for it */
};

struct file_look {
    plan_entry entry;
    char *path;
    uint64_t looked_ns;
    bool stamped;            /* `stamp` is set */
    struct file_stamp stamp; /* the name's; the bytes' own once they are read */
    uint64_t digest;
    struct fact *fact;
    enum fact_fault fault;
    char *problem; /* with a fault: one line for people */
    struct error *error;
};

struct look_list {
    struct dir_look *dirs;
    size_t dir_count, dir_capacity;
    struct file_look *files;
    size_t file_count, file_capacity;
};

/* Files that lie in one directory, one after the other in the list of looks. */
struct bunch {
    size_t first, count;
};

struct look_context {
    const struct fact_walk *walk;
    struct dir_look *dirs;
    struct file_look *files;
    struct bunch *bunches;
};

bool fact_walk_is_fact_name(const char *name, char *ret_id)
{
    size_t length = strlen(name);

    if (name[0] == '.' || length <= 3 || length > SCOPE_NAME_MAX ||
        strcmp(name + length - 3, ".md") != 0)
        return false;
    if (ret_id) {
        memcpy(ret_id, name, length - 3);
        ret_id[length - 3] = '\0';
    }
    return true;
}

static void dir_look_clear(struct dir_look *look)
{
    listing_destroy(&look->listing);
    free(look->error);
    free(look->path);
}

static void file_look_clear(struct file_look *look)
{
    fact_destroy(&look->fact);
    free(look->problem);
    free(look->error);
    free(look->path);
}

static void look_list_destroy(struct look_list *list)
{
    for (size_t i = 0; i < list->dir_count; i++)
        dir_look_clear(&list->dirs[i]);
    for (size_t i = 0; i < list->file_count; i++)
        file_look_clear(&list->files[i]);
    free(list->dirs);
    free(list->files);
    *list = (struct look_list){0};
}
#define AUTO_LOOKS CLEANUP(look_list_destroy)

static enum status add_dir(struct look_list *list, plan_entry entry, const char *path)
{
    if (!array_make_room(&list->dirs, list->dir_count, &list->dir_capacity, sizeof *list->dirs))
        return STATUS_NO_MEMORY;
    struct dir_look *look = &list->dirs[list->dir_count];
    memset(look, 0, sizeof *look);
    look->entry = entry;
    look->path = strdup(path);
    list->dir_count++;
    return look->path ? STATUS_OK : STATUS_NO_MEMORY;
}

/* `stamp` NULL: nobody has looked at it yet. */
static enum status add_file(struct look_list *list, plan_entry entry, const char *path,
                            const struct file_stamp *stamp)
{
    if (!array_make_room(&list->files, list->file_count, &list->file_capacity, sizeof *list->files))
        return STATUS_NO_MEMORY;
    struct file_look *look = &list->files[list->file_count];
    memset(look, 0, sizeof *look);
    look->entry = entry;
    look->stamped = stamp != NULL;
    if (stamp)
        look->stamp = *stamp;
    look->path = strdup(path);
    list->file_count++;
    return look->path ? STATUS_OK : STATUS_NO_MEMORY;
}

/* ---- on the pool's threads ---- */

/* Errors are big and rare: they get memory when they happen. */
static enum status keep_error(struct error **ret, const struct error *error)
{
    free(*ret);
    *ret = malloc(sizeof **ret);
    if (*ret)
        **ret = *error;
    return error->status;
}

/* A directory whose name belongs to a file or a link by now is gone; its parent's listing will say
 * so. */
static enum status gone_if_no_dir(enum status status, const char *path, const struct error *reason,
                                  struct error *error)
{
    if (status == STATUS_DENIED && (reason->sys_errno == ENOTDIR || reason->sys_errno == ELOOP))
        return error_set(error, STATUS_NOT_FOUND, path, "it is no directory any more");
    if (status != STATUS_OK && error)
        *error = *reason;
    return status;
}

static enum status open_dir(const struct fact_walk *walk, const char *path, int *ret,
                            struct error *error)
{
    struct error reason = {0};
    enum status status = volume_open_dir(walk->volume, walk->facts_fd, path, ret, &reason);

    return gone_if_no_dir(status, path, &reason, error);
}

static enum status stamp_dir(const struct fact_walk *walk, const char *path, struct file_stamp *ret)
{
    AUTO_CLOSE int fd = -1;
    struct error reason = {0};

    if (!*path)
        return volume_stamp_fd(walk->volume, walk->facts_fd, ret);
    if (!strchr(path, '/')) {
        bool is_dir;
        enum status status =
            volume_stamp_at(walk->volume, walk->facts_fd, path, ret, &is_dir, NULL);
        return status == STATUS_OK && !is_dir ? STATUS_NOT_FOUND : status;
    }
    enum status status = volume_hold_dir(walk->volume, walk->facts_fd, path, &fd, &reason);
    status = gone_if_no_dir(status, path, &reason, NULL);
    return status == STATUS_OK ? volume_stamp_fd(walk->volume, fd, ret) : status;
}

/* One that will be listed whatever its attributes are tells them with its listing. */
static enum status check_dir(void *context_address, size_t index)
{
    const struct look_context *context = context_address;
    struct dir_look *look = &context->dirs[index];

    if (look->list)
        return STATUS_OK;
    look->looked_ns = clock_monotonic_ns();
    enum status status = stamp_dir(context->walk, look->path, &look->stamp);
    if (status == STATUS_NOT_FOUND) {
        look->missing = true;
        return STATUS_OK;
    }
    if (status == STATUS_OK)
        return STATUS_OK;
    struct error error;
    (void) error_set(&error, status, look->path, "cannot read the attributes of a facts directory");
    return keep_error(&look->error, &error);
}

static enum status open_and_list(const struct fact_walk *walk, struct dir_look *look,
                                 struct error *error)
{
    AUTO_CLOSE int fd = -1;

    if (clock_monotonic_ns() > walk->give_up_ns)
        return error_set(error, STATUS_STALE, look->path, "it takes too long");
    look->looked_ns = clock_monotonic_ns();
    enum status status = open_dir(walk, *look->path ? look->path : ".", &fd, error);
    if (status == STATUS_NOT_FOUND) {
        look->missing = true;
        return STATUS_OK;
    }
    if (status == STATUS_OK)
        status = volume_list_fd(walk->volume, fd, &look->listing, error);
    if (status == STATUS_NOT_FOUND)
        return error_set(error, STATUS_STALE, look->path, "it went away");
    if (status == STATUS_OK)
        look->stamp = look->listing.stamp;
    return status;
}

static enum status list_dir(void *context_address, size_t index)
{
    const struct look_context *context = context_address;
    struct dir_look *look = &context->dirs[index];

    if (!look->list || look->missing)
        return STATUS_OK;
    struct error error = {0};
    enum status status = open_and_list(context->walk, look, &error);
    return status == STATUS_OK ? STATUS_OK : keep_error(&look->error, &error);
}

static const char *name_of(const struct file_look *look)
{
    const char *slash = strrchr(look->path, '/');

    return slash ? slash + 1 : look->path;
}

/* The directory that a bunch's files lie in, held by `held` unless it is the facts directory: each
 * component that need not be looked up for every file is a message less. */
static enum status hold_dir_of(const struct fact_walk *walk, struct file_look *look, int *held,
                               int *ret)
{
    char path[SCOPE_PATH_MAX];
    int length = (int) (name_of(look) - look->path);
    struct error reason = {0};
    struct error error = {0};

    *ret = walk->facts_fd;
    if (length == 0)
        return STATUS_OK;
    (void) snprintf(path, sizeof path, "%.*s", length - 1, look->path);
    enum status status = volume_hold_dir(walk->volume, walk->facts_fd, path, held, &reason);
    status = gone_if_no_dir(status, path, &reason, &error);
    *ret = *held;
    if (status == STATUS_OK)
        return STATUS_OK;
    (void) keep_error(&look->error, &error);
    return status == STATUS_NOT_FOUND ? STATUS_STALE : status;
}

/* Calls it for each file of a bunch, in whose directory `dir_fd` is open. */
static enum status for_bunch(const struct look_context *context, size_t index,
                             enum status (*work)(const struct fact_walk *walk, int dir_fd,
                                                 struct file_look *look))
{
    AUTO_CLOSE int held = -1;
    const struct bunch *bunch = &context->bunches[index];
    int dir_fd;

    enum status status = hold_dir_of(context->walk, &context->files[bunch->first], &held, &dir_fd);
    for (size_t i = 0; status == STATUS_OK && i < bunch->count; i++) {
        struct file_look *look = &context->files[bunch->first + i];
        if (clock_monotonic_ns() > context->walk->give_up_ns) {
            struct error error;
            (void) error_set(&error, STATUS_STALE, look->path, "it takes too long");
            return keep_error(&look->error, &error);
        }
        look->looked_ns = clock_monotonic_ns();
        status = work(context->walk, dir_fd, look);
    }
    return status;
}

/* A file that went meanwhile makes its listing outdated. */
static enum status stamp_file(const struct fact_walk *walk, int dir_fd, struct file_look *look)
{
    struct error error;
    enum status status =
        volume_stamp_at(walk->volume, dir_fd, name_of(look), &look->stamp, NULL, NULL);

    look->stamped = status == STATUS_OK;
    if (status == STATUS_OK)
        return STATUS_OK;
    (void) error_set(&error, status == STATUS_NOT_FOUND ? STATUS_STALE : status, look->path,
                     "cannot read the attributes");
    return keep_error(&look->error, &error);
}

static enum status stamp_bunch(void *context, size_t index)
{
    return for_bunch(context, index, stamp_file);
}

bool fact_walk_is_fault_of_the_file(enum status status)
{
    return status == STATUS_CORRUPT || status == STATUS_DENIED || status == STATUS_TOO_LARGE ||
           status == STATUS_INVALID;
}

static enum status parse_file(const struct fact_walk *walk, const struct file_image *image,
                              struct file_look *look)
{
    char id[SCOPE_NAME_MAX + 1] = "";
    struct error error = {0};

    (void) fact_walk_is_fact_name(name_of(look), id);
    look->digest = signature_digest(image->bytes, image->size);
    enum status status = fact_parse(image->bytes, image->size, walk->scope, id,
                                    image->stamp.mtime_ns, &look->fact, &look->fault, &error);
    /* Want of memory says nothing about the file. */
    if (status == STATUS_OK || status == STATUS_NO_MEMORY)
        return status;
    if (look->fault == FACT_FAULT_NONE)
        look->fault = FACT_FAULT_BROKEN;
    look->problem = strdup(error.message);
    return look->problem ? STATUS_OK : STATUS_NO_MEMORY;
}

static bool is_refused(const struct error *error)
{
    return error->sys_errno == EACCES || error->sys_errno == EPERM;
}

/* It is looked at again when its stamp changes, so it needs one. */
static enum status note_broken(const struct fact_walk *walk, int dir_fd, struct file_look *look,
                               const struct error *error)
{
    look->fault = is_refused(error) ? FACT_FAULT_REFUSED : FACT_FAULT_BROKEN;
    look->problem = strdup(error->message);
    if (!look->problem)
        return STATUS_NO_MEMORY;
    return look->stamped ? STATUS_OK : stamp_file(walk, dir_fd, look);
}

static enum status read_file(const struct fact_walk *walk, int dir_fd, struct file_look *look)
{
    AUTO_IMAGE struct file_image image = {0};
    struct error error = {0};

    enum status status =
        volume_read_file(walk->volume, dir_fd, name_of(look), FACT_FILE_BYTES_MAX, &image, &error);
    if (status == STATUS_OK) {
        look->stamp = image.stamp;
        if (walk->files_read)
            atomic_fetch_add_explicit(walk->files_read, 1, memory_order_relaxed);
        return parse_file(walk, &image, look);
    }
    if (fact_walk_is_fault_of_the_file(status))
        return note_broken(walk, dir_fd, look, &error);
    (void) snprintf(error.path, sizeof error.path, "%s", look->path);
    (void) keep_error(&look->error, &error);
    /* Listed and not there: present and unread, so nothing may be published without it. */
    return status == STATUS_NOT_FOUND ? STATUS_STALE : status;
}

static enum status read_bunch(void *context, size_t index)
{
    return for_bunch(context, index, read_file);
}

/* ---- on the caller's thread ---- */

/* Paths of a walk are relative to the facts directory; outside they are the volume's. */
static enum status error_in_scope(const struct fact_walk *walk, const struct error *found,
                                  struct error *error)
{
    AUTO_TEXT struct text path = {0};
    char facts[SCOPE_PATH_MAX];

    scope_facts_path(walk->scope, facts);
    text_append_format(&path, "%s%s%s", facts, found->path[0] ? "/" : "", found->path);
    *error = *found;
    return error_set(error, found->status, text_string(&path), "%s", found->message);
}

static enum status first_error(const struct fact_walk *walk, const struct look_list *list,
                               enum status status, struct error *error)
{
    for (size_t i = 0; error && i < list->dir_count; i++) {
        const struct error *found = list->dirs[i].error;
        if (found && found->status == status)
            return error_in_scope(walk, found, error);
    }
    for (size_t i = 0; error && i < list->file_count; i++) {
        const struct error *found = list->files[i].error;
        if (found && found->status == status)
            return error_in_scope(walk, found, error);
    }
    return error_set(error, status, NULL, "reading the facts failed");
}

static bool lie_together(const struct file_look *a, const struct file_look *b)
{
    size_t length = (size_t) (name_of(a) - a->path);

    return length == (size_t) (name_of(b) - b->path) && memcmp(a->path, b->path, length) == 0;
}

/* Runs `work` for bunches of the files. So few files that not every thread would get a bunch are
 * cut finer. */
static enum status run_bunches(const struct fact_walk *walk, struct file_look *files, size_t count,
                               reader_pool_work work)
{
    AUTO_FREE struct bunch *bunches = calloc(count + 1, sizeof *bunches);
    size_t share = count / (2 * reader_pool_size(walk->pool)) + 1;
    size_t most = share < BUNCH_MAX ? share : BUNCH_MAX;
    size_t used = 0;

    if (!bunches)
        return STATUS_NO_MEMORY;
    for (size_t i = 0; i < count; i++) {
        struct bunch *last = used > 0 ? &bunches[used - 1] : NULL;
        if (last && last->count < most && lie_together(&files[last->first], &files[i]))
            last->count++;
        else
            bunches[used++] = (struct bunch){.first = i, .count = 1};
    }
    struct look_context context = {.walk = walk, .files = files, .bunches = bunches};
    return reader_pool_run(walk->pool, used, work, &context);
}

/* Tells the plan of one listing. A file of which the plan must know whether it has changed is added
 * to `looks`, one that will be read whatever its attributes are to `reads`. */
static enum status take_listing(struct refresh_plan *plan, const struct dir_look *look,
                                struct look_list *looks, struct look_list *reads)
{
    refresh_plan_list_begin(plan, look->entry, &look->stamp, look->looked_ns);
    for (size_t i = 0; i < look->listing.count; i++) {
        const struct listing_entry *name = &look->listing.entries[i];
        bool is_fact = name->is_file && fact_walk_is_fact_name(name->name, NULL);
        plan_entry entry;

        if (!is_fact && (!name->is_dir || name->name[0] == '.'))
            continue;
        enum status status =
            refresh_plan_list_name(plan, look->entry, name->name, name->is_dir, &entry);
        if (status == STATUS_UNSUPPORTED)
            continue; /* deeper than we look, as documented */
        if (status == STATUS_OK && is_fact)
            status = add_file(refresh_plan_trusts_file(plan, entry) ? looks : reads, entry,
                              refresh_plan_path(plan, entry), NULL);
        if (status != STATUS_OK)
            return status;
    }
    refresh_plan_list_end(plan, look->entry);
    return STATUS_OK;
}

/* Looks at the attributes of the files that listings have brought up; those that have changed are
 * added to `reads`. */
static enum status look_at_files(const struct fact_walk *walk, struct refresh_plan *plan,
                                 struct look_list *looks, struct look_list *reads,
                                 struct error *error)
{
    enum status status = run_bunches(walk, looks->files, looks->file_count, stamp_bunch);

    if (status != STATUS_OK)
        return first_error(walk, looks, status, error);
    for (size_t i = 0; status == STATUS_OK && i < looks->file_count; i++) {
        const struct file_look *look = &looks->files[i];
        if (refresh_plan_file_stamped(plan, look->entry, &look->stamp, look->looked_ns))
            status = add_file(reads, look->entry, look->path, &look->stamp);
    }
    return status;
}

static enum status list_dirs(const struct fact_walk *walk, struct refresh_plan *plan,
                             struct look_list *looks, struct error *error)
{
    struct look_context context = {.walk = walk, .dirs = looks->dirs};

    for (size_t i = 0; i < looks->dir_count; i++)
        looks->dirs[i].list = refresh_plan_must_list(plan, looks->dirs[i].entry);
    enum status status = reader_pool_run(walk->pool, looks->dir_count, check_dir, &context);
    for (size_t i = 0; status == STATUS_OK && i < looks->dir_count; i++) {
        struct dir_look *look = &looks->dirs[i];
        if (!look->missing && !look->list)
            look->list = refresh_plan_dir_stamped(plan, look->entry, &look->stamp, look->looked_ns);
    }
    if (status == STATUS_OK)
        status = reader_pool_run(walk->pool, looks->dir_count, list_dir, &context);
    return status == STATUS_OK ? STATUS_OK : first_error(walk, looks, status, error);
}

static enum status look_at_dirs(const struct fact_walk *walk, struct refresh_plan *plan,
                                struct look_list *looks, struct look_list *reads,
                                struct error *error)
{
    enum status status = list_dirs(walk, plan, looks, error);

    for (size_t i = 0; status == STATUS_OK && i < looks->dir_count; i++) {
        if (!looks->dirs[i].list || looks->dirs[i].missing)
            continue;
        status = refresh_plan_open_dir(plan, looks->dirs[i].entry);
        if (status == STATUS_OK)
            status = take_listing(plan, &looks->dirs[i], looks, reads);
    }
    if (status == STATUS_OK)
        status = look_at_files(walk, plan, looks, reads, error);
    /* A directory that is missing although its parent still counts it among its own: start over. */
    for (size_t i = 0; status == STATUS_OK && i < looks->dir_count; i++) {
        if (looks->dirs[i].missing && !refresh_plan_is_gone(plan, looks->dirs[i].entry))
            status = error_set(error, STATUS_STALE, looks->dirs[i].path, "it went away");
    }
    return status;
}

/* The facts directory first, alone: it tells which shards are still there. Then all that are known,
 * then what those listings brought up, until nothing new comes. */
static enum status look_everywhere(const struct fact_walk *walk, struct refresh_plan *plan,
                                   struct look_list *reads, struct error *error)
{
    size_t batch_max = 1;

    for (;;) {
        AUTO_LOOKS struct look_list looks = {0};
        enum status status = STATUS_OK;
        plan_entry entry;

        while (status == STATUS_OK && looks.dir_count < batch_max &&
               refresh_plan_next_dir(plan, &entry))
            status = add_dir(&looks, entry, refresh_plan_path(plan, entry));
        if (status == STATUS_OK && looks.dir_count == 0)
            return STATUS_OK;
        if (status == STATUS_OK)
            status = look_at_dirs(walk, plan, &looks, reads, error);
        if (status != STATUS_OK)
            return status;
        batch_max = 4096;
    }
}

static enum status read_batch(const struct fact_walk *walk, struct refresh_plan *plan,
                              struct look_list *reads, size_t begin, size_t count,
                              struct error *error)
{
    enum status status = run_bunches(walk, reads->files + begin, count, read_bunch);

    if (status != STATUS_OK)
        return first_error(walk, reads, status, error);
    for (size_t i = begin; status == STATUS_OK && i < begin + count; i++) {
        struct file_look *look = &reads->files[i];
        status = refresh_plan_file_read(plan, look->entry, &look->stamp, look->looked_ns,
                                        look->digest, TAKE_PTR(look->fact), look->fault,
                                        look->fault == FACT_FAULT_NONE ? NULL : look->problem);
    }
    return status;
}

enum status fact_walk_run(const struct fact_walk *walk, struct refresh_plan *plan,
                          struct error *error)
{
    AUTO_LOOKS struct look_list reads = {0};
    enum status status = look_everywhere(walk, plan, &reads, error);

    for (size_t begin = 0; status == STATUS_OK && begin < reads.file_count; begin += READ_BATCH) {
        size_t left = reads.file_count - begin;
        status =
            read_batch(walk, plan, &reads, begin, left < READ_BATCH ? left : READ_BATCH, error);
    }
    return status;
}

/* True when a listing shows a fact file, or (with `deep`) a directory that might hold some. */
static bool shows_fact(const struct listing *listing, bool deep)
{
    for (size_t i = 0; i < listing->count; i++) {
        const struct listing_entry *entry = &listing->entries[i];
        if (entry->is_file && fact_walk_is_fact_name(entry->name, NULL))
            return true;
        if (deep && entry->is_dir && entry->name[0] != '.')
            return true;
    }
    return false;
}

enum status fact_walk_any(const struct volume *volume, int facts_fd, bool *ret, struct error *error)
{
    AUTO_LISTING struct listing facts = {0};
    enum status status = volume_list_fd(volume, facts_fd, &facts, error);
    bool found = status == STATUS_OK && shows_fact(&facts, false);

    for (size_t i = 0; status == STATUS_OK && !found && i < facts.count; i++) {
        AUTO_LISTING struct listing shard = {0};
        if (!facts.entries[i].is_dir || facts.entries[i].name[0] == '.')
            continue;
        status = volume_list(volume, facts_fd, facts.entries[i].name, &shard, error);
        if (status == STATUS_NOT_FOUND)
            return STATUS_STALE;
        found = status == STATUS_OK && shows_fact(&shard, true);
    }
    if (status == STATUS_OK)
        *ret = found;
    return status;
}
