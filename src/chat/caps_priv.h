/* caps: what a template can do, found out by rendering small conversations with marked words. */
#ifndef RIPTIDE_CHAT_CAPS_PRIV_H
#define RIPTIDE_CHAT_CAPS_PRIV_H

#include "chat/template.h"

/* Only memory can fail: a template that refuses a conversation lacks that ability. */
status caps_probe(const template *t, template_caps *out, err *e);

#endif
