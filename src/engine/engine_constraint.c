/* What the tokens of a sequence may be: made when it is submitted. */
#include "engine/engine_priv.h"

/* e->constraints, with what grammars need if asked; made at the first call. */
static status prepare(engine *e, bool has_grammar, constraint_vocab **out, err *err_out)
{
    mutex_lock(&e->constraint_lock);
    constraint_model m = {.v = tokenizer_vocab(e->tok),
                          .V = e->info.V,
                          .eos = e->info.eos,
                          .n_eos = e->info.n_eos,
                          .reasoning_end = tokenizer_find_added(e->tok, STR("</think>"))};
    status s = e->constraints ? ERR_OK : constraint_vocab_open(&e->constraints, &m, err_out);
    if (s == ERR_OK && has_grammar) s = constraint_vocab_need_tokens(e->constraints, err_out);
    *out = e->constraints;
    mutex_unlock(&e->constraint_lock);
    return s;
}

status engine_prepare_grammars(engine *e, err *err_out)
{
    constraint_vocab *v;
    return prepare(e, true, &v, err_out);
}

status engine_constrain(engine *e, sequence *s, err *err_out)
{
    const request *r = s->req;
    constraint_vocab *v;
    constraint_wish w = {.grammar = r->grammar,
                         .starts_in_reasoning = r->starts_in_reasoning,
                         .reasoning_most = r->reasoning_most,
                         .ends_loops = r->ends_loops};
    bool limits_reasoning = r->reasoning_most >= 0 || r->ends_loops;
    if (!r->grammar && !(r->starts_in_reasoning && limits_reasoning)) return ERR_OK;
    TRY(prepare(e, r->grammar != NULL, &v, err_out));
    return constraint_open(&s->constraint, v, &w, OPS_ROWS_MAX, err_out);
}
