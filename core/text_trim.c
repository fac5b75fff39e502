#include "core/text_trim.h"

#include "core/text.h"

bool text_is_space(uint32_t code_point)
{
    return (code_point >= 0x09 && code_point <= 0x0d) ||
           (code_point >= 0x1c && code_point <= 0x20) || code_point == 0x85 || code_point == 0xa0 ||
           code_point == 0x1680 || (code_point >= 0x2000 && code_point <= 0x200a) ||
           code_point == 0x2028 || code_point == 0x2029 || code_point == 0x202f ||
           code_point == 0x205f || code_point == 0x3000;
}

void text_trim(const char **bytes, size_t *size)
{
    size_t length = 0;

    while (*size > 0 && text_is_space(text_decode(*bytes, *size, &length))) {
        *bytes += length;
        *size -= length;
    }
    while (*size > 0) {
        size_t last = text_cut(*bytes, *size, *size - 1);
        bool is_space = text_is_space(text_decode(*bytes + last, *size - last, &length));
        if (!is_space || last + length < *size) /* stray bytes follow */
            break;
        *size = last;
    }
}
