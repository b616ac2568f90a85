#include "load/load.h"

status load_check_pair(const arch_target *t, const arch_draft *d, err *e)
{
    const char *where = "draft";
    if (d->E != t->E)
        return err_set(e, ERR_INVALID, where, -1, "hidden_size is %d, the target's is %d", d->E,
                       t->E);
    if (d->V != t->V)
        return err_set(e, ERR_INVALID, where, -1, "vocab_size is %d, the target's is %d", d->V,
                       t->V);
    if (d->n_target_layers != 0 && d->n_target_layers != t->n_layers)
        return err_set(e, ERR_INVALID, where, -1, "num_target_layers is %d, the target has %d",
                       d->n_target_layers, t->n_layers);
    if (d->lacks_rope && d->rope_theta != t->rope_theta)
        return err_set(e, ERR_INVALID, where, -1,
                       "names no rope base, and the target's is %g, not the usual %g: made by an "
                       "older converter?",
                       t->rope_theta, d->rope_theta);
    for (int i = 0; i < d->n_taps; i++)
        if (d->taps[i] < 0 || d->taps[i] >= t->n_layers)
            return err_set(e, ERR_INVALID, where, -1,
                           "target_layer_ids names layer %d, the target has %d", d->taps[i],
                           t->n_layers);
    if (d->mask_id < 0 || d->mask_id >= t->V)
        return err_set(e, ERR_INVALID, where, -1, "mask_token_id is %d, the target has %d tokens",
                       d->mask_id, t->V);
    return ERR_OK;
}

/* A piece of the vocabulary, not one of the names that converters give to what is not used. */
static bool is_plain(const load_tokenizer *t, int i)
{
    return t->types[i] == 1;
}

status load_check_vocabulary(const load_model *target, const load_model *draft, err *e)
{
    const load_tokenizer *t = &target->tokenizer, *d = &draft->tokenizer;
    for (int i = 0; i < t->n_pieces && i < d->n_pieces; i++)
        if (is_plain(t, i) && is_plain(d, i) && !str_equal(t->pieces[i], d->pieces[i]))
            return err_set(e, ERR_INVALID, "draft", -1,
                           "token %d is '%.*s', the target's is '%.*s': of another vocabulary", i,
                           d->pieces[i].len > 40 ? 40 : (int)d->pieces[i].len, d->pieces[i].ptr,
                           t->pieces[i].len > 40 ? 40 : (int)t->pieces[i].len, t->pieces[i].ptr);
    return ERR_OK;
}
