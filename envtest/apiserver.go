package envtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"text/template"
	"time"

	"github.com/millrace/millrace"
)

// ListenAddr is an address to listen on.
type ListenAddr struct {
	Address string
	Port    string
}

// URL is a URL at this address.
func (l *ListenAddr) URL(scheme, path string) *url.URL {
	return &url.URL{Scheme: scheme, Host: l.HostPort(), Path: path}
}

// HostPort is the address with its port.
func (l *ListenAddr) HostPort() string { return net.JoinHostPort(l.Address, l.Port) }

// SecureServing says how the API is served.
type SecureServing struct {
	// ListenAddr is where the API is served: a free port of 127.0.0.1 by default.
	ListenAddr
	// CA are the authorities of the API server's certificate. Start sets it.
	CA []byte
	// Authn makes users. Start sets it, to client certificates, if it is nil.
	Authn
}

// APIServer is the API server, with everything that it needs, in this process.
type APIServer struct {
	// URL is where the API is served. Start sets it.
	//
	// Deprecated: use SecureServing.
	URL *url.URL
	// SecurePort is the port to listen on.
	//
	// Deprecated: use SecureServing.
	SecurePort int
	// SecureServing says how the API is served.
	SecureServing
	// InsecureServing was for an API without TLS, which no API server has any more: Start fails if it is set.
	//
	// Deprecated: use SecureServing.
	InsecureServing *ListenAddr
	// Path means nothing: there is no binary.
	Path string
	// Args are flags of kube-apiserver, as templates over this struct.
	//
	// Deprecated: use Configure.
	Args []string
	// CertDir is a directory of keys and certificates, which are kept in memory if it is empty.
	CertDir string
	// EtcdURL names an etcd that keeps the objects. They are kept in memory if it is nil.
	EtcdURL *url.URL
	// StartTimeout bounds the start: 20 seconds by default.
	StartTimeout time.Duration
	// StopTimeout means nothing: an end is bounded to a second by itself.
	StopTimeout time.Duration
	// Out means nothing. Err gets what the API server logs, which is discarded if it is nil.
	Out io.Writer
	Err io.Writer

	arguments *Arguments
	loops     Loops
	virtual   bool
	cluster   *millrace.Cluster
	scratch   string // a directory for kubeconfigs, if there is one
}

// Configure are the flags of kube-apiserver to start with. Those that change nothing here are accepted; one that is not
// known is an error of Start.
func (s *APIServer) Configure() *Arguments {
	if s.arguments == nil {
		s.arguments = EmptyArguments()
	}
	return s.arguments
}

// Start starts the API server and returns when it is ready.
func (s *APIServer) Start() error {
	if s.cluster != nil {
		return errors.New("the API server has been started already")
	}
	o, err := s.options()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), orDefault(s.StartTimeout), errors.New("the API server did not start in time"))
	defer cancel()
	if s.cluster, err = millrace.Start(ctx, o); err != nil {
		return errors.Join(err, s.stopAuthn())
	}
	s.note()
	return nil
}

// note fills in what is known once the API server has started.
func (s *APIServer) note() {
	config := s.cluster.Config()
	s.CA = config.CAData
	if u, err := url.Parse(s.cluster.URL()); err == nil && u.Host != "" {
		s.Address, s.Port = u.Hostname(), u.Port()
		s.URL = u
	}
	if own, ok := s.Authn.(*certificates); ok {
		own.cluster = s.cluster
	}
}

func orDefault(d time.Duration) time.Duration {
	if d == 0 {
		return defaultTimeout
	}
	return d
}

// options are what the fields and the flags say.
func (s *APIServer) options() (millrace.Options, error) {
	o := millrace.Options{Listen: s.listen(), Keys: s.CertDir}
	if s.InsecureServing != nil {
		return o, errors.New("the API is served with TLS only: leave out InsecureServing")
	}
	if s.EtcdURL != nil {
		o.Etcd.Servers = []string{s.EtcdURL.String()}
	}
	if s.Err != nil {
		o.Logger = slog.New(slog.NewTextHandler(s.Err, nil))
	}
	s.loops.set(&o)
	if err := s.addArgs(); err != nil {
		return o, err
	}
	if err := s.prepareAuthn(); err != nil {
		return o, err
	}
	return o, s.Configure().apply(&o)
}

// listen is the address to listen on.
func (s *APIServer) listen() string {
	if s.virtual {
		return "none"
	}
	address, port := s.Address, s.Port
	if address == "" {
		address = "127.0.0.1"
	}
	switch {
	case s.SecurePort != 0:
		port = strconv.Itoa(s.SecurePort)
	case port == "" || port == "-1":
		port = "0"
	}
	return net.JoinHostPort(address, port)
}

func (s *APIServer) prepareAuthn() error {
	if s.Authn == nil {
		s.Authn = &certificates{}
	}
	if err := s.Authn.Configure(s.CertDir, s.Configure()); err != nil {
		return err
	}
	return s.Authn.Start()
}

func (s *APIServer) stopAuthn() error {
	if s.Authn == nil {
		return nil
	}
	return s.Authn.Stop()
}

// addArgs adds the deprecated Args to the flags.
func (s *APIServer) addArgs() error {
	for _, text := range s.Args {
		t, err := template.New("argument").Parse(text)
		if err != nil {
			return fmt.Errorf("argument %q: %w", text, err)
		}
		var b bytes.Buffer
		if err := t.Execute(&b, s); err != nil {
			return fmt.Errorf("argument %q: %w", text, err)
		}
		flag, isFlag := strings.CutPrefix(b.String(), "--")
		name, value, hasValue := strings.Cut(flag, "=")
		switch {
		case !isFlag || name == "":
			return fmt.Errorf("argument %q is not a flag such as --name=value", text)
		case hasValue:
			s.Configure().Append(name, value)
		default:
			s.Configure().Enable(name)
		}
	}
	return nil
}

// Stop ends the API server. It may be started again, and then begins empty.
func (s *APIServer) Stop() error {
	if s.cluster == nil {
		return nil
	}
	err := errors.Join(s.cluster.Close(), s.stopAuthn())
	s.cluster = nil
	if s.scratch != "" {
		err = errors.Join(err, os.RemoveAll(s.scratch))
		s.scratch = ""
	}
	return err
}

// directory is where kubeconfigs for kubectl are written.
func (s *APIServer) directory() (string, error) {
	if s.scratch != "" {
		return s.scratch, nil
	}
	directory, err := os.MkdirTemp("", "envtest-")
	s.scratch = directory
	return directory, err
}

// Etcd is the store of the API server, which is part of it: nothing is started, and only URL means something.
type Etcd struct {
	// URL names an etcd that runs already, for the API server to keep its objects in.
	URL *url.URL

	Path         string
	Args         []string
	DataDir      string
	StartTimeout time.Duration
	StopTimeout  time.Duration
	Out          io.Writer
	Err          io.Writer

	arguments *Arguments
}

// Start does nothing.
func (e *Etcd) Start() error { return nil }

// Stop does nothing.
func (e *Etcd) Stop() error { return nil }

// Configure are flags that mean nothing.
func (e *Etcd) Configure() *Arguments {
	if e.arguments == nil {
		e.arguments = EmptyArguments()
	}
	return e.arguments
}
