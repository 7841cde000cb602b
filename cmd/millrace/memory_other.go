//go:build !linux

package main

import "runtime/debug"

// giveBack returns the garbage of the start.
func giveBack() { debug.FreeOSMemory() }
