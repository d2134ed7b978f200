/* library.h -- libcurl, libcrypto, libxml2 and jansson, loaded when something first needs them.
 *
 * Linking them would cost every start more than all the rest of it (thirty libraries behind libcurl), so
 * a script that stays on the embedded store never sees them. The table below is the only list of what is
 * used of them; the types come from their own headers, in the one file that may include each:
 *
 *     struct curl { LIBRARY_CURL_FUNCTIONS(LIBRARY_POINTER) };
 *     static const char *const SYMBOLS[] = {LIBRARY_CURL_FUNCTIONS(LIBRARY_SYMBOL)};
 *     library_load(LIBRARY_CURL, SYMBOLS, sizeof SYMBOLS / sizeof *SYMBOLS, &curl, err)
 *     curl.curl_easy_init()
 *
 * A library once loaded stays until the process ends.
 */
#ifndef SYNOD_STORE_LIBRARY_H
#define SYNOD_STORE_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/* X(enum, soname, Debian package) */
#define LIBRARY_LIST(X)                                                                            \
    X(CURL, "libcurl.so.4", "libcurl4")                                                            \
    X(CRYPTO, "libcrypto.so.3", "libssl3")                                                         \
    X(XML, "libxml2.so.2", "libxml2")                                                              \
    X(JSON, "libjansson.so.4", "libjansson4")

#define LIBRARY_ENUM(name, soname, package) LIBRARY_##name,
enum library { LIBRARY_LIST(LIBRARY_ENUM) LIBRARY_COUNT };
#undef LIBRARY_ENUM

#define LIBRARY_CURL_FUNCTIONS(X)                                                                  \
    X(curl_easy_cleanup)                                                                           \
    X(curl_easy_getinfo)                                                                           \
    X(curl_easy_init)                                                                              \
    X(curl_easy_setopt)                                                                            \
    X(curl_easy_strerror)                                                                          \
    X(curl_global_init)                                                                            \
    X(curl_multi_add_handle)                                                                       \
    X(curl_multi_cleanup)                                                                          \
    X(curl_multi_info_read)                                                                        \
    X(curl_multi_init)                                                                             \
    X(curl_multi_remove_handle)                                                                    \
    X(curl_multi_setopt)                                                                           \
    X(curl_multi_socket_action)

#define LIBRARY_CRYPTO_FUNCTIONS(X)                                                                \
    X(EVP_MAC_CTX_free)                                                                            \
    X(EVP_MAC_CTX_new)                                                                             \
    X(EVP_MAC_fetch)                                                                               \
    X(EVP_MAC_final)                                                                               \
    X(EVP_MAC_free)                                                                                \
    X(EVP_MAC_init)                                                                                \
    X(EVP_MAC_update)                                                                              \
    X(OPENSSL_cleanse)

#define LIBRARY_XML_FUNCTIONS(X)                                                                   \
    X(xmlFreeTextReader)                                                                           \
    X(xmlReaderForMemory)                                                                          \
    X(xmlTextReaderConstLocalName)                                                                 \
    X(xmlTextReaderConstValue)                                                                     \
    X(xmlTextReaderDepth)                                                                          \
    X(xmlTextReaderMoveToAttribute)                                                                \
    X(xmlTextReaderMoveToElement)                                                                  \
    X(xmlTextReaderIsEmptyElement)                                                                 \
    X(xmlTextReaderNodeType)                                                                       \
    X(xmlTextReaderRead)                                                                           \
    X(xmlTextReaderSetErrorHandler)

#define LIBRARY_JSON_FUNCTIONS(X)                                                                  \
    X(json_array_get)                                                                              \
    X(json_array_size)                                                                             \
    X(json_delete)                                                                                 \
    X(json_integer_value)                                                                          \
    X(json_loadb)                                                                                  \
    X(json_object_get)                                                                             \
    X(json_object_iter)                                                                            \
    X(json_object_iter_key)                                                                        \
    X(json_object_iter_next)                                                                       \
    X(json_object_iter_value)                                                                      \
    X(json_real_value)                                                                             \
    X(json_string_length)                                                                          \
    X(json_string_value)

#define LIBRARY_POINTER(function) __typeof__(function) *function;
#define LIBRARY_SYMBOL(function) #function,

/* Fills `pointers` (a struct of function pointers, in the order of `symbols`). False, with an ERR that
 * says what to install, when the library or one of its functions is missing. */
bool library_load(enum library which, const char *const *symbols, size_t count, void *pointers,
                  struct error *err);

#endif
