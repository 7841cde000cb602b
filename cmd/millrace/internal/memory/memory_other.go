//go:build !linux

package memory

import "runtime/debug"

// GiveBack releases unused heap.
func GiveBack() { debug.FreeOSMemory() }
