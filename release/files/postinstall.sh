#!/bin/sh
# Makes the user, and restarts a service that runs. A new one is not started: systemctl enable --now millrace does.
set -e
if command -v systemd-sysusers >/dev/null 2>&1; then
	systemd-sysusers /usr/lib/sysusers.d/millrace.conf
elif ! getent passwd millrace >/dev/null; then
	useradd --system --user-group --home-dir /var/lib/millrace --no-create-home --shell /usr/sbin/nologin millrace
fi
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	systemctl try-restart millrace.service
fi
