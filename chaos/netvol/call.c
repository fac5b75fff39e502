#include "chaos/netvol/call.h"

#include "chaos/netvol/rules.h"
#include "chaos/netvol/trace.h"
#include "chaos/netvol/view.h"
#include "chaos/netvol/words.h"
#include "core/clock.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- begin ---- */

/* Has the thread that waits for the answer been told to die? Other signals do not end an operation,
 * as on a hard mount. */
static bool is_killed(pid_t thread)
{
    char path[64];
    char line[256];
    bool killed = false;

    (void) snprintf(path, sizeof path, "/proc/%d/status", (int) thread);
    FILE *file = fopen(path, "re");
    if (!file)
        return errno == ENOENT;
    while (!killed && fgets(line, sizeof line, file)) {
        uint64_t pending = 0;
        killed = (sscanf(line, "SigPnd: %" SCNx64, &pending) == 1 ||
                  sscanf(line, "ShdPnd: %" SCNx64, &pending) == 1) &&
                 (pending >> (SIGKILL - 1) & 1);
    }
    (void) fclose(file);
    return killed;
}

static bool is_given_up(void *context)
{
    const struct call *call = context;

    return fuse_req_interrupted(call->request) && is_killed(fuse_req_ctx(call->request)->pid);
}

/* An errno, or 0. */
static int go_by_rules(struct call *call)
{
    AUTO_TEXT struct text path = {0};
    AUTO_TEXT struct text to_path = {0};

    node_path(call->node, call->inode, call->name, &path);
    if (call->to_inode)
        node_path(call->node, call->to_inode, call->to_name, &to_path);
    const struct rule_case about = {
        .node = call->node->number,
        .operation = call->operation,
        .path = text_string(&path),
        .to_path = call->to_inode ? text_string(&to_path) : NULL,
        .is_given_up = is_given_up,
        .context = call,
    };
    const struct rule_verdict verdict = rules_decide(&about);
    node_sleep(call->node, verdict.delay_us * NS_PER_US);
    if (verdict.bytes < call->bytes_max)
        call->bytes_max = (size_t) verdict.bytes;
    if (verdict.late)
        call->late_error = verdict.error;
    return verdict.late ? 0 : verdict.error;
}

static int find_error(struct call *call)
{
    int error = rules_exist() ? go_by_rules(call) : 0;

    if (!error)
        error = atomic_load(&call->node->gone);
    if (!error && (node_is_stale(call->node, call->inode) ||
                   (call->to_inode && node_is_stale(call->node, call->to_inode))))
        error = ESTALE;
    return error;
}

int call_begin_close(struct call *call)
{
    call->node = fuse_req_userdata(call->request);
    call->inode = node_inode(call->node, call->number);
    if (call->to_name)
        call->to_inode = node_inode(call->node, call->to_number);
    call->bytes_max = SIZE_MAX;
    call->begun_ns = clock_monotonic_ns();
    atomic_fetch_add(&call->node->counts[call->operation], 1);
    node_sleep(call->node, knobs_latency_ns(&call->node->knobs, call->operation));
    int error = find_error(call);
    if (error)
        call->late_error = 0;
    return error;
}

bool call_begin(struct call *call)
{
    int error = call_begin_close(call);

    if (!error)
        return true;
    call_answer(call, error);
    return false;
}

/* ---- trace ---- */

void call_note(struct call *call, const char *format, ...)
{
    char text[256];
    va_list arguments;

    if (!trace_is_on())
        return;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (length > 0 && (size_t) length < sizeof text)
        text_append(&call->details, text, (size_t) length);
}

static void append_path(struct text *text, const char *member, const struct call *call,
                        const struct inode *inode)
{
    AUTO_TEXT struct text path = {0};

    node_path(call->node, inode, NULL, &path);
    text_append_format(text, ", \"%s\": ", member);
    words_append_json(text, text_string(&path));
}

static void append_name(struct text *text, const char *member, const char *name)
{
    text_append_format(text, ", \"%s\": ", member);
    words_append_json(text, name);
}

