#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "base/buf.h"
#include "base/json.h"
#include "bench/abba_priv.h"

enum { OUTPUT_MAX = 1 << 22 };
static const double SPREAD_MOST = 0.05, ALLOWED_LEAST = 0.02, ACCEPTANCE_LOSS = 0.02;

static double disagreement(double x, double y)
{
    double least = x < y ? x : y;
    return least > 0 ? fabs(x - y) / least : INFINITY;
}

abba_metric abba_judge(const char *name, const double r[ABBA_ROUNDS])
{
    abba_metric m = {.a = (r[0] + r[3]) / 2, .b = (r[1] + r[2]) / 2};
    snprintf(m.name, sizeof m.name, "%s", name);
    memcpy(m.rounds, r, sizeof m.rounds);
    double of_a = disagreement(r[0], r[3]), of_b = disagreement(r[1], r[2]);
    m.spread = of_a > of_b ? of_a : of_b;
    m.allowed = 2 * m.spread > ALLOWED_LEAST ? 2 * m.spread : ALLOWED_LEAST;
    m.change = m.a > 0 ? m.b / m.a - 1 : INFINITY;
    m.verdict = !(m.spread <= SPREAD_MOST) ? ABBA_INCONCLUSIVE
                : m.change > m.allowed     ? ABBA_FAIL
                                           : ABBA_PASS;
    return m;
}

static bool read_hash(const json *v, uint64_t *out)
{
    str text;
    if (!json_to_str(v, &text) || text.len == 0 || text.len > 16) return false;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
        if (digit < 0) return false;
        *out = *out << 4 | (uint64_t)digit;
    }
    return true;
}

static bool read_metric(const json *v, scenario_metric *m)
{
    str name;
    const json *samples = json_get(v, "samples");
    *m = (scenario_metric){0};
    if (!json_is(v, JSON_OBJECT) || !json_to_str(json_get(v, "name"), &name)) return false;
    if (!json_is(samples, JSON_ARRAY) || samples->n < 1 || samples->n > SCENARIO_SAMPLES_MAX)
        return false;
    snprintf(m->name, sizeof m->name, "%.*s", STR_ARG(name));
    for (const json *s = samples->first; s; s = s->next)
        if (!json_to_double(s, &m->samples[m->n++])) return false;
    return read_hash(json_get(v, "output"), &m->output);
}

status abba_parse(arena *a, str text, scenario_record *out, err *e)
{
    const json *v;
    *out = (scenario_record){0};
    TRY(json_parse(a, text, "record", JSON_DEPTH_DEFAULT, 0, &v, e));
    const json *metrics = json_is(v, JSON_OBJECT) ? json_get(v, "metrics") : NULL;
    if (!json_is(metrics, JSON_ARRAY) || metrics->n < 1 || metrics->n > SCENARIO_METRICS_MAX ||
        !json_to_int64(json_get(v, "drafted"), &out->drafted) ||
        !json_to_int64(json_get(v, "accepted"), &out->accepted))
        return err_set(e, ERR_INVALID, "record", -1,
                       "is not one of `riptide bench backend --json`");
    for (const json *m = metrics->first; m; m = m->next)
        if (!read_metric(m, &out->metrics[out->n++]))
            return err_set(e, ERR_INVALID, "record", m->pos,
                           "a metric wants name, samples, output");
    const json *failures = json_get(v, "failures");
    if (json_is(failures, JSON_ARRAY)) out->n_failures = failures->n;
    return ERR_OK;
}

static double acceptance(const scenario_record *a, const scenario_record *b)
{
    int64_t drafted = a->drafted + b->drafted;
    return drafted > 0 ? (double)(a->accepted + b->accepted) / (double)drafted : -1;
}

/* The four rounds' i-th metric; their outputs are equal. */
static status compare_metric(const scenario_record *r, int i, abba_result *out, err *e)
{
    double values[ABBA_ROUNDS];
    for (int k = 0; k < ABBA_ROUNDS; k++) {
        const scenario_metric *m = &r[k].metrics[i];
        if (strcmp(m->name, r[0].metrics[i].name) != 0)
            return err_set(e, ERR_INVALID, "rounds", -1, "\"%s\" is \"%s\" in another round",
                           r[0].metrics[i].name, m->name);
        values[k] = scenario_median(m->samples, m->n);
        if (m->output != r[0].metrics[i].output) out->has_same_output = false;
    }
    abba_metric *m = &out->metrics[out->n++];
    *m = abba_judge(r[0].metrics[i].name, values);
    out->n_failed += m->verdict == ABBA_FAIL;
    out->n_inconclusive += m->verdict == ABBA_INCONCLUSIVE;
    return ERR_OK;
}

status abba_compare(const scenario_record r[ABBA_ROUNDS], bool expects_change, abba_result *out,
                    err *e)
{
    *out = (abba_result){.has_same_output = true};
    bool holds = true;
    for (int k = 0; k < ABBA_ROUNDS; k++) {
        if (r[k].n != r[0].n)
            return err_set(e, ERR_INVALID, "rounds", -1, "%d metrics and %d", r[0].n, r[k].n);
        holds = holds && r[k].n_failures == 0;
    }
    for (int i = 0; i < r[0].n; i++) TRY(compare_metric(r, i, out, e));
    out->acceptance[0] = acceptance(&r[0], &r[3]);
    out->acceptance[1] = acceptance(&r[1], &r[2]);
    bool is_right = expects_change ? out->acceptance[1] >= out->acceptance[0] - ACCEPTANCE_LOSS
                                   : out->has_same_output;
    out->passed = holds && is_right && out->n_failed + out->n_inconclusive == 0;
    return ERR_OK;
}

status abba_round(arena *a, const char *command, scenario_record *out, err *e)
{
    buf text;
    FILE *f = popen(command, "r");
    if (!f) return err_set(e, ERR_IO, command, -1, "cannot be run");
    buf_init(&text);
    char part[4096];
    for (size_t n; (n = fread(part, 1, sizeof part, f)) > 0;)
        if (text.len < OUTPUT_MAX) buf_put(&text, part, n);
    int code = pclose(f);
    const char *copy = arena_copy(a, text.ptr, text.len);
    str all = {copy, text.len};
    buf_fini(&text);
    if (!copy) return err_set(e, ERR_NOMEM, "round", -1, "its output");
    /* An invariant that was not kept ends it with 1, and is in the record. */
    if (code == -1 || !WIFEXITED(code) || WEXITSTATUS(code) > 1 || all.len == 0)
        return err_set(e, ERR_IO, command, -1, "failed");
    return abba_parse(a, all, out, e);
}
