package dns

import (
	"context"
	"testing"

	wire "github.com/miekg/dns"
)

// Listen listens for both protocols on the same port.
var Listen = listen

// Aliases is how many CNAMEs are followed for one question.
const Aliases = maxAliases

// WaitServices waits until the server's informer has a version of the services.
func (s *Server) WaitServices(ctx context.Context, version string) error {
	return s.zone.services.WaitFor(ctx, version)
}

// WaitSlices waits until the server's informer has a version of the slices that it selects: those that are marked as
// slices of headless services, or those that somebody else than Kubernetes' controller has made.
func (s *Server) WaitSlices(ctx context.Context, version string, marked bool) error {
	if marked {
		return s.zone.slices[0].WaitFor(ctx, version)
	}
	return s.zone.slices[1].WaitFor(ctx, version)
}

// Slices is how many slices of a service, given as namespace/name, the server has.
func (s *Server) Slices(service string) (n int) {
	for range s.zone.endpointsBy(endpointsByService, service) {
		n++
	}
	return n
}

// Probe reports whether a server forwards to this one.
func (s *Server) Probe(ctx context.Context, address string) bool {
	return s.probes.probe(ctx, &upstream{address: address})
}

// Answer answers one request that needs no upstream server.
func (s *Server) Answer(t testing.TB, request *wire.Msg) *wire.Msg {
	return s.newAnswerer().ask(t, request)
}

// Answerer returns a function that answers requests as bytes, one after the other with the same memory. It returns
// nothing for what is malformed, and for what an upstream server must answer.
func (s *Server) Answerer() func(request []byte, limit int) []byte {
	answers := s.newAnswerer()
	var q query
	return func(request []byte, limit int) []byte {
		if !q.parse(request) {
			return nil
		}
		reply, alias := answers.answer(&q, limit)
		if alias != "" {
			return nil
		}
		return reply
	}
}
