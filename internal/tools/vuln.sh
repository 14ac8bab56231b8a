#!/bin/sh
# Looks for known vulnerabilities in what the binary really calls.
#
#   vuln.sh GOVULNCHECK
#
# Where the vulnerability database cannot be reached nothing was checked. This
# says so in words and succeeds, since the code is not at fault.
out=$("$1" ./... 2>&1)
code=$?
printf '%s\n' "$out"
[ $code -eq 0 ] && exit 0
case $out in
*"fetching vulnerabilities"*"no such host"* | *"fetching vulnerabilities"*"dial tcp"* | *"fetching vulnerabilities"*"timeout"*)
	echo "vuln: NOT CHECKED: the vulnerability database cannot be reached from this machine."
	exit 0
	;;
esac
exit $code
