/* template: a model's chat template: compiled once, rendered for every request.
 *
 * The language is Jinja2 3.1 as Hugging Face uses it: ImmutableSandboxedEnvironment with
 * trim_blocks, lstrip_blocks and loop controls, its `tojson` (json.dumps), `raise_exception`,
 * `strftime_now` and the `generation` block. Output is byte for byte that of Python, with these
 * limits: no include, import, extends, block or autoescape; no random, pprint, urlize, wordwrap,
 * striptags and xmlattr filters; integers beyond 64 bits are printed but not computed with;
 * list.pop and list.clear are refused as in newer versions.
 *
 * Numbers of the input are printed as Python prints what json.loads made of them: integers of any
 * size keep their digits (-0 becomes 0), plain decimals such as 1.0 or 0.25 keep theirs, other
 * spellings become the shortest one (1e5 is 100000.0, 1.10 is 1.1).
 *
 * Thread: a template does not change after open, so any number of threads may render with it. */
#ifndef RIPTIDE_CHAT_TEMPLATE_H
#define RIPTIDE_CHAT_TEMPLATE_H

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"

typedef struct template template;

/* A run of output bytes of one origin. Template bytes were written in the template (or are the
 * bos and eos strings); all others came with the messages, tools or variables. Only a special
 * token that lies in template bytes alone may be taken as one. */
typedef struct {
    size_t offset, len;
    bool is_template;
} segment;

/* Ascending, without gaps, alternating in origin. Owned; segments_fini leaves zeros. */
typedef struct {
    segment *ptr; /* [n] */
    int64_t n;
} segments;
void segments_init(segments *s);
void segments_fini(segments *s);

/* What a rendering reads; everything is borrowed for the call. */
typedef struct {
    const json *messages;     /* array */
    const json *tools;        /* array, or NULL: None for the template */
    const json *documents;    /* array, or NULL */
    const json *kwargs;       /* object of further variables, or NULL; its strings are input */
    str bos_token, eos_token; /* ptr NULL: undefined for the template */
    bool add_generation_prompt;
    int64_t now_s; /* Unix time for strftime_now, 0 for the clock */
} template_input;

/* Whom a template takes system text from, what it calls efforts, and so on: found out by rendering
 * small conversations at open. */
typedef struct {
    bool has_system;           /* a leading system message is rendered */
    bool has_later_system;     /* … and one further down, at its place */
    bool has_developer;        /* the role `developer` is known, not just echoed */
    bool has_tools;            /* tools appear in the output */
    bool has_reasoning;        /* reasoning_content of the last assistant turn appears */
    bool wants_text_arguments; /* tool_calls[].function.arguments must be a string of JSON */
    bool wants_null_content;   /* tool calls appear only when content is null */
    bool merges_users;         /* two user messages in a row are refused */
    bool starts_thinking;      /* the generation prompt ends with an open <think> */
    unsigned efforts;          /* TEMPLATE_EFFORT_ bits that render without error */
} template_caps;
enum {
    TEMPLATE_EFFORT_MINIMAL = 1,
    TEMPLATE_EFFORT_LOW = 2,
    TEMPLATE_EFFORT_MEDIUM = 4,
    TEMPLATE_EFFORT_HIGH = 8,
    TEMPLATE_EFFORT_XHIGH = 16,
    TEMPLATE_EFFORT_MAX = 32,
};

/* Compile `source` (copied). `name` is for messages and is copied too.
 *
 * Returns  FORMAT for a syntax error, UNSUPPORTED for a tag, filter or test that does not exist
 *          here, LIMIT for one too large or too deep, NOMEM; err.where is `name`, err.pos the byte
 *          offset (line ends counted as \n), the message starts "line L column C:"
 * Owns     the caller closes *t */
status template_open(template **t, str source, const char *name, err *e);
void template_close(template *t); /* NULL is fine */

const template_caps *template_get_caps(const template *t);

/* Append the rendered prompt to `out`, and its segments (offsets count from where `out` ended) to
 * `parts`, which may be NULL and is overwritten otherwise.
 *
 * Returns  FORMAT when the template refuses its input (the message is that of raise_exception) or
 *          cannot work with it; INVALID for a variable that is named like an argument; LIMIT for
 *          too much output, work or memory; NOMEM. On failure nothing was changed. */
status template_render(const template *t, const template_input *in, buf *out, segments *parts,
                       err *e);

#endif
