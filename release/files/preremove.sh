#!/bin/sh
# Stops the service when the package is removed, and not when another version takes its place. Debian says "remove", RPM 0.
set -e
case "$1" in
remove | 0)
	if [ -d /run/systemd/system ]; then
		systemctl disable --now millrace.service
	fi
	;;
esac
