#include "chat/jinja_unicode_priv.h"

#include <utf8proc.h>

#include "base/utf8.h"
#include "chat/jinja_unicode_tables.inc"

#define IN_RANGES(cp, table) in_ranges(cp, table, (int)(sizeof table / sizeof table[0]))

static bool in_ranges(uint32_t cp, const uint32_t (*ranges)[2], int n)
{
    for (int i = 0; i < n && cp >= ranges[i][0]; i++)
        if (cp <= ranges[i][1]) return true;
    return false;
}

static utf8proc_category_t category(uint32_t cp)
{
    return utf8proc_category((utf8proc_int32_t)cp);
}

int junicode_at(str s, size_t pos, uint32_t *cp)
{
    unsigned char c = (unsigned char)s.ptr[pos];
    *cp = c;
    if (c < 0x80) return 1;
    int n = utf8_decode(s, pos, cp);
    if (n > 0) return n;
    *cp = 0xfffd;
    return 1;
}

size_t junicode_before(str s, size_t pos)
{
    size_t at = pos - 1;
    for (int i = 0; i < 3 && at > 0 && ((unsigned char)s.ptr[at] & 0xc0) == 0x80; i++) at--;
    uint32_t cp;
    return at + (size_t)junicode_at(s, at, &cp) == pos ? at : pos - 1;
}

int64_t junicode_count(str s)
{
    int64_t n = 0;
    for (size_t i = 0; i < s.len; i++) n += ((unsigned char)s.ptr[i] & 0xc0) != 0x80;
    return n;
}

size_t junicode_offset(str s, int64_t index)
{
    size_t at = 0;
    uint32_t cp;
    while (index-- > 0 && at < s.len) at += (size_t)junicode_at(s, at, &cp);
    return at;
}

bool junicode_is_space(uint32_t cp)
{
    if (cp < 0x80) return cp == ' ' || (cp >= 9 && cp <= 13) || (cp >= 28 && cp <= 31);
    return cp == 0x85 || cp == 0xa0 || cp == 0x1680 || (cp >= 0x2000 && cp <= 0x200a) ||
           cp == 0x2028 || cp == 0x2029 || cp == 0x202f || cp == 0x205f || cp == 0x3000;
}

bool junicode_is_line_end(uint32_t cp)
{
    return (cp >= 10 && cp <= 13) || (cp >= 28 && cp <= 30) || cp == 0x85 || cp == 0x2028 ||
           cp == 0x2029;
}

bool junicode_is_alpha(uint32_t cp)
{
    if (cp < 0x80) return (cp | 32) >= 'a' && (cp | 32) <= 'z';
    utf8proc_category_t c = category(cp);
    return c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_LO;
}

bool junicode_is_decimal(uint32_t cp)
{
    return category(cp) == UTF8PROC_CATEGORY_ND;
}

bool junicode_is_digit(uint32_t cp)
{
    return junicode_is_decimal(cp) || IN_RANGES(cp, digit_ranges);
}

bool junicode_is_numeric(uint32_t cp)
{
    utf8proc_category_t c = category(cp);
    return (c >= UTF8PROC_CATEGORY_ND && c <= UTF8PROC_CATEGORY_NO) ||
           IN_RANGES(cp, numeric_ranges);
}

bool junicode_is_word(uint32_t cp)
{
    return cp == '_' || junicode_is_alpha(cp) || junicode_is_numeric(cp);
}

bool junicode_is_name_start(uint32_t cp)
{
    return cp == '_' || junicode_is_alpha(cp) ||
           (cp >= 0x80 && category(cp) == UTF8PROC_CATEGORY_NL);
}

bool junicode_is_name(uint32_t cp)
{
    if (cp < 0x80) return cp == '_' || junicode_is_alpha(cp) || (cp >= '0' && cp <= '9');
    if (junicode_is_name_start(cp) || cp == 0xb7 || cp == 0x387) return true;
    utf8proc_category_t c = category(cp);
    return c == UTF8PROC_CATEGORY_MN || c == UTF8PROC_CATEGORY_MC || c == UTF8PROC_CATEGORY_ND ||
           c == UTF8PROC_CATEGORY_PC;
}

