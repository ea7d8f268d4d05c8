/* base/log.h: one line to stderr, with level and seconds since the first line. Thread-safe: one write per line. */
#ifndef HEADWAY_BASE_LOG_H
#define HEADWAY_BASE_LOG_H

typedef enum { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR } log_level;

void log_set_level(log_level lowest); /* default LOG_INFO */
void log_line(log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define log_debug(...) log_line(LOG_DEBUG, __VA_ARGS__)
#define log_info(...) log_line(LOG_INFO, __VA_ARGS__)
#define log_warn(...) log_line(LOG_WARN, __VA_ARGS__)
#define log_error(...) log_line(LOG_ERROR, __VA_ARGS__)

#endif
