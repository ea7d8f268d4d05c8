/* cli/commands.h: the subcommands of `headway`, one file each. Each gets argv from its own name on and returns the exit
 * code. */
#ifndef HEADWAY_CLI_COMMANDS_H
#define HEADWAY_CLI_COMMANDS_H

int serve_main(int argc, char **argv);
int chat_main(int argc, char **argv);
int inspect_main(int argc, char **argv);
int tokenize_main(int argc, char **argv);
int render_main(int argc, char **argv);
int synth_main(int argc, char **argv);
int bench_main(int argc, char **argv);
int tune_main(int argc, char **argv);
int plan_main(int argc, char **argv);
int simulate_main(int argc, char **argv);
int hash_key_main(int argc, char **argv);

#endif
