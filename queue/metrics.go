package queue

import "time"

// Metrics gives each queue its counters.
type Metrics interface {
	// Queue is called once, when a queue is made. state reads the queue at any
	// time, so that gauges need no ticking goroutine.
	Queue(name string, state func() State) Counters
}

// Counters is called for what happens in one queue, with the queue's lock held: its methods must be quick and must not
// call the queue.
type Counters interface {
	Added()
	Taken(waited time.Duration)
	Finished(worked time.Duration)
	Retried()
}

// State is what a queue holds at one moment.
type State struct {
	Ready   int // keys that wait for a worker
	Delayed int // keys that wait for their time
	Working int // keys in the hands of workers

	Next time.Duration // until the first delayed key is due

	Unfinished time.Duration // sum of the time spent on keys still worked on
	Longest    time.Duration // the longest of them
}

type noMetrics struct{}

func (noMetrics) Queue(string, func() State) Counters { return noMetrics{} }
func (noMetrics) Added()                              {}
func (noMetrics) Taken(time.Duration)                 {}
func (noMetrics) Finished(time.Duration)              {}
func (noMetrics) Retried()                            {}
