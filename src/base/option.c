#include "base/option.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/asserts.h"

enum { NAME_CAP = 96 };

/* Where a value came from, for errors: "--port" or "RIPTIDE_PORT". */
typedef struct {
    const char *name;
    err *e;
} origin;

static status fail_value(origin from, const char *text, const char *want)
{
    return err_set(from.e, ERR_INVALID, from.name, -1, "\"%s\" is not %s", text, want);
}

static status fail_range(origin from, const char *text, const option_row *row)
{
    return err_set(from.e, ERR_INVALID, from.name, -1, "%s is outside %.15g to %.15g", text,
                   row->min, row->max);
}

static bool word_among(const char *word, const char *words)
{
    size_t n = strlen(word);
    for (const char *at = words;; at++) {
        size_t len = strcspn(at, "|");
        if (len == n && memcmp(at, word, n) == 0) return true;
        at += len;
        if (!*at) return false;
    }
}

static bool parse_flag(const char *text, bool *out)
{
    if (word_among(text, "1|true|yes|on")) {
        *out = true;
        return true;
    }
    if (word_among(text, "0|false|no|off")) {
        *out = false;
        return true;
    }
    return false;
}

/* "64K", "21G", "1.5GiB", "4096": the factor of the suffix, or 0. */
static double size_factor(str suffix)
{
    static const char *const letters = "KMGT";
    if (suffix.len == 0 || str_is(suffix, "B")) return 1;
    const char *letter = memchr(letters, toupper((unsigned char)suffix.ptr[0]), 4);
    str rest = str_skip(suffix, 1);
    if (!letter || !(rest.len == 0 || str_is(rest, "B") || str_is(rest, "iB"))) return 0;
    return ldexp(1, 10 * (int)(letter - letters + 1));
}

static bool parse_size(const char *text, int64_t *out)
{
    str s = str_from(text);
    size_t n = 0;
    while (n < s.len && (isdigit((unsigned char)s.ptr[n]) || s.ptr[n] == '.')) n++;
    double number, factor = size_factor(str_skip(s, n));
    if (factor == 0 || !str_to_double(str_slice(s, 0, n), &number)) return false;
    number *= factor;
    if (number >= 0x1p63 || number != floor(number)) return false;
    *out = (int64_t)number;
    return true;
}

/* Check `text` for the row and, when `stores`, put it into the row's target. */
static status set_value(const option_row *row, const char *text, origin from, bool stores)
{
    union {
        bool flag;
        int64_t integer;
        uint64_t seed;
        double number;
    } v;
    switch (row->type) {
    case OPTION_FLAG:
        if (!parse_flag(text, &v.flag)) return fail_value(from, text, "true or false");
        if (stores) *(bool *)row->target = v.flag;
        break;
    case OPTION_INT:
    case OPTION_SIZE:
        if (row->type == OPTION_INT && !str_to_int64(str_from(text), &v.integer))
            return fail_value(from, text, "a whole number");
        if (row->type == OPTION_SIZE && !parse_size(text, &v.integer))
            return fail_value(from, text, "a size such as 4096, 64K or 1.5G");
        if ((double)v.integer < row->min || (double)v.integer > row->max)
            return fail_range(from, text, row);
        if (stores) *(int64_t *)row->target = v.integer;
        break;
    case OPTION_DOUBLE:
        if (!str_to_double(str_from(text), &v.number)) return fail_value(from, text, "a number");
        if (v.number < row->min || v.number > row->max) return fail_range(from, text, row);
        if (stores) *(double *)row->target = v.number;
        break;
    case OPTION_SEED:
        if (!str_to_uint64(str_from(text), &v.seed))
            return fail_value(from, text, "a whole number from 0 to 2^64 - 1");
        if (stores) *(uint64_t *)row->target = v.seed;
        break;
    case OPTION_CHOICE:
        if (!word_among(text, row->choices))
            return err_set(from.e, ERR_INVALID, from.name, -1, "\"%s\" is none of %s", text,
                           row->choices);
        if (stores) *(const char **)row->target = text;
        break;
    case OPTION_TEXT:
        if (stores) *(const char **)row->target = text;
        break;
    }
    if (stores && row->was_set) *row->was_set = true;
    return ERR_OK;
}

static const option_row *find_row(const option_row *rows, str name)
{
    for (const option_row *r = rows; r->name; r++)
        if (str_is(name, r->name)) return r;
    return NULL;
}

/* The row that --name or --no-name means; *is_negated tells which. */
static const option_row *find_flag(const option_row *rows, str name, bool *is_negated)
{
    *is_negated = false;
    const option_row *row = find_row(rows, name);
    if (row || !str_starts(name, STR("no-"))) return row;
    row = find_row(rows, str_skip(name, 3));
    if (!row || row->type != OPTION_FLAG) return NULL;
    *is_negated = true;
    return row;
}

/* One pass over argv. Checks everything; stores only when told, so that an error leaves all
 * targets as they were. */
typedef struct {
    const option_row *rows;
    int argc;
    char **argv;
    const char **rest;
    int max_rest, n_rest;
    bool stores, wants_help;
    err *e;
} walk;

static status take_positional(walk *w, const char *text)
{
    if (!w->rest || w->n_rest == w->max_rest)
        return err_set(w->e, ERR_INVALID, text, -1, "unexpected argument; see --help");
    if (w->stores) w->rest[w->n_rest] = text;
    w->n_rest++;
    return ERR_OK;
}

