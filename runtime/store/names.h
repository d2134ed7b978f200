/* names.h -- what the service lets things be called.
 *
 * A name that it forbids is the caller's mistake and raised before anything is sent. Each function
 * gives NULL for an allowed name and otherwise says what is wrong with it.
 */
#ifndef SYNOD_STORE_NAMES_H
#define SYNOD_STORE_NAMES_H

#include <stddef.h>

/* 3 to 63 of a-z, 0-9 and '-', no '-' at either end or twice in a row; or "$root", "$web", "$logs". */
const char *name_fault_container(const char *name, size_t len);
/* The same without the three. */
const char *name_fault_queue(const char *name, size_t len);
/* 1 to 1024 characters of UTF-8 without control characters or backslashes; no part between slashes is
 * "." or ".."; it ends neither in a dot nor in a slash. */
const char *name_fault_blob(const char *name, size_t len);
/* A letter or '_', then letters, digits and '_'. */
const char *name_fault_metadata(const char *name, size_t len);
/* 3 to 63 letters and digits, a letter first; not "tables". */
const char *name_fault_table(const char *name, size_t len);
/* What XML can carry: UTF-8 without control characters (but tab, line feed, carriage return), U+FFFE and
 * U+FFFF. */
const char *text_fault_xml(const char *text, size_t len);
/* What may stand in a header: printable ASCII, no blank at either end. */
const char *name_fault_value(const char *value, size_t len);

#endif
