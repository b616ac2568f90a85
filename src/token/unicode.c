#include "token/unicode_priv.h"

#include "token/unicode_tables.inc"

const int unicode_n_added = sizeof unicode_added / sizeof unicode_added[0];
