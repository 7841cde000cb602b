package looptest

import (
	"context"
	"sync"
	"testing"

	"github.com/millrace/millrace/loop"
)

// Start runs loops, and whatever else is given, until the test ends.
func Start(t testing.TB, clients *loop.Clients, entries ...loop.Entry) (stop func()) {
	t.Helper()
	return Run(t, clients, Make(t, clients, entries...)...)
}

// Make makes the loops of entries, except those that have nothing to do.
func Make(t testing.TB, clients *loop.Clients, entries ...loop.Entry) []loop.Runner {
	t.Helper()
	var runners []loop.Runner
	for _, entry := range entries {
		runner, err := entry.Make(clients)
		if err != nil {
			t.Fatal(err)
		}
		if runner != nil {
			runners = append(runners, runner)
		}
	}
	return runners
}

// Run runs runners until the test ends or stop is called.
func Run(t testing.TB, clients *loop.Clients, runners ...loop.Runner) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- loop.Run(ctx, clients, runners...) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}
