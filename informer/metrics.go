package informer

import "time"

// Metrics receives an informer's counts, with its name: so there are as many labels as informers. Methods are called
// from several goroutines and must not block. Package prommetrics implements it for Prometheus.
type Metrics interface {
	// Listed is called when a list, in pages or streamed, is complete.
	Listed(informer string, items int, took time.Duration)
	// Watched is called when a watch has ended, with the number of its events.
	Watched(informer string, events int, took time.Duration)
	// Failed is called when a list or watch has failed.
	Failed(informer string)
	// Moved is called when the cache has reached a resource version (zero if it is not a number), with the number of
	// objects.
	Moved(informer string, resourceVersion uint64, objects int)
	// Panicked is called when a handler has panicked.
	Panicked(informer string)
}

type noMetrics struct{}

func (noMetrics) Listed(string, int, time.Duration)  {}
func (noMetrics) Watched(string, int, time.Duration) {}
func (noMetrics) Failed(string)                      {}
func (noMetrics) Moved(string, uint64, int)          {}
func (noMetrics) Panicked(string)                    {}
