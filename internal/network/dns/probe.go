package dns

import (
	"context"
	"crypto/rand"
	"strings"
	"sync"

	wire "github.com/miekg/dns"
)

// probeDomain is the end of the names of probes. Nothing else asks for such names.
const probeDomain = ".loop.millrace.invalid."

// probes finds upstream servers that forward to this server. Each is asked for a name that nothing else knows. If that
// question arrives here, the server forwards to us, and a question to it would go round for ever.
type probes struct {
	mu   sync.Mutex
	sent map[string]chan struct{} // guarded by mu: by name; closed when the question has arrived here
}

// returned reports whether a name is a probe's, and records that its question has arrived.
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

// probe asks one server, and reports whether the question came back to this server.
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
	_, _ = u.exchange(ctx, new(wire.Msg).SetQuestion(name, wire.TypeHINFO), "udp") // the answer does not matter
	select {
	case <-back:
		return true
	default:
		return false
	}
}
