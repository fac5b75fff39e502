/* core/refresh_report.h - tells the log what a refresh found wrong with single fact files.
 */
#ifndef MEMSYNC_CORE_REFRESH_REPORT_H
#define MEMSYNC_CORE_REFRESH_REPORT_H

#include "core/refresh_plan.h"
#include "core/scope.h"

/* Logs each file that cannot be served, and each that holds a key twice, once per content: what
 * `before` (the seen entries that the refresh started from) has with the same bytes is not told
 * again. A scope with many such files gets one line for those beyond the first. */
void refresh_report_files(const struct scope *scope, const struct seen_list *before,
                          const struct plan_result *result);

#endif
