package etcd

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/millrace/millrace/internal/server/store"
)

// Options says which cluster to use. Only Endpoints is required.
type Options struct {
	// Endpoints are URLs such as https://10.0.0.1:2379.
	Endpoints []string
	// Prefix is put in front of every key in the cluster; callers do not see it. It is not kube-apiserver's
	// --etcd-prefix, which is part of the keys.
	Prefix string
	// CertFile and KeyFile hold the client's certificate. The servers' certificates are verified with CAFile.
	CertFile, KeyFile, CAFile string
	// DialTimeout is how long Dial tries to reach the cluster; zero means 20 seconds.
	DialTimeout time.Duration
	// RequestTimeout is how long a request may stay unanswered before it fails with store.ErrUnavailable; zero means 10
	// seconds.
	RequestTimeout time.Duration
	// KeepAlive is how often an idle connection is probed; zero means every 30 seconds.
	KeepAlive time.Duration
	// MaxRequestBytes is the largest write that is sent; zero means 2 MiB. The etcd servers have a limit of their own.
	MaxRequestBytes int
	// Logger receives the client's warnings and errors, and the reasons why Dial retries. Nil discards them.
	Logger *slog.Logger
}

// Dial connects to a cluster and checks that it answers, and that its servers are not too old. While it does not answer, Dial logs that at once and again
// every few seconds.
func Dial(ctx context.Context, o Options) (*Store, error) {
	o.DialTimeout = cmp.Or(o.DialTimeout, 20*time.Second)
	o.RequestTimeout = cmp.Or(o.RequestTimeout, 10*time.Second)
	o.KeepAlive = cmp.Or(o.KeepAlive, 30*time.Second)
	o.MaxRequestBytes = cmp.Or(o.MaxRequestBytes, 2<<20)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	client, err := connect(o)
	if err != nil {
		return nil, fmt.Errorf("etcd at %s: %w", strings.Join(o.Endpoints, ", "), err)
	}
	s := newStore(newRemote(client, o), o.Prefix)
	if err := o.reach(ctx, s.ask); err != nil {
		return nil, errors.Join(fmt.Errorf("etcd at %s cannot be reached: %w", strings.Join(o.Endpoints, ", "), err), s.Close())
	}
	err = o.checkVersions(ctx, func(ctx context.Context, endpoint string) (string, error) {
		status, err := client.Status(ctx, endpoint)
		if err != nil {
			return "", err
		}
		return status.Version, nil
	})
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func connect(o Options) (*clientv3.Client, error) {
	if len(o.Endpoints) == 0 {
		return nil, errors.New("no endpoint is given")
	}
	cfg := clientv3.Config{
		Endpoints:            o.Endpoints,
		DialTimeout:          o.DialTimeout,
		DialKeepAliveTime:    o.KeepAlive,
		DialKeepAliveTimeout: o.KeepAlive / 3,
		Logger:               newZap(o.Logger),
	}
	if secure(o) {
		config, err := o.tls().ClientConfig()
		if err != nil {
			return nil, err
		}
		cfg.TLS = config
	}
	return clientv3.New(cfg)
}

func (o Options) tls() transport.TLSInfo {
	return transport.TLSInfo{CertFile: o.CertFile, KeyFile: o.KeyFile, TrustedCAFile: o.CAFile}
}

// secure says whether to use TLS: if there is a certificate, or an https address.
func secure(o Options) bool {
	if o.CertFile != "" || o.CAFile != "" {
		return true
	}
	for _, e := range o.Endpoints {
		if strings.HasPrefix(e, "https://") || strings.HasPrefix(e, "unixs:") {
			return true
		}
	}
	return false
}

const (
	// attemptTimeout bounds each attempt, so that a server that accepts a connection and then stays silent is noticed.
	attemptTimeout = time.Second
	// retryInterval is the time between two attempts. logInterval is the time between two log lines about them.
	retryInterval = 200 * time.Millisecond
	logInterval   = 5 * time.Second
)

// reach repeats ask until the cluster answers.
func (o Options) reach(ctx context.Context, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, o.DialTimeout, fmt.Errorf("no answer within %v: %w", o.DialTimeout, store.ErrUnavailable))
	defer cancel()
	until, _ := ctx.Deadline()
	var last error
	var said time.Time
	for {
		err := attempt(ctx, ask)
		if err == nil {
			return nil
		}
		if last == nil {
			last = meaning(err)
		}
		if ctx.Err() == nil && time.Since(said) >= logInterval {
			said, last = time.Now(), o.reason(ctx, meaning(err))
			o.Logger.Warn("etcd does not answer; trying again", "servers", o.Endpoints, "error", last, "givingUpAfter", time.Until(until).Round(time.Second))
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w (last: %w)", context.Cause(ctx), last)
		case <-time.After(retryInterval):
		}
	}
}

// ask sends a request that every etcd can answer.
func (s *Store) ask(ctx context.Context) error {
	_, err := s.cluster.revision(ctx)
	return err
}

func attempt(ctx context.Context, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	return ask(ctx)
}

// reason finds out why the servers do not answer. The etcd client does not say why it has no connection, so each
// address is tried without it.
func (o Options) reason(ctx context.Context, err error) error {
	config := &tls.Config{}
	if secure(o) {
		var bad error
		if config, bad = o.tls().ClientConfig(); bad != nil {
			return fmt.Errorf("%w: %w", store.ErrUnavailable, bad)
		}
	}
	for _, endpoint := range o.Endpoints {
		if bad := try(ctx, endpoint, config); bad != nil {
			return fmt.Errorf("%w: %w", store.ErrUnavailable, bad)
		}
	}
	return err
}

// try connects to one server, with TLS if its URL says so.
func try(ctx context.Context, endpoint string, config *tls.Config) error {
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	var conn net.Conn
	if u.Scheme == "https" {
		conn, err = (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", u.Host)
	} else {
		conn, err = (&net.Dialer{}).DialContext(ctx, "tcp", u.Host)
	}
	if err != nil {
		return err
	}
	return conn.Close()
}
