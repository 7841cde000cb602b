package fairness

import (
	"syscall"
	"time"
)

// niceness is how much nicer the threads of lanes are than the program: they get a third of what others get of a processor that both want.
const niceness = 5

// yield has the kernel prefer the other threads to that of the caller. Nothing undoes it: the thread is to end with its goroutine.
func yield() {
	thread := syscall.Gettid()
	raw, err := syscall.Getpriority(syscall.PRIO_PROCESS, thread)
	if err != nil {
		return
	}
	const zero = 20 // what the kernel says of a niceness of zero; it counts down
	// A system that does not allow it loses what it would bring, and nothing else.
	_ = syscall.Setpriority(syscall.PRIO_PROCESS, thread, zero-raw+niceness)
}

// rest leaves the processor to others for a moment. Go's own timers are too coarse for that: if a program has nothing else to do, they wait for a
// millisecond at least.
func rest() {
	left := syscall.NsecToTimespec(moment.Nanoseconds())
	_ = syscall.Nanosleep(&left, nil) // a signal may end it early
}

// moment is about as long as a get takes, on this side and its client's.
const moment = 50 * time.Microsecond
