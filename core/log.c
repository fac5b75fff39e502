#include "core/log.h"

#include "core/clock.h"
#include "core/text.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static const char *const level_names[LOG_LEVEL_COUNT] = {
    [LOG_ERROR] = "error", [LOG_WARNING] = "warning", [LOG_NOTICE] = "notice",
    [LOG_INFO] = "info",   [LOG_DEBUG] = "debug",
};

/* What the journal knows the levels as. */
static const char level_priorities[LOG_LEVEL_COUNT] = {'3', '4', '5', '6', '7'};

static _Atomic int level_limit = LOG_INFO;
static atomic_bool journal_prefix;

/* Guards the capture and keeps lines whole; a leaf: nothing else is locked below it. */
static pthread_mutex_t output_lock = PTHREAD_MUTEX_INITIALIZER;
static log_capture capture_function;
static void *capture_context;

void log_set_level(enum log_level level)
{
    atomic_store(&level_limit, (int) level);
}

bool log_level_from_name(const char *name, enum log_level *ret)
{
    for (int i = 0; i < LOG_LEVEL_COUNT; i++) {
        if (strcmp(name, level_names[i]) == 0) {
            *ret = (enum log_level) i;
            return true;
        }
    }
    return false;
}

void log_set_journal_prefix(bool enabled)
{
    atomic_store(&journal_prefix, enabled);
}

bool log_enabled(enum log_level level)
{
    return (int) level <= atomic_load_explicit(&level_limit, memory_order_relaxed);
}

void log_set_capture(log_capture capture, void *context)
{
    pthread_mutex_lock(&output_lock);
    capture_function = capture;
    capture_context = context;
    pthread_mutex_unlock(&output_lock);
}

static void emit(enum log_level level, const char *line)
{
    char now[CLOCK_TEXT_SIZE];

    pthread_mutex_lock(&output_lock);
    if (capture_function) {
        capture_function(capture_context, level, line);
    } else if (atomic_load(&journal_prefix)) {
        (void) fprintf(stderr, "<%c>%s\n", level_priorities[level], line);
    } else {
        clock_format(clock_wall_ns(), now);
        (void) fprintf(stderr, "time=%s %s\n", now, line);
    }
    pthread_mutex_unlock(&output_lock);
}

/* Drops a last character that the buffer's end has cut in two. */
static void trim_cut_character(char *text)
{
    size_t end = strlen(text);
    size_t start = end;

    while (start > 0 && end - start < 4 && ((unsigned char) text[start - 1] & 0xc0) == 0x80)
        start--;
    if (start > 0 && !text_is_utf8(text + start - 1, end - start + 1))
        text[start - 1] = '\0';
}

void log_line(enum log_level level, const char *event, const char *format, ...)
{
    AUTO_TEXT struct text line = {0};
    char members[3072];
    va_list arguments;

    if (!log_enabled(level))
        return;
    va_start(arguments, format);
    int length = vsnprintf(members, sizeof members, format, arguments);
    va_end(arguments);
    if (length < 0)
        members[0] = '\0';
    if (length >= (int) sizeof members)
        trim_cut_character(members);

    text_append_format(&line, "level=%s event=%s%s%s", level_names[level], event,
                       members[0] ? " " : "", members);
    emit(level, text_ok(&line) ? text_string(&line) : event);
}

static bool is_plain(const char *value)
{
    if (!*value)
        return false;
    for (const unsigned char *at = (const unsigned char *) value; *at; at++) {
        if (*at <= ' ' || *at == '"' || *at == '=' || *at == '\\' || *at >= 0x7f)
            return false;
    }
    return true;
}

/* One character of a quoted value; returns how many bytes of `value` it stands for. */
static size_t quote_character(const char *value, size_t size, char *ret, size_t ret_size)
{
    size_t length = 1;
    uint32_t character = text_decode(value, size, &length);
    bool malformed = character == 0xfffd && length == 1;

    if (character == '"' || character == '\\')
        (void) snprintf(ret, ret_size, "\\%c", value[0]);
    else if (character == '\n')
        (void) snprintf(ret, ret_size, "\\n");
    else if (malformed || character < 0x20 || character == 0x7f)
        (void) snprintf(ret, ret_size, "\\x%02x", (unsigned char) value[0]);
    else
        (void) snprintf(ret, ret_size, "%.*s", (int) length, value);
    return length;
}

const char *log_value_format(struct log_value *buffer, const char *value)
{
    if (!value)
        value = "null";
    if (is_plain(value) && strlen(value) < sizeof buffer->text) {
        memcpy(buffer->text, value, strlen(value) + 1);
        return buffer->text;
    }

    size_t left = strlen(value);
    size_t used = 0;
    buffer->text[used++] = '"';
    while (left > 0) {
        char quoted[8];
        size_t taken = quote_character(value, left, quoted, sizeof quoted);
        size_t length = strlen(quoted);
        if (used + length + 2 > sizeof buffer->text)
            break;
        memcpy(buffer->text + used, quoted, length);
        used += length;
        value += taken;
        left -= taken;
    }
    buffer->text[used++] = '"';
    buffer->text[used] = '\0';
    return buffer->text;
}

bool log_gate_change(struct log_gate *gate, int state)
{
    if (gate->state == state)
        return false;
    gate->state = state;
    return true;
}
