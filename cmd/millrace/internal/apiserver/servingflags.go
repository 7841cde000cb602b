package apiserver

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/millrace/millrace"
)

// servingFlags configure how requests are served, under kube-apiserver's names.
type servingFlags struct {
	profiling        bool
	shutdownDelay    time.Duration
	externalHostname string
	origins          []string
	headers          millrace.HeaderOptions
}

func (f *servingFlags) add(fl *pflag.FlagSet) {
	h := &f.headers
	fl.BoolVar(&f.profiling, "profiling", true, "serve profiles of this process below /debug/pprof")
	fl.DurationVar(&f.shutdownDelay, "shutdown-delay-duration", 0, "how long the server continues after a signal, while /readyz says that it is not ready")
	fl.StringVar(&f.externalHostname, "external-hostname", "", "name of this server in documents for clients from outside (default: the address at which pods reach it)")
	fl.StringSliceVar(&f.origins, "cors-allowed-origins", nil, `regular expressions of the origins whose pages may call the server from a browser, such as ^https://example\.com(:|$)`)
	fl.StringSliceVar(&h.StrictTransport, "strict-transport-security-directives", nil, "directives of the header Strict-Transport-Security, such as max-age=31536000,includeSubDomains,preload")
	fl.Float64Var(&h.GoAwayChance, "goaway-chance", 0, "share of HTTP/2 requests, of at most 0.02, after which the client is told to connect again; keep 0 for a server without a load balancer")
}

// strictTransport matches the directives of the header Strict-Transport-Security.
var strictTransport = regexp.MustCompile(`^(max-age=[0-9]+|includeSubDomains|preload)$`)

// check reports wrong values, and compiles the origins.
func (f *servingFlags) check() error {
	h := &f.headers
	for _, d := range h.StrictTransport {
		if !strictTransport.MatchString(d) {
			return errors.New("--strict-transport-security-directives invalid, allowed values: max-age=expireTime, " +
				"includeSubDomains, preload. see https://tools.ietf.org/html/rfc6797#section-6.1 for more information")
		}
	}
	switch {
	case h.GoAwayChance < 0 || h.GoAwayChance > 0.02:
		return errors.New("--goaway-chance can not be less than 0 or greater than 0.02")
	case f.shutdownDelay < 0:
		return errors.New("--shutdown-delay-duration can not be negative value")
	}
	h.Origins = nil
	for _, pattern := range f.origins {
		compiled, err := origin(pattern)
		if err != nil {
			return fmt.Errorf("--cors-allowed-origins has an invalid regular expression: %w", err)
		}
		h.Origins = append(h.Origins, compiled)
	}
	return nil
}

// origin compiles the pattern of an origin. Like kube-apiserver it refuses one that has no mark for the start or the
// end of the host, because example.com alone would match example.com.evil.org.
func origin(pattern string) (*regexp.Regexp, error) {
	compiled, err := regexp.Compile(pattern)
	if err != nil {
		return nil, err
	}
	start := strings.HasPrefix(pattern, "^") || strings.Contains(pattern, "//")
	end := strings.HasSuffix(pattern, "$") || strings.Contains(pattern, ":")
	if !start || !end {
		return nil, errors.New("regular expression does not pin to start/end of host in the origin header")
	}
	return compiled, nil
}

// apply sets the options.
func (f *servingFlags) apply(o *millrace.ServingOptions) {
	o.NoProfiling, o.ShutdownDelay, o.ExternalHostname, o.Headers = !f.profiling, f.shutdownDelay, f.externalHostname, f.headers
}
