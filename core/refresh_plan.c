#include "core/refresh_plan.h"

#include <string.h>

#define NO_ENTRY UINT32_MAX

/* One directory or file, of the index, of the volume, or of both. */
struct entry {
    char *path;
    plan_entry parent, first_child, next_sibling;
    bool is_dir;
    bool in_index; /* `base` is what the index holds */
    bool gone;     /* not on the volume */
    bool looked;   /* directories: dealt with in this attempt */
    bool listed;   /* mentioned by the listing under way */
    bool known;    /* `stamp` and what follows are set */
    bool clean;
    bool reread;      /* trusted only once this plan has read it (full refresh) */
    bool look_inside; /* directories: a file in it is broken or has no mark yet */
    bool unloaded;    /* a directory of the index; what is below it may be missing here */
    struct file_stamp stamp;
    uint64_t since_ns; /* when the stamp was first seen */
    uint64_t digest;
    enum fact_fault fault;
    char *problem;
    struct fact *fact; /* read by this plan; NULL: the row in the index is right */
    struct {
        struct file_stamp stamp;
        bool clean;
        bool is_file;
        bool has_row;
        uint64_t digest;
    } base;
};

struct refresh_plan {
    struct refresh_plan_options options;
    struct entry *entries;
    uint32_t count, capacity;
    uint32_t *buckets; /* hash table of entry numbers + 1, a power of two in size */
    uint32_t bucket_count;
    uint32_t next_dir; /* where the search for the next directory goes on */
    struct plan_counts counts;
};

static uint32_t *bucket_of(const struct refresh_plan *plan, const char *path)
{
    uint32_t mask = plan->bucket_count - 1;
    uint32_t at = (uint32_t) signature_digest(path, strlen(path)) & mask;

    while (plan->buckets[at] && strcmp(plan->entries[plan->buckets[at] - 1].path, path) != 0)
        at = (at + 1) & mask;
    return &plan->buckets[at];
}

static enum status grow(struct refresh_plan *plan, uint32_t capacity)
{
    struct entry *entries = realloc(plan->entries, capacity * sizeof *entries);
    if (!entries)
        return STATUS_NO_MEMORY;
    plan->entries = entries;
    plan->capacity = capacity;

    uint32_t bucket_count = 64;
    while (bucket_count < capacity * 2)
        bucket_count *= 2;
    uint32_t *buckets = calloc(bucket_count, sizeof *buckets);
    if (!buckets)
        return STATUS_NO_MEMORY;
    free(plan->buckets);
    plan->buckets = buckets;
    plan->bucket_count = bucket_count;
    for (uint32_t i = 0; i < plan->count; i++)
        *bucket_of(plan, plan->entries[i].path) = i + 1;
    return STATUS_OK;
}

static plan_entry parent_of(const struct refresh_plan *plan, const char *path)
{
    char parent[SCOPE_PATH_MAX];
    const char *slash = strrchr(path, '/');
    size_t length = slash ? (size_t) (slash - path) : 0;

    if (!*path || length >= sizeof parent)
        return NO_ENTRY;
    memcpy(parent, path, length);
    parent[length] = '\0';
    uint32_t number = *bucket_of(plan, parent);
    return number ? number - 1 : NO_ENTRY;
}

static enum status add(struct refresh_plan *plan, const char *path, bool is_dir, plan_entry *ret)
{
    if (plan->count == REFRESH_PLAN_ENTRIES_MAX)
        return STATUS_TOO_LARGE;
    if (plan->count == plan->capacity) {
        enum status status = grow(plan, plan->capacity ? plan->capacity * 2 : 64);
        if (status != STATUS_OK)
            return status;
    }

    struct entry *entry = &plan->entries[plan->count];
    *entry = (struct entry){
        .path = strdup(path),
        .is_dir = is_dir,
        .parent = parent_of(plan, path),
        .first_child = NO_ENTRY,
        .next_sibling = NO_ENTRY,
    };
    if (!entry->path)
        return STATUS_NO_MEMORY;
    if (entry->parent != NO_ENTRY) {
        entry->next_sibling = plan->entries[entry->parent].first_child;
        plan->entries[entry->parent].first_child = plan->count;
    }
    *bucket_of(plan, path) = plan->count + 1;
    *ret = plan->count++;
    return STATUS_OK;
}

/* The directories above an entry. A file that was put into the index by a write, and never listed,
 * may come without them; a listing has to be able to miss it all the same. */
