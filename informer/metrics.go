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
	// Moved: the cache has reached this resource version (zero if it is not a number) and holds so many objects.
	Moved(informer string, resourceVersion uint64, objects int)
	// Panicked: a handler panicked.
	Panicked(informer string)
}

type noMetrics struct{}

func (noMetrics) Listed(string, int, time.Duration)  {}
func (noMetrics) Watched(string, int, time.Duration) {}
func (noMetrics) Failed(string)                      {}
func (noMetrics) Moved(string, uint64, int)          {}
func (noMetrics) Panicked(string)                    {}
