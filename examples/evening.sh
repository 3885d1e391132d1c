#!/usr/bin/env bash
# An evening for a warehouse: refresh the formats, merge old partitions in the quiet hours, remove expired backups.
#
#   evening.sh TABLES LOGS [OPTION...]
#
# TABLES  a file with the name of one table per line, followed by the options that only this table needs:
#             sales.orders --publish location
#             sales.refunds
# LOGS    a folder for what the run of each table says: TABLE.json and TABLE.log
# OPTION  is given to every `packstone compact`: --min-age 1d --between "19:00-06:00 Europe/Berlin"
#
# PACKSTONE_METASTORE and PACKSTONE_HISTORY are the URLs of the databases, PACKSTONE_METASTORE_PASSWORD_FILE and
# PACKSTONE_HISTORY_PASSWORD_FILE name the files with their passwords. A table that is refused or in use is reported and left
# for the next evening. The exit code is 1 if a table failed, was merged only in part, or its run was killed; the next run
# recovers what a killed run left.
set -uo pipefail

[ $# -ge 2 ] || { echo "usage: evening.sh TABLES LOGS [OPTION...]" >&2; exit 2; }
tables=$1 logs=$2
shift 2
mkdir -p "$logs" || exit 2
began=$(date -u +%Y-%m-%dT%H:%M:%S+00:00)
code=0

why() { tail -n 1 "$logs/$1.log" | grep . || echo "see $logs/$1.json"; }

packstone formats refresh </dev/null || code=1

while read -r -a words; do
    [ ${#words[@]} -gt 0 ] || continue
    name=${words[0]}
    packstone compact "${words[@]}" "$@" --format json </dev/null >"$logs/$name.json" 2>"$logs/$name.log"
    case $? in
        0) ;;
        3) echo "left alone: $name: $(why "$name")" ;;
        *) echo "failed: $name: $(why "$name")"; code=1 ;;
    esac
done <"$tables"

packstone clean --all --yes </dev/null || code=1
packstone history --since "$began" --limit 1000 </dev/null || code=1
exit $code