bool junicode_is_printable(uint32_t cp)
{
    if (cp < 0x7f) return cp >= ' ';
    utf8proc_category_t c = category(cp);
    return c != UTF8PROC_CATEGORY_CN && !(c >= UTF8PROC_CATEGORY_ZS && c <= UTF8PROC_CATEGORY_CO);
}

bool junicode_is_lower(uint32_t cp)
{
    return category(cp) == UTF8PROC_CATEGORY_LL || IN_RANGES(cp, lower_ranges);
}

bool junicode_is_upper(uint32_t cp)
{
    return category(cp) == UTF8PROC_CATEGORY_LU || IN_RANGES(cp, upper_ranges);
}

bool junicode_is_title(uint32_t cp)
{
    return category(cp) == UTF8PROC_CATEGORY_LT;
}

static int find_special(uint32_t cp, const uint32_t (*table)[4], int n, uint32_t out[3])
{
    int lo = 0, hi = n;
    while (lo < hi) {
        int mid = (lo + hi) / 2;
        if (table[mid][0] < cp)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo == n || table[lo][0] != cp) return 0;
    for (int i = 0; i < 3; i++) out[i] = table[lo][i + 1];
    return out[2] ? 3 : 2;
}

int junicode_upper(uint32_t cp, uint32_t out[3])
{
    int n = cp < 0x80 ? 0
                      : find_special(cp, upper_special,
                                     (int)(sizeof upper_special / sizeof upper_special[0]), out);
    if (n > 0) return n;
    out[0] = (uint32_t)utf8proc_toupper((utf8proc_int32_t)cp);
    return 1;
}

int junicode_title(uint32_t cp, uint32_t out[3])
{
    int n = cp < 0x80 ? 0
                      : find_special(cp, title_special,
                                     (int)(sizeof title_special / sizeof title_special[0]), out);
    if (n > 0) return n;
    out[0] = (uint32_t)utf8proc_totitle((utf8proc_int32_t)cp);
    return 1;
}

static bool is_cased(uint32_t cp)
{
    return junicode_is_lower(cp) || junicode_is_upper(cp) || junicode_is_title(cp);
}

/* Characters that the final-sigma rule looks through (most of Unicode's Case_Ignorable). */
static bool is_case_ignorable(uint32_t cp)
{
    utf8proc_category_t c = category(cp);
    return cp == '\'' || cp == '.' || cp == ':' || cp == '^' || cp == '`' || cp == 0xb7 ||
           cp == 0x2018 || cp == 0x2019 || c == UTF8PROC_CATEGORY_MN || c == UTF8PROC_CATEGORY_ME ||
           c == UTF8PROC_CATEGORY_CF || c == UTF8PROC_CATEGORY_LM || c == UTF8PROC_CATEGORY_SK;
}

/* A capital sigma is final when a cased letter stands before it and none after it. */
static bool is_final_sigma(str s, size_t pos)
{
    uint32_t cp = 0;
    size_t at = pos;
    do {
        if (at == 0) return false;
        at = junicode_before(s, at);
        junicode_at(s, at, &cp);
    } while (is_case_ignorable(cp));
    if (!is_cased(cp)) return false;
    at = pos + 2;
    while (at < s.len) {
        at += (size_t)junicode_at(s, at, &cp);
        if (!is_case_ignorable(cp)) return !is_cased(cp);
    }
    return true;
}

int junicode_lower(str s, size_t pos, uint32_t cp, uint32_t out[3])
{
    if (cp == 0x130) {
        out[0] = 'i';
        out[1] = 0x307;
        return 2;
    }
    out[0] = cp == 0x3a3 && is_final_sigma(s, pos)
                 ? 0x3c2
                 : (uint32_t)utf8proc_tolower((utf8proc_int32_t)cp);
    return 1;
}

int junicode_digit_value(uint32_t cp)
{
    if (cp < 0x80) return cp >= '0' && cp <= '9' ? (int)cp - '0' : -1;
    if (!junicode_is_decimal(cp)) return -1;
    /* Decimal digits stand in runs of ten: the value is the distance to the start of the run. */
    if (cp >= 0x1d7ce && cp <= 0x1d7ff) return (int)(cp - 0x1d7ce) % 10;
    int value = 0;
    while (value < 9 && junicode_is_decimal(cp - (uint32_t)value - 1)) value++;
    return value;
}