static enum status add_parents(struct refresh_plan *plan, const char *path)
{
    char parent[SCOPE_PATH_MAX];
    const char *slash = strrchr(path, '/');
    size_t length = slash ? (size_t) (slash - path) : 0;
    plan_entry number;

    if (!*path || length >= sizeof parent)
        return STATUS_OK;
    memcpy(parent, path, length);
    parent[length] = '\0';
    if (*bucket_of(plan, parent))
        return STATUS_OK;
    enum status status = add_parents(plan, parent);
    return status == STATUS_OK ? add(plan, parent, true, &number) : status;
}

/* Takes over one entry of the index. */
static enum status add_seen(struct refresh_plan *plan, const struct seen_entry *seen)
{
    plan_entry number;
    enum status status = add_parents(plan, seen->path);

    if (status == STATUS_OK)
        status = add(plan, seen->path, seen->is_dir, &number);
    if (status != STATUS_OK)
        return status;

    struct entry *entry = &plan->entries[number];
    entry->in_index = true;
    entry->known = true;
    entry->stamp = seen->stamp;
    entry->clean = seen->clean && !plan->options.full;
    entry->reread = plan->options.full;
    entry->digest = seen->digest;
    entry->fault = seen->fault;
    /* A clean stamp is known since long ago: meeting it again settles it at once. */
    entry->since_ns =
        seen->clean ? 0 : racy_since(plan->options.racy, seen->path, plan->options.now_ns);
    entry->base.stamp = seen->stamp;
    entry->base.clean = seen->clean;
    entry->base.is_file = !seen->is_dir;
    entry->base.has_row = !seen->is_dir && seen->fault == FACT_FAULT_NONE;
    entry->unloaded = seen->is_dir && *seen->path && plan->options.load;
    entry->base.digest = seen->digest;
    if (!seen->is_dir && entry->parent != NO_ENTRY &&
        (!seen->clean || seen->fault == FACT_FAULT_BROKEN))
        plan->entries[entry->parent].look_inside = true;
    if (seen->problem) {
        entry->problem = strdup(seen->problem);
        if (!entry->problem)
            return STATUS_NO_MEMORY;
    }
    return STATUS_OK;
}

static void mark_loaded(struct refresh_plan *plan, plan_entry dir)
{
    plan->entries[dir].unloaded = false;
    for (plan_entry child = plan->entries[dir].first_child; child != NO_ENTRY;
         child = plan->entries[child].next_sibling) {
        if (plan->entries[child].unloaded)
            mark_loaded(plan, child);
    }
}

/* Entries that are there already came with the special ones. */
static enum status add_missing(struct refresh_plan *plan, const struct seen_list *seen)
{
    enum status status = STATUS_OK;

    for (size_t i = 0; status == STATUS_OK && i < seen->count; i++) {
        if (*bucket_of(plan, seen->entries[i].path) == 0)
            status = add_seen(plan, &seen->entries[i]);
    }
    return status;
}

enum status refresh_plan_open_dir(struct refresh_plan *plan, plan_entry dir)
{
    AUTO_SEEN struct seen_list below = {0};

    if (!plan->entries[dir].unloaded)
        return STATUS_OK;
    enum status status =
        plan->options.load(plan->options.load_context, plan->entries[dir].path, &below);
    if (status == STATUS_OK)
        status = add_missing(plan, &below);
    if (status == STATUS_OK)
        mark_loaded(plan, dir);
    return status;
}

enum status refresh_plan_create(const struct refresh_plan_options *options,
                                struct refresh_plan **ret)
{
    AUTO_PLAN struct refresh_plan *plan = calloc(1, sizeof *plan);
    size_t seen_count = options->seen ? options->seen->count : 0;
    enum status status;
    plan_entry root;

    if (!plan)
        return STATUS_NO_MEMORY;
    if (seen_count > REFRESH_PLAN_ENTRIES_MAX)
        return STATUS_TOO_LARGE;
    plan->options = *options;
    status = grow(plan, (uint32_t) seen_count + 64);
    for (size_t i = 0; status == STATUS_OK && i < seen_count; i++)
        status = add_seen(plan, &options->seen->entries[i]);
    if (status == STATUS_OK && *bucket_of(plan, "") == 0)
        status = add(plan, "", true, &root);
    if (status != STATUS_OK)
        return status;
    plan->options.seen = NULL; /* not ours to keep */
    *ret = TAKE_PTR(plan);
    return STATUS_OK;
}

