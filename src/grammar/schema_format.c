/* Written from RFC 3339 (dates, durations), 4122 (uuid), 2673 and 4291 (addresses), 1123 (host
 * names), 5321 (mail), 3986 (URIs), 6901 (pointers). A subset where the whole is not regular or not
 * worth it: leap seconds only at 23:59:60 UTC; the length of a whole host name is not limited. */
#include "grammar/schema_format_priv.h"

#define DIGIT2 "[0-9]{2}"
#define LEAP "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)"
#define DATE                                                       \
    "(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])" \
    "|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))|" LEAP "-02-29)"
#define HOUR "(?:[01][0-9]|2[0-3])"
#define ZONE "(?:[Zz]|[+-]" HOUR ":[0-5][0-9])"
#define TIME                                               \
    "(?:" HOUR ":[0-5][0-9]:[0-5][0-9](?:\\.[0-9]+)?" ZONE \
    "|23:59:60(?:\\.[0-9]+)?(?:[Zz]|[+-]00:00))"
#define BYTE "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
#define IPV4 "(?:" BYTE "\\." BYTE "\\." BYTE "\\." BYTE ")"
#define H16 "[0-9A-Fa-f]{1,4}"
#define LS32 "(?:" H16 ":" H16 "|" IPV4 ")"
#define IPV6                                                                                     \
    "(?:(?:" H16 ":){6}" LS32 "|::(?:" H16 ":){5}" LS32 "|(?:" H16 ")?::(?:" H16 ":){4}" LS32    \
    "|(?:(?:" H16 ":){0,1}" H16 ")?::(?:" H16 ":){3}" LS32 "|(?:(?:" H16 ":){0,2}" H16           \
    ")?::(?:" H16 ":){2}" LS32 "|(?:(?:" H16 ":){0,3}" H16 ")?::" H16 ":" LS32 "|(?:(?:" H16     \
    ":){0,4}" H16 ")?::" LS32 "|(?:(?:" H16 ":){0,5}" H16 ")?::" H16 "|(?:(?:" H16 ":){0,6}" H16 \
    ")?::)"
/* a label: "??--" only in front of an encoded name, whose code is not checked */
#define LABEL                                                                   \
    "(?:[A-Za-z0-9]|[A-Za-z0-9][A-Za-z0-9]|[A-Za-z0-9][A-Za-z0-9-][A-Za-z0-9]|" \
    "[A-Za-z0-9][A-Za-z0-9-](?:[A-Za-z0-9][A-Za-z0-9-]|-[A-Za-z0-9])"           \
    "(?:[A-Za-z0-9-]{0,58}[A-Za-z0-9])?|[Xx][Nn]--(?:[A-Za-z0-9-]{0,58}[A-Za-z0-9]))"
#define SHORT_LABEL "(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?)"
#define HOST "(?:" LABEL "(?:\\." LABEL ")*)"
#define ATEXT "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
#define PCT "%[0-9A-Fa-f]{2}"
#define UCHAR "[A-Za-z0-9._~!$&'()*+,;=-]"
#define PCHAR "(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|" PCT ")"
#define QUERY "(?:[A-Za-z0-9._~!$&'()*+,;=:@/?-]|" PCT ")*"
#define AUTHORITY                                                  \
    "(?:(?:[A-Za-z0-9._~!$&'()*+,;=:-]|" PCT ")*@)?(?:\\[(?:" IPV6 \
    "|[vV][0-9A-Fa-f]+\\.[A-Za-z0-9._~!$&'()*+,;=:-]+)\\]|(?:" UCHAR "|" PCT ")*)(?::[0-9]*)?"
#define SEGMENTS "(?:/" PCHAR "*)*"
#define HIER "(?://" AUTHORITY SEGMENTS "|/(?:" PCHAR "+" SEGMENTS ")?|" PCHAR "+" SEGMENTS "|)"
#define NO_COLON "(?:[A-Za-z0-9._~!$&'()*+,;=@-]|" PCT ")+"
#define RELATIVE "(?://" AUTHORITY SEGMENTS "|/(?:" PCHAR "+" SEGMENTS ")?|" NO_COLON SEGMENTS "|)"
#define TAIL "(?:\\?" QUERY ")?(?:#" QUERY ")?"
#define URI "[A-Za-z][A-Za-z0-9+.-]*:" HIER TAIL
#define POINTER "(?:/(?:[^/~]|~[01])*)*"
#define DAY_TIME "T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S)"
#define DURATION                                                                  \
    "P(?:[0-9]+W|(?:[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?|[0-9]+M(?:[0-9]+D)?|[0-9]+D)" \
    "(?:" DAY_TIME ")?|" DAY_TIME ")"
#define HEX "[0-9A-Fa-f]"

const char *schema_format_pattern(str name)
{
    static const struct {
        const char *name, *pattern;
    } formats[] = {
        {"date", "^" DATE "$"},
        {"time", "^" TIME "$"},
        {"date-time", "^" DATE "[Tt]" TIME "$"},
        {"duration", "^" DURATION "$"},
        {"uuid", "^" HEX "{8}-" HEX "{4}-" HEX "{4}-" HEX "{4}-" HEX "{12}$"},
        {"ipv4", "^" IPV4 "$"},
        {"ipv6", "^" IPV6 "$"},
        {"hostname", "^" HOST "$"},
        {"email",
         "^(?:" ATEXT "(?:\\." ATEXT ")*|\"(?:[ !#-\\[\\]-~]|\\\\[ -~])*\")@(?:" SHORT_LABEL
         "(?:\\." SHORT_LABEL ")*|\\[" IPV4 "\\]|\\[IPv6:" IPV6 "\\])$"},
        {"uri", "^" URI "$"},
        {"uri-reference", "^(?:" URI "|" RELATIVE TAIL ")$"},
        {"json-pointer", "^" POINTER "$"},
        {"relative-json-pointer", "^(?:0|[1-9][0-9]*)(?:#|" POINTER ")$"},
    };
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (str_is(name, formats[i].name)) return formats[i].pattern;
    return NULL;
}
