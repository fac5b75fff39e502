/* core/freshness.h - the one comparison that decides whether rows may be called fresh.
 *
 * Pure: no I/O, no state.
 */
#ifndef MEMSYNC_CORE_FRESHNESS_H
#define MEMSYNC_CORE_FRESHNESS_H

#include "core/signature.h"

enum freshness_mode {
    FRESHNESS_STRICT,  /* compare, and refresh before answering */
    FRESHNESS_BOUNDED, /* answer at once when a compare found the scope in step lately */
    FRESHNESS_LOCAL,   /* never look at the volume */
};

/* What an answer says of each scope it was taken from. */
enum scope_state {
    SCOPE_FRESH,      /* the rows were in step when this request looked */
    SCOPE_REFRESHED,  /* they are now: this request had them refreshed */
    SCOPE_STALE,      /* the volume was not looked at, or changed faster than we could follow */
    SCOPE_UNVERIFIED, /* the volume could not be read */
};

/* "strict", "bounded", "local"; false for another word. */
bool freshness_mode_from_name(const char *name, enum freshness_mode *ret);
const char *freshness_mode_name(enum freshness_mode mode);

/* "fresh", "refreshed", "stale", "unverified" */
const char *scope_state_name(enum scope_state state);

/* What a compare found on the volume. */
struct live_state {
    struct manifest_mark mark;
    bool bare; /* no manifest, and a forced listing showed neither facts of the scope nor a journal
                  nor data in an earlier layout. Only with mark.signature.absent. */
};

/* True when rows built from `synced` describe the volume in state `live`. `facts` counts the
 * scope's rows: an absent manifest proves something only where there is nothing on either side. A
 * changed inode or ctime under an equal signature is a reason to look, unless the volume's inodes
 * are not stable. */
bool freshness_in_step(const struct synced_mark *synced, uint64_t facts,
                       const struct live_state *live, bool inodes_stable);

#endif