void refresh_plan_destroy(struct refresh_plan **plan)
{
    if (!*plan)
        return;
    for (uint32_t i = 0; i < (*plan)->count; i++) {
        free((*plan)->entries[i].path);
        free((*plan)->entries[i].problem);
        fact_destroy(&(*plan)->entries[i].fact);
    }
    free((*plan)->entries);
    free((*plan)->buckets);
    free(*plan);
    *plan = NULL;
}

enum status refresh_plan_begin(struct refresh_plan *plan, bool facts_present)
{
    plan->next_dir = 0;
    for (uint32_t i = 0; i < plan->count; i++)
        plan->entries[i].looked = false;
    plan_entry root = *bucket_of(plan, "") - 1;
    if (facts_present)
        plan->entries[root].gone = false;
    else
        refresh_plan_dir_gone(plan, root);
    return STATUS_OK;
}

bool refresh_plan_next_dir(struct refresh_plan *plan, plan_entry *ret)
{
    while (plan->next_dir < plan->count) {
        struct entry *entry = &plan->entries[plan->next_dir];
        if (entry->is_dir && !entry->looked && !entry->gone) {
            *ret = plan->next_dir++;
            entry->looked = true;
            return true;
        }
        plan->next_dir++;
    }
    return false;
}

void refresh_plan_distrust_dirs(struct refresh_plan *plan)
{
    for (uint32_t i = 0; i < plan->count; i++) {
        if (plan->entries[i].is_dir)
            plan->entries[i].clean = false;
    }
}

bool refresh_plan_is_gone(const struct refresh_plan *plan, plan_entry entry)
{
    return plan->entries[entry].gone;
}

const char *refresh_plan_path(const struct refresh_plan *plan, plan_entry entry)
{
    return plan->entries[entry].path;
}

/* Remembers a stamp; one that differs from the known is not trusted and known only from now on. */
static void take_stamp(struct entry *entry, const struct file_stamp *stamp, uint64_t looked_ns)
{
    if (entry->known && file_stamp_equal(&entry->stamp, stamp))
        return;
    entry->stamp = *stamp;
    entry->since_ns = looked_ns;
    entry->clean = false;
    entry->known = true;
}

/* A stamp's size says nothing of a directory: some file systems count entries there lazily. */
static struct file_stamp directory_stamp(const struct file_stamp *stamp)
{
    struct file_stamp directory = *stamp;

    directory.size = 0;
    return directory;
}

bool refresh_plan_must_list(const struct refresh_plan *plan, plan_entry dir)
{
    const struct entry *entry = &plan->entries[dir];

    /* A file that is edited or given a right does not move its directory: one that has no mark yet,
     * or could not be understood, is looked at itself. */
    return !plan->options.directory_times_work || !entry->known || !entry->clean ||
           entry->look_inside;
}

bool refresh_plan_dir_stamped(struct refresh_plan *plan, plan_entry dir,
                              const struct file_stamp *stamp, uint64_t looked_ns)
{
    struct file_stamp wanted = directory_stamp(stamp);

    (void) looked_ns;
    plan->counts.dirs_checked++;
    return refresh_plan_must_list(plan, dir) ||
           !file_stamp_equal(&plan->entries[dir].stamp, &wanted);
}

static void children_gone(struct refresh_plan *plan, plan_entry dir)
{
    for (plan_entry child = plan->entries[dir].first_child; child != NO_ENTRY;
         child = plan->entries[child].next_sibling) {
        plan->entries[child].gone = true;
        if (plan->entries[child].is_dir)
            children_gone(plan, child);
    }
}

void refresh_plan_dir_gone(struct refresh_plan *plan, plan_entry dir)
{
    plan->entries[dir].gone = true;
    children_gone(plan, dir);
}

void refresh_plan_list_begin(struct refresh_plan *plan, plan_entry dir,
                             const struct file_stamp *stamp, uint64_t looked_ns)
{
    struct entry *entry = &plan->entries[dir];
    struct file_stamp wanted = directory_stamp(stamp);

    plan->counts.dirs_listed++;
    take_stamp(entry, &wanted, looked_ns);
    if (racy_is_settled(entry->since_ns, looked_ns, plan->options.settle_ns))
        entry->clean = true;
    for (plan_entry child = entry->first_child; child != NO_ENTRY;
         child = plan->entries[child].next_sibling)
        plan->entries[child].listed = false;
}

