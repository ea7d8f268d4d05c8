/* server/heads.h: what can be said of a request by its head alone. Loop thread. */
#ifndef HEADWAY_SERVER_HEADS_H
#define HEADWAY_SERVER_HEADS_H

#include "server/connection.h"

bool head_is_json(span content_type); /* none at all counts */
/* Browsers ask before they let a page call us. */
void head_answer_options(connection *c, const http_head *head, const char *data, const char *allow);

#endif
