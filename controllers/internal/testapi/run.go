package testapi

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/millrace/millrace/loop"
)

// Start runs loops, and whatever else is given, until the test ends.
func Start(t testing.TB, clients *loop.Clients, entries ...loop.Entry) (stop func()) {
	t.Helper()
	return Run(t, clients, Make(t, clients, entries...)...)
}

// Make makes the loops of entries.
func Make(t testing.TB, clients *loop.Clients, entries ...loop.Entry) []loop.Runner {
	t.Helper()
	var runners []loop.Runner
	for _, entry := range entries {
		runner, err := entry.Make(clients)
		if err != nil {
			t.Fatal(err)
		}
		runners = append(runners, runner)
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

var errLost = errors.New("connection reset")

// Faults loses one of five writing requests while what it returns is true: half
// of them before they arrive, and of the others the answer.
func (s *Server) Faults(random *rand.Rand) *atomic.Bool {
	on := new(atomic.Bool)
	var mu sync.Mutex // guards random
	lose := func(r *http.Request) error {
		mu.Lock()
		defer mu.Unlock()
		if on.Load() && r.Method != http.MethodGet && random.IntN(10) == 0 {
			return errLost
		}
		return nil
	}
	s.Intercept(lose, lose)
	return on
}
