package webhook

import (
	"crypto/sha256"
	"net"
	"net/url"
	"path"
	"strconv"
	"time"

	"github.com/millrace/millrace/internal/server/services"
)

// Target is what a configuration names: a URL or a service.
type Target struct {
	URL     string
	Service *Service
	// CABundle holds the authorities, in PEM, of which one must have signed the server's certificate. Empty are those
	// of the machine.
	CABundle []byte
	// Credentials are with which the server is called; nil is none.
	Credentials *Credentials
	// Timeout is told to the server and ends the call; zero leaves that to the context.
	Timeout time.Duration
}

// Service names a port of a service, and a path behind it.
type Service struct {
	Namespace, Name, Path string
	// Port is 443 if it is zero.
	Port int32
}

const defaultPort = 443

func (s *Service) port() int32 {
	if s.Port == 0 {
		return defaultPort
	}
	return s.Port
}

// at is the port that is called.
func (s *Service) at() services.Port {
	return services.Port{Namespace: s.Namespace, Name: s.Name, Number: s.port()}
}

// host is the name that the certificate of the service must have.
func (s *Service) host() string { return s.Name + "." + s.Namespace + ".svc" }

// address is the URL as it stands in errors and, but for the host of a service, in the request. As in Kubernetes its
// path is cleaned: servers redirect requests for "//path", which envtest configures, and redirects are not followed.
func (t *Target) address() (*url.URL, error) {
	u := &url.URL{Scheme: "https"}
	if s := t.Service; s != nil {
		u.Host = net.JoinHostPort(s.host(), strconv.Itoa(int(s.port())))
		u.Path = s.Path
	} else {
		var err error
		if u, err = url.Parse(t.URL); err != nil {
			return nil, err
		}
	}
	u.Path = path.Join("/", u.Path)
	if t.Timeout > 0 {
		u.RawQuery = "timeout=" + t.Timeout.String()
	}
	return u, nil
}

// trust is what connections have in common that may serve the same calls.
type trust struct {
	authorities [sha256.Size]byte
	serverName  string
	user        *user
}

func (t *Target) trust() trust {
	k := trust{authorities: sha256.Sum256(t.CABundle), user: t.user()}
	if t.Service != nil {
		k.serverName = t.Service.host()
	}
	return k
}

// user is with whose credentials the server is called; nil is nobody's.
func (t *Target) user() *user {
	if t.Credentials == nil {
		return nil
	}
	u, err := t.address()
	if err != nil {
		return nil // which the call tells
	}
	return t.Credentials.of(u.Host)
}
