package dns

import (
	"context"

	"github.com/millrace/millrace/loop"
)

// Listen listens for both protocols on the same port.
var Listen = listen

// Aliases is how many CNAMEs are followed for one question.
const Aliases = maxAliases

// WaitSynced waits until the informers have synced.
func (s *Server) WaitSynced(ctx context.Context) error {
	v := s.zone.view
	for _, c := range []loop.Cache{v.services, v.endpoints, v.namespaces} {
		if err := c.Synced(ctx); err != nil {
			return err
		}
	}
	return nil
}

// WaitServices waits until the server's informer has a version of the services.
func (s *Server) WaitServices(ctx context.Context, version string) error {
	return s.zone.services.WaitFor(ctx, version)
}

// WaitSlices waits until the server's informer has a version of the slices.
func (s *Server) WaitSlices(ctx context.Context, version string) error {
	return s.zone.endpoints.WaitFor(ctx, version)
}

// Probe reports whether a server forwards to this one.
func (s *Server) Probe(ctx context.Context, address string) bool {
	return s.probes.probe(ctx, &upstream{address: address})
}
