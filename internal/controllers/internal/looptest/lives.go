package looptest

import (
	"context"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"

	"github.com/millrace/millrace/loop"
)

// Lives runs loops that crash: each process ends at a random one of its writes, before or after the server has
// processed it, and the next one starts with nothing but the API. After Calm there are no more crashes.
type Lives struct {
	server  *Server
	entries []loop.Entry
	done    chan struct{}

	mu     sync.Mutex // guards what follows
	random *rand.Rand
	calm   bool
	deaths int
	life   *life
}

// life is the transport of one process.
type life struct {
	lives *Lives
	end   context.CancelFunc
	ctx   context.Context
	left  int // writes until the crash; guarded by lives.mu
}

// StartLives starts the first process. The last one ends with the test.
func StartLives(t testing.TB, server *Server, random *rand.Rand, entries ...loop.Entry) *Lives {
	l := &Lives{server: server, entries: entries, random: random, done: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer close(l.done)
		for ctx.Err() == nil {
			l.live(ctx, t)
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-l.done
	})
	return l
}

func (l *Lives) live(ctx context.Context, t testing.TB) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l.mu.Lock()
	current := &life{lives: l, ctx: ctx, end: cancel, left: 1 + l.random.IntN(25)}
	l.life = current
	l.mu.Unlock()
	clients := l.server.clientsOver(current)
	if err := loop.Run(ctx, clients, Make(t, clients, l.entries...)...); err != nil && ctx.Err() == nil {
		t.Error(err)
	}
}

// Calm stops the crashes, and returns how many there were.
func (l *Lives) Calm() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calm = true
	return l.deaths
}

// Deaths returns how many processes have crashed.
func (l *Lives) Deaths() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.deaths
}

// RoundTrip sends a request, or crashes the process.
func (f *life) RoundTrip(request *http.Request) (*http.Response, error) {
	if f.ctx.Err() != nil {
		return nil, errLost
	}
	before, after := f.fate(request)
	if before {
		return nil, errLost
	}
	response, err := f.lives.server.RoundTrip(request)
	if after && err == nil {
		response.Body.Close()
		return nil, errLost
	}
	return response, err
}

func (f *life) fate(request *http.Request) (before, after bool) {
	l := f.lives
	l.mu.Lock()
	defer l.mu.Unlock()
	if request.Method == http.MethodGet || l.calm {
		return false, false
	}
	if f.left--; f.left > 0 {
		return false, false
	}
	if f.left == 0 {
		l.deaths++
		f.end()
	}
	if l.random.IntN(2) == 0 {
		return true, false
	}
	return false, true
}
