/* screen.c - terminals: colours, widths, and text made harmless. */
#include "ipc/cli/screen.h"

#include <langinfo.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <wchar.h>

#define WIDTH_DEFAULT 80
#define WIDTH_MIN 20
#define HEIGHT_DEFAULT 24
#define HEIGHT_MIN 4
#define ROOM_MIN 10    /* for wrapped text */
#define ESCAPE_BYTES 8 /* \u202e and a NUL */

static const char *const style_codes[] = {
    [STYLE_PLAIN] = "",        [STYLE_STRONG] = "\033[1m",   [STYLE_FAINT] = "\033[2m",
    [STYLE_GOOD] = "\033[32m", [STYLE_WARNING] = "\033[33m", [STYLE_BAD] = "\033[1;31m",
    [STYLE_KEY] = "\033[36m",
};

/* Widths need a UTF-8 locale, and the texts are UTF-8 whatever the user's locale says. */
static void set_locale(void)
{
    if (setlocale(LC_CTYPE, "") && strcmp(nl_langinfo(CODESET), "UTF-8") == 0)
        return;
    (void) setlocale(LC_CTYPE, "C.UTF-8");
}

/* What the environment says, else the terminal, else the default. */
static size_t find_extent(const char *name, unsigned short of_terminal, size_t least, size_t usual)
{
    const char *text = getenv(name);
    unsigned long extent = text ? strtoul(text, NULL, 10) : 0;

    if (extent == 0)
        extent = of_terminal;
    if (extent == 0 || extent > 10000)
        return usual;
    return extent < least ? least : extent;
}

static void find_size(struct screen *screen)
{
    struct winsize size;

    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0)
        size = (struct winsize){0};
    screen->width = find_extent("COLUMNS", size.ws_col, WIDTH_MIN, WIDTH_DEFAULT);
    screen->height = find_extent("LINES", size.ws_row, HEIGHT_MIN, HEIGHT_DEFAULT);
}

void screen_setup(struct screen *screen, const char *color)
{
    const char *no_color = getenv("NO_COLOR");
    const char *term = getenv("TERM");

    set_locale();
    screen->is_terminal = isatty(STDOUT_FILENO) == 1;
    screen->can_redraw = screen->is_terminal && term && strcmp(term, "dumb") != 0;
    find_size(screen);
    if (strcmp(color, "auto") == 0)
        screen->has_color = screen->can_redraw && !(no_color && *no_color);
    else
        screen->has_color = strcmp(color, "always") == 0;
}

const char *screen_style(const struct screen *screen, enum style style)
{
    return screen->has_color ? style_codes[style] : "";
}

const char *screen_end(const struct screen *screen)
{
    return screen->has_color ? "\033[0m" : "";
}

/* Decodes one character; malformed bytes count one by one, as (wchar_t) -1. */
static wchar_t decode(const char *bytes, size_t size, size_t *ret_length)
{
    mbstate_t state = {0};
    wchar_t character;
    size_t length = mbrtowc(&character, bytes, size, &state);

    if (length == (size_t) -1 || length == (size_t) -2) {
        *ret_length = 1;
        return (wchar_t) -1;
    }
    *ret_length = length == 0 ? 1 : length;
    return character;
}

/* Controls, and what reorders or hides the text around it. */
static bool is_harmful(wchar_t character)
{
    return character == (wchar_t) -1 || (character >= 0 && character < 0x20) ||
           (character >= 0x7f && character < 0xa0) || character == 0x061c ||
           (character >= 0x200e && character <= 0x200f) ||
           (character >= 0x2028 && character <= 0x202e) ||
           (character >= 0x2066 && character <= 0x2069) || character == 0xfeff;
}

static size_t put_escape(char *at, wchar_t character, char byte)
{
    int size;

    if (character == '\n')
        size = snprintf(at, ESCAPE_BYTES, "\\n");
    else if (character == '\t')
        size = snprintf(at, ESCAPE_BYTES, "\\t");
    else if (character >= 0x80)
        size = snprintf(at, ESCAPE_BYTES, "\\u%04x", (unsigned) character & 0xffff);
    else
        size = snprintf(at, ESCAPE_BYTES, "\\x%02x", (unsigned) (unsigned char) byte);
    return size > 0 ? (size_t) size : 0;
}

enum line_ends { LINE_ENDS_KEPT, LINE_ENDS_SPACES, LINE_ENDS_ESCAPED };

static char *make_harmless(const char *bytes, size_t size, enum line_ends line_ends)
{
    char *copy = malloc(size * ESCAPE_BYTES + 1); /* the worst case; freed soon */
    char *at = copy;
    size_t length;

    if (!copy)
        return NULL;
    for (size_t i = 0; i < size; i += length) {
        wchar_t character = decode(bytes + i, size - i, &length);
        bool is_break = character == '\n' || character == '\t';
        if (is_break && line_ends != LINE_ENDS_ESCAPED) {
            *at++ = (char) (line_ends == LINE_ENDS_KEPT ? bytes[i] : ' ');
        } else if (is_harmful(character)) {
            at += put_escape(at, character, bytes[i]);
        } else {
            memcpy(at, bytes + i, length);
            at += length;
        }
    }
    *at = '\0';
    return copy;
}

char *screen_line(const char *bytes, size_t size, bool for_people)
{
    return make_harmless(bytes, size, for_people ? LINE_ENDS_SPACES : LINE_ENDS_ESCAPED);
}

char *screen_block(const char *bytes, size_t size)
{
    return make_harmless(bytes, size, LINE_ENDS_KEPT);
}

size_t screen_fit(const char *text, size_t columns, size_t *ret_columns)
{
    size_t size = strlen(text);
    size_t used = 0;
    size_t length;
    size_t i = 0;

    for (; i < size; i += length) {
        int width = wcwidth(decode(text + i, size - i, &length));
        size_t wanted = width < 0 ? 1 : (size_t) width; /* unknown to this libc: most take one */
        if (used + wanted > columns)
            break;
        used += wanted;
    }
    *ret_columns = used;
    return i;
}

size_t screen_width(const char *text)
{
    size_t columns;

    (void) screen_fit(text, (size_t) -1 / 2, &columns);
    return columns;
}

/* The bytes that go into a line of `room` columns, and how many are to be skipped behind them. */
static size_t break_line(const char *text, size_t room, size_t *ret_skip)
{
    size_t used;
    size_t size = screen_fit(text, room, &used);
    size_t end = size;

    *ret_skip = 0;
    if (text[size] == '\0')
        return size;
    while (end > 0 && text[end] != ' ')
        end--;
    if (end == 0) { /* one long word; at least a character goes on */
        size_t length;
        (void) decode(text, strlen(text), &length);
        return size > 0 ? size : length;
    }
    *ret_skip = 1;
    return end;
}

void screen_wrap(FILE *file, const char *text, size_t indent, size_t width)
{
    size_t room = width > indent + ROOM_MIN ? width - indent : ROOM_MIN;
    size_t skip;

    for (bool is_first = true; is_first || *text; is_first = false) {
        size_t size = break_line(text, room, &skip);
        (void) fprintf(file, "%*s%.*s\n", is_first ? 0 : (int) indent, "", (int) size, text);
        text += size + skip;
    }
}
