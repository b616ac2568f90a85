/* A profile as tables for people and as JSON. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "bench/profile_priv.h"
#include "build_id.h"

double profile_floor_ns(const peak *k, double n_bytes, double n_ops)
{
    double read = k->read > 0 ? n_bytes / k->read * 1e9 : 0;
    double math = k->n_ops > 0 ? n_ops / k->n_ops * 1e9 : 0;
    return read > math ? read : math;
}

double profile_table_floor_ns(const peak *k, const stage_table *t)
{
    double sum = 0;
    for (int i = 0; i < t->n; i++) sum += profile_floor_ns(k, t->list[i].n_bytes, t->list[i].n_ops);
    return sum;
}

double profile_phase_floor_ms(const peak *k, const stage_table *t, const char *phase, int n)
{
    double sum = 0;
    for (int i = 0; i < t->n; i++) {
        const stage *s = &t->list[i];
        if (strncmp(s->name, phase, strlen(phase)) == 0)
            sum += profile_floor_ns(k, s->n_bytes, s->n_ops);
    }
    return sum / n * 1e-6;
}

double profile_cycle_ms(const profile_context *x, const profile_decode *d)
{
    return x->p->widths ? d->mean_ms : d->cycle_ms;
}

double profile_net_ns(const profile_context *x, const stage *s)
{
    double net = s->ns - (double)s->n_calls * x->overhead_ns, least = s->ns * 0.02;
    return net > least ? net : least;
}

static int by_time(const void *a, const void *b)
{
    double x = ((const stage *)a)->ns, y = ((const stage *)b)->ns;
    return (x < y) - (x > y);
}

/* ---- people ------------------------------------------------------------------------------- */

/* What the policy was told of one lane's cycles. */
static void print_costs(const width_costs *c)
{
    double one = width_curve_at(&c->draft_one, 1), all = width_curve_at(&c->draft_all, 1);
    printf("one lane's cycle: %.3f ms", width_curve_at(&c->plain, 1));
    for (int w = 1; w <= c->max_draft; w++) {
        double pass = c->max_draft > 1 ? one + (all - one) * (w - 1) / (c->max_draft - 1) : one;
        printf(", %d proposals %.3f", w, width_curve_at(&c->verify, w + 1) + pass);
    }
    printf("\n");
}

void profile_print_head(const profile_context *x)
{
    const backend *b = x->p->b;
    cycle_memory m = cycle_bytes(x->p->c);
    printf("riptide %s, backend %s %s, %d threads, %s\n", RIPTIDE_BUILD_ID, b->name, b->isa,
           b->n_threads, x->peak.machine);
    printf("model %s, draft %s, %s%d proposals a cycle, temperature %g\n", x->r->engine.model,
           cycle_has_draft(x->p->c) ? x->r->engine.draft : "none",
           x->p->widths ? "as many as pay up to " : "", x->r->width, x->r->temperature);
    if (x->p->widths) print_costs(&x->p->widths->costs);
    printf("weights %.3f GB, draft %.3f GB, kv %.3f GB, states %.3f GB\n",
           (double)m.target.weights * 1e-9, (double)m.draft_weights * 1e-9,
           (double)(m.target.kv + m.draft_kv) * 1e-9, (double)m.target.states * 1e-9);
    printf("measured here: read %.1f GB/s, %.2f T operations/s; a waited op %.1f us\n",
           x->peak.read * 1e-9, x->peak.n_ops * 1e-12, x->overhead_ns * 1e-3);
    if (x->peak.copied > 0) printf("copy (read and write) %.1f GB/s\n", x->peak.copied * 1e-9);
}

/* ms, GB and so on of `n` passes become those of one. `net` is without the wait of each call. */
static void print_table(const profile_context *x, const stage_table *t, int n)
{
    stage_table sorted = *t;
    qsort(sorted.list, (size_t)sorted.n, sizeof *sorted.list, by_time);
    printf("  %-46s %6s %9s %9s %9s %9s %8s %6s\n", "stage", "calls", "ms", "net ms", "MB", "GB/s",
           "Gop/s", "floor");
    for (int i = 0; i < sorted.n; i++) {
        const stage *s = &sorted.list[i];
        double net = profile_net_ns(x, s);
        printf("  %-46s %6.0f %9.4f %9.4f %9.3f %9.1f %8.0f %5.0f%%\n", s->name,
               (double)s->n_calls / n, s->ns / n * 1e-6, net / n * 1e-6, s->n_bytes / n * 1e-6,
               s->n_bytes / net, s->n_ops / net,
               100 * profile_floor_ns(&x->peak, s->n_bytes, s->n_ops) / net);
    }
}

