/* call.h -- what http.c asks of the calls it carries. */
#ifndef SYNOD_STORE_HTTP_CALL_H
#define SYNOD_STORE_HTTP_CALL_H

#include "store/http/http.h"

/* Keeps one line of an answer's head. False when the head becomes too large. */
bool http_call_take_header(struct http_call *c, const char *line, size_t n);

#endif
