#include "core/fact_walk.h"

#include "core/array.h"
#include "core/clock.h"
#include "core/text.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define READ_BATCH 2048 /* files whose bytes and documents are under way at once */

/* A directory that is looked at: its stamp, and where that does not suffice its listing with the
 * stamps of its files. */
struct dir_look {
    plan_entry entry;
    char *path;
    bool list; /* a listing is wanted */
    bool missing;
    uint64_t looked_ns;
    struct file_stamp stamp;
    struct listing listing;
    struct file_stamp *stamps; /* of the listing's entries that are fact files */
    struct error *error;       /* NULL: none, or no memory for it */
};

struct file_look {
    plan_entry entry;
    char *path;
    uint64_t looked_ns;
    struct file_stamp stamp; /* the listing's; the bytes' own once they are read */
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

struct look_context {
    const struct fact_walk *walk;
    struct dir_look *dirs;
    struct file_look *files;
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
    free(look->stamps);
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

static enum status add_file(struct look_list *list, plan_entry entry, const char *path,
                            const struct file_stamp *stamp)
{
    if (!array_make_room(&list->files, list->file_count, &list->file_capacity, sizeof *list->files))
        return STATUS_NO_MEMORY;
    struct file_look *look = &list->files[list->file_count];
    memset(look, 0, sizeof *look);
    look->entry = entry;
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
static enum status open_dir(const struct fact_walk *walk, const char *path, int *ret,
                            struct error *error)
{
    struct error reason = {0};
    enum status status = volume_open_dir(walk->volume, walk->facts_fd, path, ret, &reason);

    if (status == STATUS_DENIED && (reason.sys_errno == ENOTDIR || reason.sys_errno == ELOOP))
        return error_set(error, STATUS_NOT_FOUND, path, "it is no directory any more");
    if (status != STATUS_OK && error)
        *error = reason;
    return status;
}

static enum status stamp_dir(const struct fact_walk *walk, const char *path, struct file_stamp *ret)
{
    AUTO_CLOSE int fd = -1;

    if (!*path)
        return volume_stamp_fd(walk->volume, walk->facts_fd, ret);
    if (!strchr(path, '/')) {
        bool is_dir;
        enum status status =
            volume_stamp_at(walk->volume, walk->facts_fd, path, ret, &is_dir, NULL);
        return status == STATUS_OK && !is_dir ? STATUS_NOT_FOUND : status;
    }
    enum status status = open_dir(walk, path, &fd, NULL);
    return status == STATUS_OK ? volume_stamp_fd(walk->volume, fd, ret) : status;
}

static enum status check_dir(void *context_address, size_t index)
{
    const struct look_context *context = context_address;
    struct dir_look *look = &context->dirs[index];

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

/* Stamps of the listing's fact files. One that went meanwhile makes the listing outdated. */
static enum status stamp_files(const struct fact_walk *walk, int dir_fd, struct dir_look *look,
                               struct error *error)
{
    look->stamps = calloc(look->listing.count + 1, sizeof *look->stamps);
    if (!look->stamps)
        return error_set(error, STATUS_NO_MEMORY, look->path, "out of memory");
    for (size_t i = 0; i < look->listing.count; i++) {
        const struct listing_entry *entry = &look->listing.entries[i];
        if (!entry->is_file || !fact_walk_is_fact_name(entry->name, NULL))
            continue;
        enum status status =
            volume_stamp_at(walk->volume, dir_fd, entry->name, &look->stamps[i], NULL, NULL);
        if (status != STATUS_OK)
            return error_set(error, status == STATUS_NOT_FOUND ? STATUS_STALE : status, look->path,
                             "cannot read the attributes of %s", entry->name);
    }
    return STATUS_OK;
}

static enum status list_and_stamp(const struct fact_walk *walk, struct dir_look *look,
                                  struct error *error)
{
    AUTO_CLOSE int fd = -1;

    if (clock_monotonic_ns() > walk->give_up_ns)
        return error_set(error, STATUS_STALE, look->path, "it takes too long");
    look->looked_ns = clock_monotonic_ns();
    enum status status = open_dir(walk, *look->path ? look->path : ".", &fd, error);
    if (status == STATUS_OK)
        status = volume_list_fd(walk->volume, fd, &look->listing, error);
    if (status == STATUS_NOT_FOUND)
        return error_set(error, STATUS_STALE, look->path, "it went away");
    if (status != STATUS_OK)
        return status;
    look->stamp = look->listing.stamp;
    return stamp_files(walk, fd, look, error);
}

static enum status list_dir(void *context_address, size_t index)
{
    const struct look_context *context = context_address;
    struct dir_look *look = &context->dirs[index];

    if (!look->list || look->missing)
        return STATUS_OK;
    struct error error = {0};
    enum status status = list_and_stamp(context->walk, look, &error);
    return status == STATUS_OK ? STATUS_OK : keep_error(&look->error, &error);
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
    const char *slash = strrchr(look->path, '/');
    struct error error = {0};

    (void) fact_walk_is_fact_name(slash ? slash + 1 : look->path, id);
    look->digest = signature_digest(image->bytes, image->size);
    if (fact_parse(image->bytes, image->size, walk->scope, id, image->stamp.mtime_ns, &look->fact,
                   &look->fault, &error) == STATUS_OK)
        return STATUS_OK;
    if (look->fault == FACT_FAULT_NONE)
        look->fault = FACT_FAULT_BROKEN;
    look->problem = strdup(error.message);
    return look->problem ? STATUS_OK : STATUS_NO_MEMORY;
}

static enum status read_file(void *context_address, size_t index)
{
    const struct look_context *context = context_address;
    const struct fact_walk *walk = context->walk;
    struct file_look *look = &context->files[index];
    AUTO_IMAGE struct file_image image = {0};
    struct error error = {0};

    if (clock_monotonic_ns() > walk->give_up_ns) {
        (void) error_set(&error, STATUS_STALE, look->path, "it takes too long");
        return keep_error(&look->error, &error);
    }
    look->looked_ns = clock_monotonic_ns();
    enum status status = volume_read_file(walk->volume, walk->facts_fd, look->path,
                                          FACT_FILE_BYTES_MAX, &image, &error);
    if (status == STATUS_OK) {
        look->stamp = image.stamp;
        if (walk->files_read)
            atomic_fetch_add_explicit(walk->files_read, 1, memory_order_relaxed);
        return parse_file(walk, &image, look);
    }
    if (fact_walk_is_fault_of_the_file(status)) {
        look->fault = FACT_FAULT_BROKEN;
        look->problem = strdup(error.message);
        return look->problem ? STATUS_OK : STATUS_NO_MEMORY;
    }
    (void) keep_error(&look->error, &error);
    /* Listed and not there: present and unread, so nothing may be published without it. */
    return status == STATUS_NOT_FOUND ? STATUS_STALE : status;
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

/* Tells the plan of one listing; files that it wants read are added to `reads`. */
static enum status take_listing(struct refresh_plan *plan, const struct dir_look *look,
                                struct look_list *reads)
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
        if (status == STATUS_TOO_LARGE && name->is_dir)
            continue; /* deeper than we look, as documented */
        if (status == STATUS_OK && is_fact &&
            refresh_plan_file_stamped(plan, entry, &look->stamps[i], look->looked_ns))
            status = add_file(reads, entry, refresh_plan_path(plan, entry), &look->stamps[i]);
        if (status != STATUS_OK)
            return status;
    }
    refresh_plan_list_end(plan, look->entry);
    return STATUS_OK;
}

static enum status look_at_dirs(const struct fact_walk *walk, struct refresh_plan *plan,
                                struct look_list *looks, struct look_list *reads,
                                struct error *error)
{
    struct look_context context = {.walk = walk, .dirs = looks->dirs};
    enum status status = reader_pool_run(walk->pool, looks->dir_count, check_dir, &context);

    for (size_t i = 0; status == STATUS_OK && i < looks->dir_count; i++) {
        struct dir_look *look = &looks->dirs[i];
        if (!look->missing)
            look->list = refresh_plan_dir_stamped(plan, look->entry, &look->stamp, look->looked_ns);
    }
    if (status == STATUS_OK)
        status = reader_pool_run(walk->pool, looks->dir_count, list_dir, &context);
    if (status != STATUS_OK)
        return first_error(walk, looks, status, error);

    for (size_t i = 0; status == STATUS_OK && i < looks->dir_count; i++) {
        if (!looks->dirs[i].list)
            continue;
        status = refresh_plan_open_dir(plan, looks->dirs[i].entry);
        if (status == STATUS_OK)
            status = take_listing(plan, &looks->dirs[i], reads);
    }
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
    struct look_context context = {.walk = walk, .files = reads->files + begin};
    enum status status = reader_pool_run(walk->pool, count, read_file, &context);

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
