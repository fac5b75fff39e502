/* chaos/netvol/trace.h - a bounded log of operations, in the order in which they were answered.
 *
 * An entry is written before the kernel gets the answer: what a program does because of an answer
 * stands behind it. One log for all nodes; thread-safe.
 */
#ifndef MEMSYNC_CHAOS_TRACE_H
#define MEMSYNC_CHAOS_TRACE_H

#include "core/text.h"

bool trace_is_on(void);
void trace_switch(bool on);

/* Adds an entry: what stands between the braces of a JSON object. Its bytes are taken over. */
void trace_add(struct text *members);

/* Appends {"dropped": N, "records": [...]} and empties the log; N entries had no room. */
void trace_take(struct text *text);

#endif