static unsigned depth_of(const char *path)
{
    unsigned depth = 0;

    for (; *path; path++)
        depth += *path == '/';
    return depth;
}

/* A name that was a file and is a directory now, or the other way round, is another entry of the
 * same path. */
static void change_kind(struct refresh_plan *plan, plan_entry number, bool is_dir)
{
    struct entry *entry = &plan->entries[number];

    if (entry->is_dir)
        children_gone(plan, number);
    fact_destroy(&entry->fact);
    entry->is_dir = is_dir;
    entry->known = false;
    entry->clean = false;
}

enum status refresh_plan_list_name(struct refresh_plan *plan, plan_entry dir, const char *name,
                                   bool is_dir, plan_entry *ret)
{
    char path[SCOPE_PATH_MAX];
    const char *parent = plan->entries[dir].path;
    int length = snprintf(path, sizeof path, "%s%s%s", parent, *parent ? "/" : "", name);

    if (length < 0 || (size_t) length >= sizeof path ||
        (is_dir && depth_of(path) >= REFRESH_PLAN_DEPTH_MAX))
        return STATUS_UNSUPPORTED;

    uint32_t number = *bucket_of(plan, path);
    if (number == 0) {
        enum status status = add(plan, path, is_dir, ret);
        if (status != STATUS_OK)
            return status;
    } else {
        *ret = number - 1;
        if (plan->entries[*ret].is_dir != is_dir)
            change_kind(plan, *ret, is_dir);
    }
    plan->entries[*ret].gone = false;
    plan->entries[*ret].listed = true;
    if (is_dir && !plan->entries[*ret].looked && *ret < plan->next_dir)
        plan->next_dir = *ret;
    return STATUS_OK;
}

void refresh_plan_list_end(struct refresh_plan *plan, plan_entry dir)
{
    for (plan_entry child = plan->entries[dir].first_child; child != NO_ENTRY;
         child = plan->entries[child].next_sibling) {
        struct entry *entry = &plan->entries[child];
        if (entry->listed)
            continue;
        if (entry->is_dir)
            refresh_plan_dir_gone(plan, child);
        entry->gone = true;
    }
}

bool refresh_plan_trusts_file(const struct refresh_plan *plan, plan_entry file)
{
    const struct entry *entry = &plan->entries[file];

    return entry->known && entry->clean && !entry->reread;
}

bool refresh_plan_file_stamped(struct refresh_plan *plan, plan_entry file,
                               const struct file_stamp *stamp, uint64_t looked_ns)
{
    (void) looked_ns;
    plan->counts.files_checked++;
    return !refresh_plan_trusts_file(plan, file) ||
           !file_stamp_equal(&plan->entries[file].stamp, stamp);
}

enum status refresh_plan_file_read(struct refresh_plan *plan, plan_entry file,
                                   const struct file_stamp *stamp, uint64_t looked_ns,
                                   uint64_t digest, struct fact *fact, enum fact_fault fault,
                                   const char *problem)
{
    struct entry *entry = &plan->entries[file];
    char *copy = problem ? strdup(problem) : NULL;

    plan->counts.files_read++;
    fact_destroy(&entry->fact);
    entry->fact = fact;
    if (problem && !copy)
        return STATUS_NO_MEMORY;
    free(entry->problem);
    entry->problem = copy;
    entry->fault = fault;
    entry->digest = digest;
    take_stamp(entry, stamp, looked_ns);
    entry->clean = fault != FACT_FAULT_REFUSED &&
                   racy_is_settled(entry->since_ns, looked_ns, plan->options.settle_ns);
    entry->reread = false;
    return STATUS_OK;
}

/* True when the row that the index holds for this file is still right. Equal digests are equal
 * bytes, and equal bytes give the same fact unless a date was taken from the file's time; such a
 * fact is put again when the time moved. */
static bool row_is_right(const struct entry *entry)
{
    if (!entry->fact)
        return entry->in_index && entry->base.has_row == (entry->fault == FACT_FAULT_NONE);
    return entry->in_index && entry->base.has_row && entry->base.digest == entry->digest &&
           entry->base.stamp.mtime_ns == entry->stamp.mtime_ns;
}

static bool seen_changed(const struct entry *entry)
{
    return !entry->in_index || entry->base.clean != entry->clean ||
           !file_stamp_equal(&entry->base.stamp, &entry->stamp) ||
           entry->base.digest != entry->digest ||
           (!entry->is_dir && entry->base.has_row != (entry->fault == FACT_FAULT_NONE));
}

