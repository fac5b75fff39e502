/* chaos/explorer/world_private.h - between world.c and judge.c. */
#ifndef MEMSYNC_CHAOS_WORLD_PRIVATE_H
#define MEMSYNC_CHAOS_WORLD_PRIVATE_H

#include "chaos/explorer/world.h"

/* The scope of "user/agent". */
void world_scope(const char *name, struct scope *ret);

/* One refresh by the calling thread; STATUS_BUSY: somebody else is at it. */
struct refresh_result world_refresh(struct world_agent *agent, const char *name, unsigned wishes);

#endif
