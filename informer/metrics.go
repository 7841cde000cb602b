package informer

import "time"

// Metrics receives an informer's counts. The name is that of the informer, so labels are as many as informers. Methods
// are called from several goroutines and must not block. Package prommetrics has one for Prometheus.
type Metrics interface {
	// Listed: a list (or a streamed one) is complete.
	Listed(informer string, items int, took time.Duration)
	// Watched: a watch has ended, after so many events.
	Watched(informer string, events int, took time.Duration)
	// Failed: a list or watch has failed.
	Failed(informer string)
	// Position: the cache has reached this resource version and holds so many objects.
	Position(informer string, resourceVersion uint64, objects int)
	// Handled: a handler has worked on one change for so long.
	Handled(informer string, took time.Duration)
	// Panicked: a handler panicked.
	Panicked(informer string)
}

type noMetrics struct{}

func (noMetrics) Listed(string, int, time.Duration)  {}
func (noMetrics) Watched(string, int, time.Duration) {}
func (noMetrics) Failed(string)                      {}
func (noMetrics) Position(string, uint64, int)       {}
func (noMetrics) Handled(string, time.Duration)      {}
func (noMetrics) Panicked(string)                    {}