static bool is_refused(const struct entry *entry)
{
    return !entry->is_dir && entry->fault == FACT_FAULT_REFUSED;
}

static void finish_entry(const struct refresh_plan *plan, const struct entry *entry,
                         struct plan_result *result)
{
    if (entry->gone) {
        if (entry->in_index)
            result->removed[result->removed_count++] = entry->path;
        return;
    }
    if (!entry->known)
        return;
    /* It was a sound file, whose row would outlive it, or a directory and is a file now, or the
     * other way round: the index keeps the kinds apart. */
    if ((entry->base.has_row && entry->fault != FACT_FAULT_NONE) ||
        (entry->in_index && entry->base.is_file == entry->is_dir))
        result->removed[result->removed_count++] = entry->path;
    if (!entry->is_dir) {
        result->files++;
        if (entry->fault != FACT_FAULT_NONE)
            result->broken++;
        else if (entry->fact && !row_is_right(entry))
            result->put[result->put_count++] = (struct plan_row){entry->path, entry->fact};
    }
    /* Where directories' times mean nothing no later look makes them mean more. */
    if (is_refused(entry))
        result->refused = true;
    else if (!entry->clean && (!entry->is_dir || plan->options.directory_times_work))
        result->unsettled = true;
    if (seen_changed(entry))
        result->seen[result->seen_count++] = (struct seen_entry){
            .path = entry->path,
            .is_dir = entry->is_dir,
            .stamp = entry->stamp,
            .clean = entry->clean,
            .digest = entry->digest,
            .fault = entry->is_dir ? FACT_FAULT_NONE : entry->fault,
            .problem = entry->problem,
        };
}

/* Directories that went away were never listed, but their files have rows. */
static enum status load_what_is_gone(struct refresh_plan *plan)
{
    enum status status = STATUS_OK;

    for (uint32_t i = 0; status == STATUS_OK && i < plan->count; i++) {
        if (!plan->entries[i].unloaded || (plan->entries[i].is_dir && !plan->entries[i].gone))
            continue;
        status = refresh_plan_open_dir(plan, i);
        children_gone(plan, i);
    }
    return status;
}

/* Files that were never loaded are as they were. */
static void count_unloaded(const struct refresh_plan *plan, struct plan_result *result)
{
    size_t files = plan->options.base_files;
    size_t broken = plan->options.base_broken;

    for (uint32_t i = 0; i < plan->count; i++) {
        const struct entry *entry = &plan->entries[i];
        if (!entry->in_index || !entry->base.is_file)
            continue;
        files -= files > 0;
        broken -= broken > 0 && !entry->base.has_row;
    }
    result->files += files;
    result->broken += broken;
}

enum status refresh_plan_finish(struct refresh_plan *plan, struct plan_result *ret)
{
    enum status status = load_what_is_gone(plan);

    if (status != STATUS_OK)
        return status;
    AUTO_PLAN_RESULT struct plan_result result = {
        .put = calloc(plan->count, sizeof *result.put),
        .removed = calloc(plan->count, sizeof *result.removed),
        .seen = calloc(plan->count, sizeof *result.seen),
    };

    if (!result.put || !result.removed || !result.seen)
        return STATUS_NO_MEMORY;
    for (uint32_t i = 0; i < plan->count; i++)
        finish_entry(plan, &plan->entries[i], &result);
    count_unloaded(plan, &result);
    *ret = result;
    result = (struct plan_result){0};
    return STATUS_OK;
}

void plan_result_destroy(struct plan_result *result)
{
    free(result->put);
    free(result->removed);
    free(result->seen);
    *result = (struct plan_result){0};
}

void refresh_plan_note_racy(const struct refresh_plan *plan, struct racy *racy, uint64_t now_ns)
{
    bool first = racy->base_ns == 0;

    if (first)
        racy_start(racy, now_ns);
    for (uint32_t i = 0; !first && i < plan->count; i++) {
        const struct entry *entry = &plan->entries[i];
        bool moved = !entry->in_index || !file_stamp_equal(&entry->base.stamp, &entry->stamp);
        if (entry->known && !entry->gone && !entry->clean && moved)
            racy_note(racy, entry->path, entry->since_ns);
    }
}

void refresh_plan_counts(const struct refresh_plan *plan, struct plan_counts *ret)
{
    *ret = plan->counts;
}
