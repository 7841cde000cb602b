//go:build !linux

package network

func Plugin() (code int, called bool) { return 0, false }
