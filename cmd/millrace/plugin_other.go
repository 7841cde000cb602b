//go:build !linux

package main

func plugin() (code int, called bool) { return 0, false }
