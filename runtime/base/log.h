/* log.h -- one log event as one line: text for people, or a JSON object for programs.
 *
 *     struct log log = {.format = LOG_TEXT, .level = LOG_INFO, .instance = "barrier_IN_0"};
 *     struct log_line line;
 *     log_begin(&line, &log, LOG_INFO, world_wall(w), "main", "all are ready", 13);
 *     log_field_text(&line, "name", "start", 5);
 *     log_end(&line);        line.text ends with a newline
 *     log_line_release(&line);
 *
 *     2026-01-02 15:04:05.123Z INFO  barrier_IN_0 all are ready name=start
 *     {"time":"2026-01-02T15:04:05.123Z","level":"info","instance":"barrier_IN_0","task":"main",
 *      "message":"all are ready","fields":{"name":"start"}}
 *
 * A line is never longer than LOG_LINE_MAX: what does not fit is cut, and the line says so. It is
 * always one line: control characters are escaped. Bytes that are no UTF-8 become U+FFFD in JSON.
 */
#ifndef SYNOD_BASE_LOG_H
#define SYNOD_BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/instant.h"

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };
enum log_format { LOG_TEXT, LOG_JSON };
enum { LOG_LINE_MAX = 64 * 1024, LOG_INSTANCE_MAX = 128 };

struct log {
    enum log_format format;
    enum log_level level; /* what is below it is not shown */
    bool color;
    bool prefixed; /* a supervisor puts the instance before each line: text need not have it */
    char instance[LOG_INSTANCE_MAX]; /* may be empty */
};

struct log_line {
    const struct log *log;
    struct buf text;
    size_t fields; /* how many there are */
    size_t keep;   /* length up to which all is whole; what follows is cut if it does not fit */
    bool cut;
};

bool log_level_parse(const char *name, enum log_level *level);
bool log_format_parse(const char *name, enum log_format *format);
void log_time(int64_t wall, char out[INSTANT_TEXT_MAX]); /* as lines in JSON have it */

void log_begin(struct log_line *line, const struct log *log, enum log_level level, int64_t wall,
               const char *task, const char *message, size_t len);
void log_field_text(struct log_line *line, const char *name, const char *value, size_t len);
/* A value that is written the same in both formats: a number, true, false, null, or JSON. */
void log_field_plain(struct log_line *line, const char *name, const char *value);
void log_end(struct log_line *line);
void log_line_release(struct log_line *line);

/* Appends a JSON string, quotes included. */
void log_json_text(struct buf *out, const char *s, size_t len);

#endif
