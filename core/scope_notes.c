#include "core/scope_notes.h"

#include "core/clock.h"

#include <pthread.h>
#include <string.h>

/* How long a scope may be busy before that counts as a failure. */
#define BUSY_PATIENCE_NS (10 * NS_PER_SECOND)

/* A scope is known by 128 bits of hash: no two of a million share them in practice, and no answer
 * depends on it beyond the age that a `bounded` search tolerates. */
struct note {
    uint64_t key[2];
    uint64_t in_step_ns;
    uint64_t empty_at; /* digest of the manifest's mark; 0: not known to be empty */
    enum status status;
    uint64_t busy_since_ns; /* 0: it is not, or counts as failing by now */
    unsigned side_data;     /* steps that failed the last time */
    bool slow;
    bool used;
};

struct scope_notes {
    pthread_mutex_t lock; /* a leaf */
    struct note *notes;   /* open addressing, a power of two, at most half full */
    size_t capacity, count;
    uint64_t failing;
};

#define CAPACITY_MIN 256

enum status scope_notes_create(struct scope_notes **ret)
{
    struct scope_notes *notes = calloc(1, sizeof *notes);

    if (!notes)
        return STATUS_NO_MEMORY;
    pthread_mutex_init(&notes->lock, NULL);
    notes->capacity = CAPACITY_MIN;
    notes->notes = calloc(notes->capacity, sizeof *notes->notes);
    if (!notes->notes) {
        scope_notes_destroy(&notes);
        return STATUS_NO_MEMORY;
    }
    *ret = notes;
    return STATUS_OK;
}

void scope_notes_destroy(struct scope_notes **notes_address)
{
    struct scope_notes *notes = TAKE_PTR(*notes_address);

    if (!notes)
        return;
    free(notes->notes);
    pthread_mutex_destroy(&notes->lock);
    free(notes);
}

static struct note *find(struct note *notes, size_t capacity, const uint64_t key[2])
{
    size_t at = (size_t) key[0] & (capacity - 1);

    while (notes[at].used && (notes[at].key[0] != key[0] || notes[at].key[1] != key[1]))
        at = (at + 1) & (capacity - 1);
    return &notes[at];
}

static void begin_anew_locked(struct scope_notes *notes)
{
    memset(notes->notes, 0, notes->capacity * sizeof *notes->notes);
    notes->count = 0;
    notes->failing = 0;
}

static void grow_locked(struct scope_notes *notes)
{
    size_t capacity = notes->capacity * 2;
    struct note *larger = notes->count < SCOPE_NOTES_MAX ? calloc(capacity, sizeof *larger) : NULL;

    if (!larger) {
        begin_anew_locked(notes);
        return;
    }
    for (size_t i = 0; i < notes->capacity; i++) {
        if (notes->notes[i].used)
            *find(larger, capacity, notes->notes[i].key) = notes->notes[i];
    }
    free(notes->notes);
    notes->notes = larger;
    notes->capacity = capacity;
}

static struct note *obtain_locked(struct scope_notes *notes, const struct scope *scope)
{
    uint64_t key[2];

    scope_hash_wide(scope, key);
    struct note *note = find(notes->notes, notes->capacity, key);
    if (note->used)
        return note;
    if ((notes->count + 1) * 2 > notes->capacity) {
        grow_locked(notes);
        note = find(notes->notes, notes->capacity, key);
    }
    *note = (struct note){.key = {key[0], key[1]}, .used = true};
    notes->count++;
    return note;
}

void scope_notes_in_step(struct scope_notes *notes, const struct scope *scope, uint64_t looked_ns)
{
    pthread_mutex_lock(&notes->lock);
    struct note *note = obtain_locked(notes, scope);
    if (looked_ns > note->in_step_ns)
        note->in_step_ns = looked_ns;
    pthread_mutex_unlock(&notes->lock);
}

/* A copy: of zeroes where there is no note. */
static struct note note_of(struct scope_notes *notes, const struct scope *scope)
{
    uint64_t key[2];

    scope_hash_wide(scope, key);
    pthread_mutex_lock(&notes->lock);
    struct note note = *find(notes->notes, notes->capacity, key);
    pthread_mutex_unlock(&notes->lock);
    return note;
}

