package apiserver

import (
	"strings"
	"testing"
	"time"
)

func TestFlagsOfServingReachTheServer(t *testing.T) {
	o, err := optionsOf(t, "--profiling=false", "--shutdown-delay-duration=7s", "--external-hostname=api.example", "--goaway-chance=0.02",
		`--cors-allowed-origins=//a\.example(:|$),^https://b\.example$`, "--strict-transport-security-directives=max-age=1,includeSubDomains,preload")
	s := o.Serving
	if err != nil || !s.NoProfiling || s.ShutdownDelay != 7*time.Second || s.ExternalHostname != "api.example" {
		t.Fatalf("%+v, %v", s, err)
	}
	h := s.Headers
	if h.GoAwayChance != 0.02 || len(h.Origins) != 2 || !h.Origins[1].MatchString("https://b.example") || strings.Join(h.StrictTransport, " ") != "max-age=1 includeSubDomains preload" {
		t.Errorf("%+v", h)
	}
	if o, err := optionsOf(t); err != nil || o.Serving.NoProfiling {
		t.Errorf("profiles are not served by default: %v", err)
	}
}