/* At argv[*i], which begins with "--"; moves *i over a value that stands apart. */
static status take_flag(walk *w, int *i)
{
    const char *arg = w->argv[*i] + 2, *equals = strchr(arg, '=');
    str name = {arg, equals ? (size_t)(equals - arg) : strlen(arg)};
    char shown[NAME_CAP];
    snprintf(shown, sizeof shown, "--%.*s", STR_ARG(name));
    origin from = {shown, w->e};

    bool is_negated;
    const option_row *row = find_flag(w->rows, name, &is_negated);
    if (!row) return err_set(w->e, ERR_INVALID, shown, -1, "unknown option; see --help");
    if (row->type == OPTION_FLAG && !equals)
        return set_value(row, is_negated ? "false" : "true", from, w->stores);
    if (is_negated) return err_set(w->e, ERR_INVALID, shown, -1, "takes no value");
    if (!equals && *i + 1 >= w->argc) return err_set(w->e, ERR_INVALID, shown, -1, "needs a value");
    const char *text = equals ? equals + 1 : w->argv[++*i];
    return set_value(row, text, from, w->stores);
}

static status walk_argv(walk *w)
{
    w->n_rest = 0;
    bool is_ended = false;
    for (int i = 1; i < w->argc; i++) {
        const char *arg = w->argv[i];
        if (is_ended || arg[0] != '-' || arg[1] == '\0') {
            TRY(take_positional(w, arg));
        } else if (strcmp(arg, "--") == 0) {
            is_ended = true;
        } else if (strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0) {
            w->wants_help = true;
            return ERR_OK;
        } else if (arg[1] != '-') {
            return err_set(w->e, ERR_INVALID, arg, -1, "unknown option; see --help");
        } else {
            TRY(take_flag(w, &i));
        }
    }
    return ERR_OK;
}

/* RIPTIDE_MAX_CONTEXT for max-context. */
static void env_name(const char *name, char out[NAME_CAP])
{
    int n = snprintf(out, NAME_CAP, "RIPTIDE_%s", name);
    ASSERT(n < NAME_CAP);
    for (char *c = out; *c; c++) *c = *c == '-' ? '_' : (char)toupper((unsigned char)*c);
}

const char *option_env(const char *name, bool is_plain)
{
    char full[NAME_CAP];
    if (is_plain) return getenv(name);
    env_name(name, full);
    return getenv(full);
}

/* A variable set to nothing counts as not set: `RIPTIDE_PORT= riptide serve` is the default. */
static status walk_environment(const option_row *rows, bool stores, err *e)
{
    for (const option_row *r = rows; r->name; r++) {
        char name[NAME_CAP];
        env_name(r->name, name);
        const char *text = getenv(name);
        if (text && *text) TRY(set_value(r, text, (origin){name, e}, stores));
    }
    return ERR_OK;
}

status option_parse(const option_row *rows, int argc, char **argv, const char **rest, int max_rest,
                    int *n_rest, bool *wants_help, err *e)
{
    walk w = {.rows = rows, .argc = argc, .argv = argv, .rest = rest, .max_rest = max_rest, .e = e};
    TRY(walk_argv(&w));
    if (w.wants_help) {
        *wants_help = true;
        return ERR_OK;
    }
    TRY(walk_environment(rows, false, e));
    TRY(walk_environment(rows, true, e));
    w.stores = true;
    TRY(walk_argv(&w));
    if (n_rest) *n_rest = w.n_rest;
    return ERR_OK;
}

static void print_size(int64_t v)
{
    static const char letters[] = "KMGT";
    int power = 0;
    while (power < 4 && v != 0 && v % 1024 == 0) {
        v /= 1024;
        power++;
    }
    printf("%lld", (long long)v);
    if (power > 0) printf("%c", letters[power - 1]);
}

static void print_default(const option_row *row)
{
    const char *text;
    /* A default that is no number of this table is told by the help text itself. */
    if (strstr(row->help, "default")) {
        printf("\n");
        return;
    }
    printf(" (");
    switch (row->type) {
    case OPTION_FLAG: printf("%s", *(bool *)row->target ? "on" : "off"); break;
    case OPTION_INT: printf("%lld", (long long)*(int64_t *)row->target); break;
    case OPTION_SIZE: print_size(*(int64_t *)row->target); break;
    case OPTION_DOUBLE: printf("%.6g", *(double *)row->target); break;
    case OPTION_SEED: printf("%llu", (unsigned long long)*(uint64_t *)row->target); break;
    case OPTION_TEXT:
    case OPTION_CHOICE:
        text = *(const char **)row->target;
        printf("%s", text && *text ? text : "none");
        break;
    }
    printf(")\n");
}

static const char *value_word(const option_row *row)
{
    switch (row->type) {
    case OPTION_FLAG: return "";
    case OPTION_INT: return " N";
    case OPTION_DOUBLE: return " X";
    case OPTION_TEXT: return " TEXT";
    case OPTION_SIZE: return " SIZE";
    case OPTION_SEED: return " SEED";
    case OPTION_CHOICE: return " ";
    }
    return "";
}

void option_print_help(const option_row *rows, const char *usage)
{
    enum { HELP_COLUMN = 30 };
    printf("%s\n\noptions (each also as RIPTIDE_<NAME> in the environment):\n", usage);
    for (const option_row *r = rows; r->name; r++) {
        const char *choices = r->type == OPTION_CHOICE ? r->choices : "";
        int n = printf("  --%s%s%s", r->name, value_word(r), choices);
        if (n >= HELP_COLUMN) {
            printf("\n");
            n = 0;
        }
        printf("%*s%s", HELP_COLUMN - n, "", r->help);
        print_default(r);
    }
    printf("  --help%*sthis text\n", HELP_COLUMN - 8, "");
}
