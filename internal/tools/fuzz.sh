#!/bin/sh
# Tries every fuzz test.
#
#   fuzz.sh TIME
#
# TIME is what go test takes as -fuzztime: a duration, or a number of inputs.
# Two run at a time, because half of it is building each test with instruments.
# What a test found is told when it has ended, so that the two do not mix.
if [ $# -eq 3 ]; then
	told=$(go test -run '^$' -fuzz "^$2\$" -fuzztime "$1" -parallel 1 "$3" 2>&1) || { echo "$told"; exit 255; } # xargs stops
	echo "$2 $(echo "$told" | tail -1)"
	exit
fi
grep -rHEo --include='*_test.go' '^func Fuzz[A-Za-z0-9_]+' internal |
	sed 's|^\(.*\)/[^/]*:func \(.*\)|\2 ./\1|' |
	xargs -P 2 -L 1 sh "$0" "$1"
