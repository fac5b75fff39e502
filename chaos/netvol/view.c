#include "chaos/netvol/view.h"

#include "core/clock.h"

#include <errno.h>
#include <string.h>

static void lock(struct node *node)
{
    (void) pthread_mutex_lock(&node->inodes.lock);
}

static void unlock(struct node *node)
{
    (void) pthread_mutex_unlock(&node->inodes.lock);
}

static bool is_young(const struct node *node, enum knob knob, uint64_t since_ns)
{
    return since_ns && clock_monotonic_ns() - since_ns < knobs_ns(&node->knobs, knob);
}

/* ---- times ---- */

static int64_t offset_ns(const struct node *node)
{
    return (int64_t) (knobs_get(&node->knobs, KNOB_CLOCK_OFFSET_MS) * (double) NS_PER_MS);
}

static struct timespec moved(struct timespec time, int64_t by_ns, int64_t grain_ns)
{
    const int64_t second = (int64_t) NS_PER_SECOND;
    int64_t ns = time.tv_sec * second + time.tv_nsec + by_ns;

    ns -= ((ns % grain_ns) + grain_ns) % grain_ns;
    int64_t fraction = ((ns % second) + second) % second;
    return (struct timespec){.tv_sec = (ns - fraction) / second, .tv_nsec = fraction};
}

struct timespec view_backing_time(const struct node *node, struct timespec time)
{
    return moved(time, -offset_ns(node), 1);
}

static void tell_times(const struct node *node, struct stat *info)
{
    int64_t by_ns = offset_ns(node);
    int64_t grain_ns = (int64_t) knobs_get(&node->knobs, KNOB_TIME_GRAIN_NS);

    info->st_atim = moved(info->st_atim, by_ns, grain_ns);
    info->st_mtim = moved(info->st_mtim, by_ns, grain_ns);
    info->st_ctim = moved(info->st_ctim, by_ns, grain_ns);
}

/* ---- attributes ---- */

int view_attributes(struct node *node, struct inode *inode, struct stat *ret)
{
    lock(node);
    bool remembered = is_young(node, KNOB_ATTR_LAG_S, inode->told_ns);
    uint64_t changes = inode->changes;
    if (remembered)
        *ret = inode->told;
    unlock(node);
    if (!remembered) {
        uint64_t now_ns = clock_monotonic_ns();
        if (fstat(inode->fd, ret) < 0)
            return errno;
        lock(node);
        if (inode->changes == changes) {
            inode->told = *ret;
            inode->told_ns = now_ns;
        }
        unlock(node);
    }
    tell_times(node, ret);
    return 0;
}

void view_changed(struct node *node, struct inode *inode)
{
    lock(node);
    inode->changes++;
    inode->told_ns = 0;
    unlock(node);
}

/* ---- directories ---- */

int view_listing(struct node *node, struct inode *dir, struct listing **ret)
{
    struct listing *old = NULL;

    lock(node);
    bool remembered = is_young(node, KNOB_LISTING_LAG_S, dir->listed_ns);
    uint64_t changes = dir->changes;
    if (remembered)
        *ret = listing_share(dir->listing);
    unlock(node);
    if (remembered)
        return 0;
    uint64_t now_ns = clock_monotonic_ns();
    int error = listing_read(dir->fd, ret);
    if (error)
        return error;
    lock(node);
    if (dir->changes == changes && knobs_get(&node->knobs, KNOB_LISTING_LAG_S) > 0) {
        old = dir->listing;
        dir->listing = listing_share(*ret);
        dir->listed_ns = now_ns;
    }
    unlock(node);
    listing_drop(&old);
    return 0;
}

/* Takes a name out of those that are absent, and with it what is too old to count. */
static void drop_absents_locked(const struct node *node, struct inode *dir, const char *name)
{
    for (struct absent **place = &dir->absents; *place;) {
        struct absent *absent = *place;
        if (is_young(node, KNOB_NEGATIVE_LAG_S, absent->since_ns) &&
            strcmp(absent->name, name) != 0) {
            place = &absent->next;
        } else {
            *place = absent->next;
            free(absent);
        }
    }
}

bool view_is_absent(struct node *node, struct inode *dir, const char *name)
{
    bool found = false;

    lock(node);
    for (const struct absent *absent = dir->absents; absent && !found; absent = absent->next)
        found = strcmp(absent->name, name) == 0 &&
                is_young(node, KNOB_NEGATIVE_LAG_S, absent->since_ns);
    unlock(node);
    return found;
}

void view_note_absent(struct node *node, struct inode *dir, const char *name)
{
    size_t size = strlen(name) + 1;
    struct absent *absent = NULL;

    if (knobs_get(&node->knobs, KNOB_NEGATIVE_LAG_S) > 0)
        absent = malloc(sizeof *absent + size);
    if (!absent)
        return;
    memcpy(absent->name, name, size);
    absent->since_ns = clock_monotonic_ns();
    lock(node);
    drop_absents_locked(node, dir, name);
    absent->next = dir->absents;
    dir->absents = absent;
    unlock(node);
}

void view_changed_entry(struct node *node, struct inode *dir, const char *name)
{
    struct listing *old = NULL;

    view_changed(node, dir);
    lock(node);
    drop_absents_locked(node, dir, name);
    old = dir->listing;
    dir->listing = NULL;
    dir->listed_ns = 0;
    unlock(node);
    listing_drop(&old);
}

bool view_may_keep(struct node *node, enum knob knob, uint64_t *since_ns)
{
    lock(node);
    bool keep = is_young(node, knob, *since_ns);
    if (!keep)
        *since_ns = clock_monotonic_ns();
    unlock(node);
    return keep;
}
