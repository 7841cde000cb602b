package fairness

import (
	"runtime"
	"sync"
)

// spare is how many more threads than there are processors may run Go code while there are lanes. What a thread of a lane has begun keeps its right
// to run Go code while the kernel prefers others to it, and Go waits for the network in the kernel only while one of these rights is free.
const spare = 4

// widened is whether there are more, for all servers of the process.
var widened struct {
	mu     sync.Mutex
	wanted int // by how many lanes
	before int // how many threads there were without
}

func widen() {
	w := &widened
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.wanted++; w.wanted == 1 {
		w.before = runtime.GOMAXPROCS(0)
		runtime.GOMAXPROCS(wider(w.before))
	}
}

// wider is how many threads may run Go code while there are lanes. If somebody lets the program have less than all processors, it stays with that: a container
// that has used its share is stopped until the next tenth of a second.
func wider(before int) int {
	if before < runtime.NumCPU() {
		return before
	}
	return before + spare
}

func narrow() {
	w := &widened
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.wanted--; w.wanted == 0 {
		runtime.GOMAXPROCS(w.before)
	}
}

// processors is how many threads run Go code without those for lanes.
func processors() int {
	w := &widened
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.wanted > 0 {
		return w.before
	}
	return runtime.GOMAXPROCS(0)
}
