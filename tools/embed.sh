#!/bin/sh
# tools/embed.sh FILE...: prints C that holds the files as the table of src/server/dashboard/assets.h. POSIX tools only.
set -eu
export LC_ALL=C
echo '/* Made by tools/embed.sh. */'
echo '#include "server/dashboard/assets.h"'
number=0
for file in "$@"; do
    echo "static const unsigned char data$number[] = {"
    od -An -v -tu1 "$file" | sed -e 's/[0-9][0-9]*/&,/g' -e 's/ //g'
    echo '};'
    number=$((number + 1))
done
echo 'const asset dashboard_assets[] = {'
number=0
for file in "$@"; do
    tag=$(cksum <"$file" | tr ' ' '-')
    echo "    {\"$(basename "$file")\", \"\\\"$tag\\\"\", data$number, sizeof data$number},"
    number=$((number + 1))
done
echo '};'
echo 'const size_t dashboard_asset_count = sizeof dashboard_assets / sizeof *dashboard_assets;'
