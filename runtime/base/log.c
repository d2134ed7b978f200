#include "base/log.h"

#include <stdio.h>
#include <string.h>

#include "base/instant.h"
#include "base/utf8.h"

enum { TAIL_MAX = 128, FRACTION_DIGITS = 3, LEVELS = 4 };

static const char *const NAMES[LEVELS] = {"debug", "info", "warn", "error"};
static const char *const LABELS[LEVELS] = {"DEBUG", "INFO ", "WARN ", "ERROR"};
static const char *const COLORS[LEVELS] = {"\033[2m", "\033[32m", "\033[33m", "\033[31m"};
static const char *const PLAIN = "\033[0m";
static const char *const FAINT = "\033[2m";

bool log_level_parse(const char *name, enum log_level *level) {
    for (int i = 0; i < LEVELS; i++) {
        if (strcmp(NAMES[i], name) == 0) {
            *level = (enum log_level)i;
            return true;
        }
    }
    return false;
}

bool log_format_parse(const char *name, enum log_format *format) {
    *format = strcmp(name, "json") == 0 ? LOG_JSON : LOG_TEXT;
    return *format == LOG_JSON || strcmp(name, "text") == 0;
}

static const char *short_escape(unsigned char c) {
    switch (c) {
    case '"':
        return "\\\"";
    case '\\':
        return "\\\\";
    case '\n':
        return "\\n";
    case '\r':
        return "\\r";
    case '\t':
        return "\\t";
    default:
        return NULL;
    }
}

static void put_escaped(struct buf *out, unsigned char c) {
    const char *s = short_escape(c);
    if (s) {
        buf_puts(out, s);
    } else if (c < 0x20 || c == 0x7F) {
        buf_printf(out, "\\u%04x", (unsigned)c);
    } else {
        buf_putc(out, (char)c);
    }
}

void log_json_text(struct buf *out, const char *s, size_t len) {
    const unsigned char *p = (const unsigned char *)s;
    buf_putc(out, '"');
    for (size_t i = 0; i < len && !out->failed;) {
        size_t n = utf8_length(p + i, len - i);
        if (n == 0) {
            buf_puts(out, "\xEF\xBF\xBD");
            n = 1;
        } else if (n == 1) {
            put_escaped(out, p[i]);
        } else {
            buf_append(out, p + i, n);
        }
        i += n;
    }
    buf_putc(out, '"');
}

static bool is_word(const char *s, size_t len) {
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)s[i];
        if (c <= ' ' || c == '"' || c == '=' || c == '\\' || c == 0x7F) {
            return false;
        }
    }
    return len > 0;
}

/* Text for people: as it is, but for what would break the line or steer the terminal. */
static void put_shown(struct buf *out, const char *s, size_t len) {
    for (size_t i = 0; i < len && !out->failed; i++) {
        unsigned char c = (unsigned char)s[i];
        if (c < 0x20 || c == 0x7F) {
            put_escaped(out, c);
        } else {
            buf_putc(out, (char)c);
        }
    }
}

/* Keeps what was written since `keep` when it fits, else takes all of it back. */
static void settle(struct log_line *line) {
    if (!line->text.failed) {
        line->keep = line->text.len;
        return;
    }
    line->cut = true;
    line->text.failed = false;
    line->text.len = line->keep;
}

/* A text that may be longer than the line: half of the line is room enough. */
static size_t fitting(size_t len) {
    enum { MESSAGE_MAX = LOG_LINE_MAX / 8 };
    return len < MESSAGE_MAX ? len : MESSAGE_MAX;
}

void log_time(int64_t wall, char out[INSTANT_TEXT_MAX]) {
    instant_iso(wall, FRACTION_DIGITS, out);
}

static void begin_json(struct log_line *line, enum log_level level, int64_t wall, const char *task,
                       const char *message, size_t len) {
    struct buf *out = &line->text;
    char time[INSTANT_TEXT_MAX];
    log_time(wall, time);
    buf_printf(out, "{\"time\":\"%s\",\"level\":\"%s\"", time, NAMES[level]);
    if (line->log->instance[0]) {
        buf_puts(out, ",\"instance\":");
        log_json_text(out, line->log->instance, strlen(line->log->instance));
    }
    if (task) {
        buf_puts(out, ",\"task\":");
        log_json_text(out, task, fitting(strlen(task)));
    }
    buf_puts(out, ",\"message\":");
    log_json_text(out, message, fitting(len));
}

static void begin_text(struct log_line *line, enum log_level level, int64_t wall,
                       const char *message, size_t len) {
    struct buf *out = &line->text;
    char time[INSTANT_TEXT_MAX];
    log_time(wall, time);
    bool color = line->log->color;
    buf_printf(out, "%s%.10s %.13s%s %s%s%s", color ? FAINT : "", time, time + sizeof "2006-01-02",
               color ? PLAIN : "", color ? COLORS[level] : "", LABELS[level], color ? PLAIN : "");
    if (line->log->instance[0] && !line->log->prefixed) {
        buf_printf(out, " %s", line->log->instance);
    }
    buf_putc(out, ' ');
    put_shown(out, message, fitting(len));
}

void log_begin(struct log_line *line, const struct log *log, enum log_level level, int64_t wall,
               const char *task, const char *message, size_t len) {
    memset(line, 0, sizeof *line);
    line->log = log;
    line->cut = len != fitting(len);
    buf_init(&line->text, LOG_LINE_MAX - TAIL_MAX);
    if (log->format == LOG_JSON) {
        begin_json(line, level, wall, task, message, len);
    } else {
        begin_text(line, level, wall, message, len);
    }
    settle(line);
}

static void field_name(struct log_line *line, const char *name) {
    struct buf *out = &line->text;
    size_t len = fitting(strlen(name));
    if (line->log->format == LOG_JSON) {
        buf_puts(out, line->fields == 0 ? ",\"fields\":{" : ",");
        log_json_text(out, name, len);
        buf_putc(out, ':');
        return;
    }
    buf_putc(out, ' ');
    buf_puts(out, line->log->color ? FAINT : "");
    put_shown(out, name, len);
    buf_putc(out, '=');
    buf_puts(out, line->log->color ? PLAIN : "");
}

static void field_done(struct log_line *line) {
    bool fits = !line->text.failed;
    settle(line);
    if (fits) {
        line->fields++;
    }
}

void log_field_text(struct log_line *line, const char *name, const char *value, size_t len) {
    field_name(line, name);
    if (line->log->format == LOG_TEXT && is_word(value, len)) {
        buf_append(&line->text, value, len);
    } else {
        log_json_text(&line->text, value, len);
    }
    field_done(line);
}

void log_field_plain(struct log_line *line, const char *name, const char *value) {
    field_name(line, name);
    buf_puts(&line->text, value);
    field_done(line);
}

void log_end(struct log_line *line) {
    line->text.max = LOG_LINE_MAX;
    bool json = line->log->format == LOG_JSON;
    if (json && line->fields > 0) {
        buf_putc(&line->text, '}');
    }
    if (line->cut) {
        buf_puts(&line->text, json ? ",\"cut\":true" : " ... (cut: it is too long)");
    }
    buf_puts(&line->text, json ? "}\n" : "\n");
}

void log_line_release(struct log_line *line) {
    buf_release(&line->text);
}
