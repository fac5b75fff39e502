#include "core/yaml_emitter.h"

#include <stdio.h>
#include <string.h>

#define WIDTH 80 /* a line that is longer is folded at the next blank */
#define BLOCK_WIDTH 76

/* ---- marks and lines ---- */

void yaml_emitter_start(struct yaml_emitter *emitter, struct text *text)
{
    *emitter = (struct yaml_emitter){.text = text, .has_blank = true, .is_margin = true};
}

static void append(struct yaml_emitter *emitter, const char *bytes, size_t size, size_t characters)
{
    if (emitter->text->size <= YAML_EMITTER_BYTES_MAX)
        text_append(emitter->text, bytes, size);
    emitter->column += characters;
}

static void append_ascii(struct yaml_emitter *emitter, const char *string)
{
    append(emitter, string, strlen(string), strlen(string));
}

static void append_mark(struct yaml_emitter *emitter, const char *mark, bool needs_blank)
{
    if (needs_blank && !emitter->has_blank)
        append_ascii(emitter, " ");
    append_ascii(emitter, mark);
    emitter->has_blank = false;
}

void yaml_emitter_mark(struct yaml_emitter *emitter, const char *mark)
{
    append_mark(emitter, mark, true);
    emitter->is_margin = false;
}

void yaml_emitter_member(struct yaml_emitter *emitter, const char *mark)
{
    append_mark(emitter, mark, true);
}

void yaml_emitter_close(struct yaml_emitter *emitter, const char *mark)
{
    append_mark(emitter, mark, false);
    emitter->is_margin = false;
}

static void break_line(struct yaml_emitter *emitter)
{
    append(emitter, "\n", 1, 0);
    emitter->column = 0;
    emitter->has_blank = true;
    emitter->is_margin = true;
}

void yaml_emitter_line(struct yaml_emitter *emitter)
{
    size_t indent = emitter->indent;

    if (!emitter->is_margin || emitter->column > indent ||
        (emitter->column == indent && !emitter->has_blank))
        break_line(emitter);
    if (emitter->column < indent)
        emitter->has_blank = true;
    while (emitter->column < indent)
        append_ascii(emitter, " ");
}

/* Goes on with a scalar on the next line. */
static void fold(struct yaml_emitter *emitter)
{
    yaml_emitter_line(emitter);
    emitter->has_blank = false;
    emitter->is_margin = false;
}

/* ---- scalars ---- */

static size_t count_characters(const char *bytes, size_t size)
{
    size_t count = 0;

    for (size_t i = 0; i < size; i++)
        count += ((unsigned char) bytes[i] & 0xc0) != 0x80;
    return count;
}

/* How often the byte stands there. */
static size_t run_of(char byte, const char *bytes, size_t size)
{
    size_t length = 0;

    while (length < size && bytes[length] == byte)
        length++;
    return length;
}

static size_t run_of_others(const char *bytes, size_t size)
{
    size_t length = 0;

    while (length < size && bytes[length] != ' ' && bytes[length] != '\n' && bytes[length] != '\'')
        length++;
    return length;
}

/* Blanks: one alone inside of a text may become the end of a line. */
static size_t write_blanks(struct yaml_emitter *emitter, const char *bytes, size_t left,
                           bool may_fold)
{
    size_t run = run_of(' ', bytes, left);

    if (may_fold && run == 1 && left > 1 && emitter->column > WIDTH)
        fold(emitter);
    else
        append(emitter, bytes, run, run);
    return run;
}

/* Line ends: one more than there are, since folding takes one away. */
static size_t write_breaks(struct yaml_emitter *emitter, const char *bytes, size_t left)
{
    size_t run = run_of('\n', bytes, left);

    for (size_t i = 0; i <= run; i++)
        break_line(emitter);
    yaml_emitter_line(emitter);
    return run;
}

/* Plain text, or what stands between single quotes: `quote` is empty or one of them. */
static void write_folded(struct yaml_emitter *emitter, const char *quote, const char *bytes,
                         size_t size, bool is_key)
{
    yaml_emitter_mark(emitter, quote);
    for (size_t at = 0; at < size;) {
        const char *here = bytes + at;
        size_t left = size - at;
        size_t run = run_of_others(here, left);

        append(emitter, here, run, count_characters(here, run));
        if (run > 0) {
            at += run;
        } else if (*here == ' ') {
            at += write_blanks(emitter, here, left, !is_key && at > 0);
        } else if (*here == '\n') {
            at += write_breaks(emitter, here, left);
        } else {
            append_ascii(emitter, "'");
            append_ascii(emitter, quote);
            at++;
        }
    }
    if (*quote)
        yaml_emitter_close(emitter, quote);
}