uint64_t scope_notes_last_in_step(struct scope_notes *notes, const struct scope *scope)
{
    return note_of(notes, scope).in_step_ns;
}

/* That somebody is at a commit is no fault of the scope, unless it stays so. */
static bool is_busy_for_now(struct note *note, enum status status, int sys_errno, uint64_t now_ns)
{
    if (status != STATUS_BUSY || sys_errno != 0 || note->status == STATUS_BUSY) {
        note->busy_since_ns = 0;
        return false;
    }
    if (note->busy_since_ns == 0)
        note->busy_since_ns = now_ns;
    return now_ns - note->busy_since_ns < BUSY_PATIENCE_NS;
}

bool scope_notes_outcome(struct scope_notes *notes, const struct scope *scope, enum status status,
                         int sys_errno, uint64_t now_ns)
{
    uint64_t key[2];

    scope_hash_wide(scope, key);
    pthread_mutex_lock(&notes->lock);
    struct note *note = find(notes->notes, notes->capacity, key);
    bool changed = note->status != status || note->busy_since_ns != 0;
    if (changed) {
        note = obtain_locked(notes, scope);
        changed = !is_busy_for_now(note, status, sys_errno, now_ns) && note->status != status;
    }
    if (changed) {
        if (note->status == STATUS_OK)
            notes->failing++;
        else if (status == STATUS_OK)
            notes->failing--;
        note->status = status;
    }
    pthread_mutex_unlock(&notes->lock);
    return changed;
}

enum status scope_notes_last_outcome(struct scope_notes *notes, const struct scope *scope)
{
    uint64_t key[2];

    scope_hash_wide(scope, key);
    pthread_mutex_lock(&notes->lock);
    enum status status = find(notes->notes, notes->capacity, key)->status;
    pthread_mutex_unlock(&notes->lock);
    return status;
}

/* All of a mark in one number that is not 0. */
static uint64_t digest_of(const struct manifest_mark *mark)
{
    const uint64_t parts[] = {
        mark->signature.absent, mark->signature.mtime_ns,
        mark->signature.size,   (uint64_t) mark->signature.revision,
        mark->signature.digest, mark->inode,
        mark->ctime_ns,
    };

    return signature_digest(parts, sizeof parts) | 1;
}

void scope_notes_empty(struct scope_notes *notes, const struct scope *scope,
                       const struct manifest_mark *mark)
{
    pthread_mutex_lock(&notes->lock);
    obtain_locked(notes, scope)->empty_at = digest_of(mark);
    pthread_mutex_unlock(&notes->lock);
}

bool scope_notes_is_empty(struct scope_notes *notes, const struct scope *scope,
                          const struct manifest_mark *mark)
{
    uint64_t key[2];

    scope_hash_wide(scope, key);
    pthread_mutex_lock(&notes->lock);
    bool empty = find(notes->notes, notes->capacity, key)->empty_at == digest_of(mark);
    pthread_mutex_unlock(&notes->lock);
    return empty;
}

void scope_notes_set_slow(struct scope_notes *notes, const struct scope *scope, bool slow)
{
    uint64_t key[2];

    scope_hash_wide(scope, key);
    pthread_mutex_lock(&notes->lock);
    if (find(notes->notes, notes->capacity, key)->slow != slow)
        obtain_locked(notes, scope)->slow = slow;
    pthread_mutex_unlock(&notes->lock);
}

bool scope_notes_is_slow(struct scope_notes *notes, const struct scope *scope)
{
    return note_of(notes, scope).slow;
}

bool scope_notes_side_data(struct scope_notes *notes, const struct scope *scope,
                           enum side_data_step step, bool fails)
{
    uint64_t key[2];

    scope_hash_wide(scope, key);
    pthread_mutex_lock(&notes->lock);
    bool failed = (find(notes->notes, notes->capacity, key)->side_data & step) != 0;
    if (failed != fails)
        obtain_locked(notes, scope)->side_data ^= (unsigned) step;
    pthread_mutex_unlock(&notes->lock);
    return fails && !failed;
}

uint64_t scope_notes_failing(struct scope_notes *notes)
{
    pthread_mutex_lock(&notes->lock);
    uint64_t failing = notes->failing;
    pthread_mutex_unlock(&notes->lock);
    return failing;
}
