/* sim/sim_settings.h: the numbers of a sim_config by name, for command lines and script files. Any thread. */
#ifndef HEADWAY_SIM_SIM_SETTINGS_H
#define HEADWAY_SIM_SIM_SETTINGS_H

#include "sim/sim_runner.h"

status sim_settings_set(sim_config *config, const char *key, double value, error *err);
status sim_settings_parse(sim_config *config, const char *text, error *err); /* "key=value,key=value" */

#endif