static void append_escape(struct yaml_emitter *emitter, uint32_t character)
{
    static const struct {
        uint32_t character;
        char name;
    } names[] = {
        {0, '0'},     {0x07, 'a'}, {0x08, 'b'},   {0x09, 't'},   {0x0a, 'n'},
        {0x0b, 'v'},  {0x0c, 'f'}, {0x0d, 'r'},   {0x1b, 'e'},   {'"', '"'},
        {'\\', '\\'}, {0x85, 'N'}, {0x2028, 'L'}, {0x2029, 'P'},
    };
    const char *format = character <= 0xff     ? "\\x%02X"
                         : character <= 0xffff ? "\\u%04X"
                                               : "\\U%08X";
    char escape[12];

    (void) snprintf(escape, sizeof escape, format, (unsigned) character);
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        if (names[i].character == character)
            (void) snprintf(escape, sizeof escape, "\\%c", names[i].name);
    }
    append_ascii(emitter, escape);
}

/* The state of writing between double quotes. */
struct quoting {
    const char *bytes;
    size_t start;   /* what is not written yet begins here */
    size_t pending; /* its characters */
};

static void flush(struct yaml_emitter *emitter, struct quoting *quoting, size_t end)
{
    if (end > quoting->start)
        append(emitter, quoting->bytes + quoting->start, end - quoting->start, quoting->pending);
    quoting->start = end;
    quoting->pending = 0;
}

/* Ends the line with a backslash, behind which blanks at the next one's start do not count. */
static void fold_quoted(struct yaml_emitter *emitter, const struct quoting *quoting)
{
    append_ascii(emitter, "\\");
    fold(emitter);
    if (quoting->bytes[quoting->start] == ' ')
        append_ascii(emitter, "\\");
}

static void write_double(struct yaml_emitter *emitter, const char *bytes, size_t size, bool is_key)
{
    struct quoting quoting = {.bytes = bytes};
    size_t length = 0;

    yaml_emitter_mark(emitter, "\"");
    for (size_t at = 0; at < size; at += length) {
        uint32_t character = yaml_style_decode(bytes + at, size - at, &length);
        bool is_escaped = yaml_style_is_escaped(character);
        size_t column = emitter->column + quoting.pending;

        if (is_escaped) {
            flush(emitter, &quoting, at);
            append_escape(emitter, character);
            quoting.start = at + length;
            column = emitter->column - 1;
        }
        if (!is_key && at > 0 && at + length < size && (character == ' ' || quoting.start >= at) &&
            column > WIDTH) {
            if (!is_escaped)
                flush(emitter, &quoting, at);
            fold_quoted(emitter, &quoting);
        }
        if (!is_escaped)
            quoting.pending++;
    }
    flush(emitter, &quoting, size);
    yaml_emitter_close(emitter, "\"");
}

void yaml_emitter_scalar(struct yaml_emitter *emitter, enum yaml_style style, const char *bytes,
                         size_t size, bool is_key)
{
    emitter->indent += YAML_EMITTER_INDENT;
    switch (style) {
    case YAML_STYLE_PLAIN:
        write_folded(emitter, "", bytes, size, is_key);
        break;
    case YAML_STYLE_SINGLE:
        write_folded(emitter, "'", bytes, size, is_key);
        break;
    case YAML_STYLE_DOUBLE:
        write_double(emitter, bytes, size, is_key);
        break;
    }
    emitter->indent -= YAML_EMITTER_INDENT;
}

void yaml_emitter_block(struct yaml_emitter *emitter, const char *bytes, size_t size)
{
    emitter->indent += YAML_EMITTER_INDENT;
    yaml_emitter_mark(emitter, "|");
    break_line(emitter);
    for (size_t at = 0; at < size; at += BLOCK_WIDTH) {
        size_t length = size - at < BLOCK_WIDTH ? size - at : BLOCK_WIDTH;
        yaml_emitter_line(emitter);
        append(emitter, bytes + at, length, length);
        break_line(emitter);
    }
    emitter->indent -= YAML_EMITTER_INDENT;
}
