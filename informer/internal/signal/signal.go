// Package signal lets goroutines wait for the next time that something happens.
package signal

import "sync/atomic"

// Signal wakes any number of goroutines. Raising it costs next to nothing while nobody waits. The zero value is ready.
type Signal struct {
	armed atomic.Pointer[chan struct{}]
}

// Wait returns a channel that is closed by the next Raise after this call. To miss nothing, call Wait first, look at the
// state that it is about, and only then receive from the channel.
func (s *Signal) Wait() <-chan struct{} {
	for {
		if armed := s.armed.Load(); armed != nil {
			return *armed
		}
		fresh := make(chan struct{})
		if s.armed.CompareAndSwap(nil, &fresh) {
			return fresh
		}
	}
}

// Raise wakes all who wait.
func (s *Signal) Raise() {
	if s.armed.Load() == nil {
		return
	}
	if armed := s.armed.Swap(nil); armed != nil {
		close(*armed)
	}
}
