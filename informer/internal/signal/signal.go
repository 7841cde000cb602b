// Package signal lets goroutines wait until something happens the next time.
package signal

import "sync/atomic"

// Signal wakes any number of goroutines. Raising it costs almost nothing if no goroutine waits. The zero value is ready
// to use.
type Signal struct {
	armed atomic.Pointer[chan struct{}]
}

// Wait returns a channel that is closed by the next Raise after this call. To miss nothing, call Wait first, then check
// the state, and only then receive from the channel.
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

// Raise wakes all waiting goroutines.
func (s *Signal) Raise() {
	if s.armed.Load() == nil {
		return
	}
	if armed := s.armed.Swap(nil); armed != nil {
		close(*armed)
	}
}