static void print_sum(const profile_context *x, const stage_table *t, int n, double whole_ms)
{
    double sum = t->ns / n * 1e-6, waits = (double)t->n_calls * x->overhead_ns / n * 1e-6;
    double floor = profile_table_floor_ns(&x->peak, t) / n * 1e-6;
    printf("  sum %.3f ms, waits %.3f ms, without %.3f ms", sum, waits, sum - waits);
    if (x->peak.read > 0) printf(", bytes alone %.3f ms", t->n_bytes / n / x->peak.read * 1e3);
    if (whole_ms > 0)
        printf("; whole %.3f ms, sum - whole %+.3f ms\n  floor %.3f ms (%.3f GB a pass): %.0f%% "
               "reached\n",
               whole_ms, sum - whole_ms, floor, t->n_bytes / n * 1e-9, 100 * floor / whole_ms);
    else
        printf("; floor %.3f ms\n", floor);
}

void profile_print_prefill(const profile_context *x, const profile_prefill *f)
{
    printf("\nprefill of %ld tokens: %.1f tokens/s (%ld rows in %.1f ms)\n", (long)f->prompt,
           (double)f->n_timed / f->ms * 1e3, (long)f->n_timed, f->ms);
    printf("  one slice of %ld rows at %ld:\n", (long)f->staged_rows, (long)f->staged_pos);
    print_table(x, &f->stages, 1);
    print_sum(x, &f->stages, 1, f->n_timed == f->staged_rows ? f->ms : 0);
}

static void print_part(const char *name, double ms, double whole, double floor)
{
    printf("%s %.3f ms (%.1f%%", name, ms, 100 * ms / whole);
    if (floor > 0) printf(", %.2f x its floor of %.3f ms", ms / floor, floor);
    printf(")");
}

static void print_parts(const profile_context *x, const profile_decode *d)
{
    const profile_parts *p = &d->parts, *one = &d->single;
    if (!d->has_parts) return;
    double draft = profile_phase_floor_ms(&x->peak, &d->stages, "draft ", d->n_staged);
    double context = profile_phase_floor_ms(&x->peak, &d->stages, "context ", d->n_staged);
    print_part("  on one clock: draft", p->draft, p->whole, draft);
    print_part(", context", p->context, p->whole, context);
    print_part(", both", p->draft + p->context, p->whole, draft + context);
    print_part(", target", p->target, p->whole, 0);
    print_part(", the rest", p->rest, p->whole, 0);
    printf("; whole %.3f ms\n  verify of %d rows a lane %.3f ms, of one %.3f ms: x %.3f\n",
           p->whole, x->r->width + 1, p->target + p->rest, one->target + one->rest,
           (p->target + p->rest) / (one->target + one->rest));
}

void profile_print_decode(const profile_context *x, const profile_decode *d)
{
    printf("\ndecode, %d lanes, prompt %ld (context %ld): %.3f ms a cycle (mean %.3f of %d), "
           "%.2f tokens a cycle and lane, %.1f tokens/s, accepted %.0f of %.0f, hash %016llx\n",
           d->lanes, (long)d->prompt, (long)d->context, d->cycle_ms, d->mean_ms, d->n_cycles,
           d->tokens_per_cycle, d->tokens_per_cycle * d->lanes / profile_cycle_ms(x, d) * 1e3,
           d->accepted, d->drafted, (unsigned long long)d->output_hash);
    print_parts(x, d);
    print_table(x, &d->stages, d->n_staged);
    print_sum(x, &d->stages, d->n_staged, d->cycle_ms);
}

/* ---- JSON --------------------------------------------------------------------------------- */

static void put_double(json_writer *w, const char *key, double v)
{
    json_key(w, key);
    json_double(w, v);
}

static void put_int(json_writer *w, const char *key, int64_t v)
{
    json_key(w, key);
    json_int(w, v);
}

static void put_text(json_writer *w, const char *key, const char *v)
{
    json_key(w, key);
    if (v)
        json_c_string(w, v);
    else
        json_null(w);
}

static void put_stages(json_writer *w, const profile_context *x, const stage_table *t, int n)
{
    put_double(w, "stages_ms", t->ns / n * 1e-6);
    put_double(w, "floor_ms", profile_table_floor_ns(&x->peak, t) / n * 1e-6);
    put_double(w, "bytes", t->n_bytes / n);
    put_double(w, "operations", t->n_ops / n);
    json_key(w, "stages");
    json_open_array(w);
    for (int i = 0; i < t->n; i++) {
        const stage *s = &t->list[i];
        double net = profile_net_ns(x, s);
        json_open_object(w);
        put_text(w, "name", s->name);
        put_double(w, "calls", (double)s->n_calls / n);
        put_double(w, "ms", s->ns / n * 1e-6);
        put_double(w, "net_ms", net / n * 1e-6);
        put_double(w, "bytes", s->n_bytes / n);
        put_double(w, "operations", s->n_ops / n);
        put_double(w, "gb_per_s", s->n_bytes / net);
        put_double(w, "share_of_floor", profile_floor_ns(&x->peak, s->n_bytes, s->n_ops) / net);
        json_close_object(w);
    }
    json_close_array(w);
}

