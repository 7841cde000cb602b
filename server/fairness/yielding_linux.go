package fairness

import "syscall"

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
