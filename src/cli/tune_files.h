/* cli/tune_files.h: the files of `headway tune` and what they say of the machine. Main thread. */
#ifndef HEADWAY_CLI_TUNE_FILES_H
#define HEADWAY_CLI_TUNE_FILES_H

#include "load/tune.h"

/* Makes the folder (one level) if it is not there, and writes a file in it to see that it can. */
status tune_folder_open(const char *folder, error *err);
/* curves.json, steps.json, curves.html, headway.conf: each written beside its place and renamed into it. */
status tune_files_write(const char *folder, const tune_report *r, const tune_setting *settings, error *err);
/* "AMD EPYC ..., 2 threads, avx512". */
void tune_machine_name(char *out, size_t size, uint32_t threads, const char *kernels);

#endif