static void put_settings(json_writer *w, const profile_context *x)
{
    static const char *const formats[] = {
        [ENGINE_KV_INT8] = "int8", [ENGINE_KV_BF16] = "bf16", [ENGINE_KV_F32] = "f32"};
    const engine_options *o = &x->r->engine;
    cycle_memory m = cycle_bytes(x->p->c);
    json_key(w, "settings");
    json_open_object(w);
    put_text(w, "model", o->model);
    put_text(w, "draft", cycle_has_draft(x->p->c) ? o->draft : NULL);
    if (x->p->widths)
        put_text(w, "draft_rows", "auto");
    else
        put_int(w, "draft_rows", x->r->width);
    put_int(w, "prefill_rows", cycle_prefill_rows(x->p->c));
    put_text(w, "kv_format", formats[o->kv]);
    put_double(w, "temperature", x->r->temperature);
    put_int(w, "weight_bytes", m.target.weights);
    put_int(w, "draft_bytes", m.draft_weights);
    put_int(w, "kv_bytes", m.target.kv);
    put_int(w, "draft_kv_bytes", m.draft_kv);
    put_int(w, "state_bytes", m.target.states);
    json_close_object(w);
    json_key(w, "peak");
    json_open_object(w);
    put_double(w, "read_gb_per_s", x->peak.read * 1e-9);
    put_double(w, "operations_per_s", x->peak.n_ops);
    put_double(w, "copy_gb_per_s", x->peak.copied * 1e-9);
    put_double(w, "waited_op_us", x->overhead_ns * 1e-3);
    json_close_object(w);
}

static void put_prefill(json_writer *w, const profile_context *x, const profile_prefill *f)
{
    json_open_object(w);
    put_int(w, "prompt_tokens", f->prompt);
    put_int(w, "rows", f->n_timed);
    put_double(w, "ms", f->ms);
    put_double(w, "tokens_per_s", (double)f->n_timed / f->ms * 1e3);
    put_int(w, "slice_pos", f->staged_pos);
    put_int(w, "slice_rows", f->staged_rows);
    put_stages(w, x, &f->stages, 1);
    json_close_object(w);
}

static void put_parts(json_writer *w, const char *key, const profile_parts *p)
{
    json_key(w, key);
    json_open_object(w);
    put_double(w, "draft_ms", p->draft);
    put_double(w, "target_ms", p->target);
    put_double(w, "rest_ms", p->rest);
    put_double(w, "context_ms", p->context);
    put_double(w, "whole_ms", p->whole);
    json_close_object(w);
}

static void put_decode(json_writer *w, const profile_context *x, const profile_decode *d)
{
    char hash[24];
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)d->output_hash);
    json_open_object(w);
    put_int(w, "lanes", d->lanes);
    put_int(w, "prompt_tokens", d->prompt);
    put_int(w, "context", d->context);
    put_int(w, "cycles", d->n_cycles);
    put_double(w, "cycle_ms", d->cycle_ms);
    put_double(w, "cycle_mean_ms", d->mean_ms);
    put_double(w, "tokens_per_cycle", d->tokens_per_cycle);
    put_double(w, "tokens_per_s", d->tokens_per_cycle * d->lanes / profile_cycle_ms(x, d) * 1e3);
    put_double(w, "drafted", d->drafted);
    put_double(w, "accepted", d->accepted);
    put_text(w, "output_hash", hash);
    if (d->has_parts) {
        put_parts(w, "parts", &d->parts);
        put_parts(w, "parts_without_proposals", &d->single);
    }
    put_stages(w, x, &d->stages, d->n_staged);
    json_close_object(w);
}

void profile_json(const profile_context *x, const profile_prefill *f, int n_f,
                  const profile_decode *d, int n_d, buf *out)
{
    json_writer w;
    json_writer_init(&w, out);
    json_open_object(&w);
    put_text(&w, "build", RIPTIDE_BUILD_ID);
    put_text(&w, "backend", x->p->b->name);
    put_text(&w, "isa", x->p->b->isa);
    put_int(&w, "threads", x->p->b->n_threads);
    put_text(&w, "machine", x->peak.machine);
    put_settings(&w, x);
    json_key(&w, "prefill");
    json_open_array(&w);
    for (int i = 0; i < n_f; i++) put_prefill(&w, x, &f[i]);
    json_close_array(&w);
    json_key(&w, "decode");
    json_open_array(&w);
    for (int i = 0; i < n_d; i++) put_decode(&w, x, &d[i]);
    json_close_array(&w);
    json_close_object(&w);
    buf_put_byte(out, '\n');
}
