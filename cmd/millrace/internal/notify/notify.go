// Package notify tells systemd when the program is ready and when it ends, as services of Type=notify do. Without
// systemd, which names no socket then, nothing happens.
package notify

import (
	"errors"
	"net"
	"os"
)

// Ready tells that requests are served.
func Ready() error { return send("READY=1") }

// Stopping tells that the program ends in order, and that nothing is wrong if that takes a while.
func Stopping() error { return send("STOPPING=1") }

// send sends one datagram to the socket of sd_notify(3). An @ before its name, which is abstract then, is understood by
// package net.
func send(state string) (err error) {
	socket := os.Getenv("NOTIFY_SOCKET")
	if socket == "" {
		return nil
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Net: "unixgram", Name: socket})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	_, err = c.Write([]byte(state))
	return err
}