static void trace(struct call *call, int error)
{
    struct text entry = {0};

    text_append_format(&entry,
                       "\"node\": %" PRIu32 ", \"operation\": \"%s\", \"begun_ns\": %" PRIu64
                       ", \"ended_ns\": %" PRIu64,
                       call->node->number, operation_name(call->operation), call->begun_ns,
                       clock_monotonic_ns());
    append_path(&entry, "path", call, call->inode);
    if (call->name)
        append_name(&entry, "name", call->name);
    if (call->to_inode) {
        append_path(&entry, "to_path", call, call->to_inode);
        append_name(&entry, "to_name", call->to_name);
    }
    if (error)
        text_append_format(&entry, ", \"error\": \"%s\"", strerrorname_np(error));
    else
        text_append_string(&entry, ", \"error\": null");
    text_append_string(&entry, text_string(&call->details));
    trace_add(&entry);
}

/* ---- answers ---- */

/* What is answered; the rest of an answer is sent only when this is 0. */
static int settle(struct call *call, int error)
{
    if (call->late_error)
        error = call->late_error;
    if (trace_is_on())
        trace(call, error);
    text_destroy(&call->details);
    if (error)
        (void) fuse_reply_err(call->request, error);
    return error;
}

void call_answer(struct call *call, int error)
{
    if (!settle(call, error))
        (void) fuse_reply_err(call->request, 0);
}

void call_answer_absent(struct call *call)
{
    double keep_s = knobs_get(&call->node->knobs, KNOB_NEGATIVE_CACHE_S);
    const struct fuse_entry_param nothing = {.entry_timeout = keep_s};

    if (keep_s <= 0 || call->late_error) {
        call_answer(call, ENOENT);
        return;
    }
    if (trace_is_on())
        trace(call, ENOENT);
    text_destroy(&call->details);
    (void) fuse_reply_entry(call->request, &nothing);
}

int call_make_entry(struct node *node, struct inode *inode, struct fuse_entry_param *ret)
{
    *ret = (struct fuse_entry_param){
        .ino = (fuse_ino_t) (uintptr_t) inode,
        .attr_timeout = knobs_get(&node->knobs, KNOB_ATTR_CACHE_S),
        .entry_timeout = knobs_get(&node->knobs, KNOB_ENTRY_CACHE_S),
    };
    return view_attributes(node, inode, &ret->attr);
}

void call_answer_entry(struct call *call, struct inode *inode)
{
    struct fuse_entry_param entry;
    int error = call_make_entry(call->node, inode, &entry);

    if (settle(call, error) || fuse_reply_entry(call->request, &entry) < 0)
        node_forget(call->node, inode, 1);
}

void call_answer_attributes(struct call *call)
{
    struct stat info = {0};
    int error = view_attributes(call->node, call->inode, &info);

    if (!settle(call, error))
        (void) fuse_reply_attr(call->request, &info,
                               knobs_get(&call->node->knobs, KNOB_ATTR_CACHE_S));
}

void call_answer_bytes(struct call *call, const char *bytes, size_t size)
{
    if (!settle(call, 0))
        (void) fuse_reply_buf(call->request, bytes, size);
}

void call_answer_text(struct call *call, const char *text)
{
    if (!settle(call, 0))
        (void) fuse_reply_readlink(call->request, text);
}

void call_answer_written(struct call *call, size_t size)
{
    if (!settle(call, 0))
        (void) fuse_reply_write(call->request, size);
}

void call_answer_statfs(struct call *call, const struct statvfs *info)
{
    if (!settle(call, 0))
        (void) fuse_reply_statfs(call->request, info);
}

bool call_answer_open(struct call *call, const struct fuse_file_info *info)
{
    return !settle(call, 0) && fuse_reply_open(call->request, info) == 0;
}

bool call_answer_create(struct call *call, struct inode *inode, const struct fuse_file_info *info)
{
    struct fuse_entry_param entry;
    int error = call_make_entry(call->node, inode, &entry);

    return !settle(call, error) && fuse_reply_create(call->request, &entry, info) == 0;
}
