package dns

import (
	"context"
	"crypto/rand"
	"strings"
	"sync"

	wire "github.com/miekg/dns"
)

// probeDomain ends the names of probes. Nobody else asks for them.
const probeDomain = ".loop.millrace.invalid."

// probes finds upstream servers that lead back to this server: each is asked for a name that nobody else knows. If the question
// arrives here, the server forwards to us, and to ask it would go round for ever.
type probes struct {
	mu   sync.Mutex
	sent map[string]chan struct{} // guarded by mu: by name; closed when the name has come back
}

// returned tells whether a name is a probe, and notes that it came back.
func (p *probes) returned(name string) bool {
	if !strings.HasSuffix(name, probeDomain) {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if back, ours := p.sent[name]; ours {
		close(back)
		delete(p.sent, name)
	}
	return true
}

// probe asks one server, and tells whether the question came back.
func (p *probes) probe(ctx context.Context, u *upstream) bool {
	name := strings.ToLower(rand.Text()) + probeDomain
	back := make(chan struct{})
	p.mu.Lock()
	if p.sent == nil {
		p.sent = map[string]chan struct{}{}
	}
	p.sent[name] = back
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.sent, name)
		p.mu.Unlock()
	}()
	_, _ = u.exchange(ctx, new(wire.Msg).SetQuestion(name, wire.TypeHINFO), "udp") // what comes back does not matter
	select {
	case <-back:
		return true
	default:
		return false
	}
}
