/* core/yaml_surrogate.h: halves of surrogate pairs behind the back of libyaml, and back again. */
#include "core/yaml_surrogate.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static enum status hide(const char *text, struct yaml_surrogate *ret, struct error *error)
{
    return yaml_surrogate_hide(text, strlen(text), ret, error);
}

Test(yaml_surrogate, a_text_without_any_is_taken_as_it_is)
{
    AUTO_YAML_SURROGATE struct yaml_surrogate surrogate = {0};

    cr_expect_eq(hide("\"\\u0041 and \\u00\"", &surrogate, NULL), STATUS_OK);
    cr_expect(surrogate.bytes == NULL);
}

/* The one that is taken stands for its escape, and for nothing that was there before. */
Test(yaml_surrogate, a_stand_in_is_one_that_the_text_has_not)
{
    AUTO_YAML_SURROGATE struct yaml_surrogate surrogate = {0};
    char digits[8];

    cr_assert_eq(hide("\"\\ud83d \\uf8d0 \\uF8D1 \xef\xa3\x92\"", &surrogate, NULL), STATUS_OK);
    cr_expect(surrogate.stand_in > 0xf8d2 && surrogate.stand_in <= 0xf8df);
    (void) snprintf(digits, sizeof digits, "\\u%04x", surrogate.stand_in);
    cr_expect(strstr(surrogate.bytes, digits) != NULL);
}

Test(yaml_surrogate, a_text_that_has_all_of_them_is_refused)
{
    AUTO_YAML_SURROGATE struct yaml_surrogate surrogate = {0};
    struct error error = {0};
    char text[256] = "\\udc00";

    for (unsigned i = 0; i < 16; i++) {
        size_t used = strlen(text);
        (void) snprintf(text + used, sizeof text - used, " \\uf8d%x", i);
    }
    cr_expect_eq(hide(text, &surrogate, &error), STATUS_CORRUPT);
    cr_expect_str_eq(error.message, "too many private characters");
    cr_expect(surrogate.bytes == NULL);
}
