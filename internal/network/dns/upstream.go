package dns

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	wire "github.com/miekg/dns"
)

// upstream is a server to which requests are forwarded.
type upstream struct {
	address string       // host:port
	failed  atomic.Int64 // when it last did not answer, in nanoseconds of Unix time; 0: never
	loops   atomic.Bool  // it forwards to this server
}

// avoidTime is how long a server that did not answer is asked after all others.
const avoidTime = 5 * time.Second

func (u *upstream) rank(now time.Time) int {
	if at := u.failed.Load(); at != 0 && now.Sub(time.Unix(0, at)) < avoidTime {
		return 1
	}
	return 0
}

// ask asks over UDP from a new port each time, and over TCP if the answer was truncated.
func (u *upstream) ask(ctx context.Context, key cacheKey) (*wire.Msg, error) {
	m := new(wire.Msg).SetQuestion(key.name, key.kind)
	m.CheckingDisabled = key.checking
	m.SetEdns0(largeSize, key.dnssec)
	reply, err := u.exchange(ctx, m, "udp")
	if err == nil && reply.Truncated {
		reply, err = u.exchange(ctx, m, "tcp")
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("ask %s: %w", u.address, err)
	case reply.Rcode == wire.RcodeServerFailure || reply.Rcode == wire.RcodeRefused || reply.Rcode == wire.RcodeFormatError || reply.Rcode == wire.RcodeNotImplemented:
		return nil, fmt.Errorf("ask %s: the answer is %s", u.address, wire.RcodeToString[reply.Rcode])
	}
	return reply, nil
}

func (u *upstream) exchange(ctx context.Context, m *wire.Msg, network string) (*wire.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, oneAttempt)
	defer cancel()
	client := &wire.Client{Net: network, Timeout: oneAttempt, UDPSize: largeSize}
	reply, _, err := client.ExchangeContext(ctx, m, u.address)
	return reply, err
}
