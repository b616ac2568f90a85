/* jinja_lex: template text to tokens, white space control included. */
#ifndef RIPTIDE_CHAT_JINJA_LEX_PRIV_H
#define RIPTIDE_CHAT_JINJA_LEX_PRIV_H

#include "chat/jinja_ast_priv.h"

typedef enum {
    JTOKEN_EOF,
    JTOKEN_DATA,
    JTOKEN_VAR_BEGIN,
    JTOKEN_VAR_END,
    JTOKEN_BLOCK_BEGIN,
    JTOKEN_BLOCK_END,
    JTOKEN_NAME,
    JTOKEN_STRING,
    JTOKEN_INT,
    JTOKEN_FLOAT,
    JTOKEN_ADD,
    JTOKEN_SUB,
    JTOKEN_DIV,
    JTOKEN_FLOORDIV,
    JTOKEN_MUL,
    JTOKEN_MOD,
    JTOKEN_POW,
    JTOKEN_TILDE,
    JTOKEN_LBRACKET,
    JTOKEN_RBRACKET,
    JTOKEN_LPAREN,
    JTOKEN_RPAREN,
    JTOKEN_LBRACE,
    JTOKEN_RBRACE,
    JTOKEN_EQ,
    JTOKEN_NE,
    JTOKEN_GT,
    JTOKEN_GE,
    JTOKEN_LT,
    JTOKEN_LE,
    JTOKEN_ASSIGN,
    JTOKEN_DOT,
    JTOKEN_COLON,
    JTOKEN_PIPE,
    JTOKEN_COMMA,
    JTOKEN_SEMICOLON,
} jtoken_type;

typedef struct {
    uint8_t type;
    int32_t pos;
    int32_t name;      /* NAME: its number */
    const jtext *text; /* DATA, STRING: decoded; INT, FLOAT: as written without underscores */
} jtoken;

/* The whole source as tokens in `a`, ending with EOF; names go to `names`. */
status jlex_tokens(arena *a, const jsource *src, jnames *names, const jtoken **tokens);

/* "end of print statement" and the like, for messages. */
const char *jtoken_describe(jtoken_type t);

#endif
