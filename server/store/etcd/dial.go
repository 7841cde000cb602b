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
	"go.uber.org/zap"

	"github.com/millrace/millrace/server/store"
)

// Options says which cluster to use. The zero value of all but Endpoints is good.
type Options struct {
	// Endpoints are URLs such as https://10.0.0.1:2379.
	Endpoints []string
	// Prefix goes before every key in the cluster, and is not seen by callers. It is not kube-apiserver's
	// --etcd-prefix: that one is part of the keys.
	Prefix string
	// CertFile and KeyFile are the client's certificate; CAFile is what the servers' certificates are checked with.
	CertFile, KeyFile, CAFile string
	// DialTimeout is how long Dial tries to reach the cluster; zero means 20 seconds.
	DialTimeout time.Duration
	// RequestTimeout ends a request that has no answer with store.ErrUnavailable; zero means 10 seconds.
	RequestTimeout time.Duration
	// KeepAlive is how often an idle connection is tested; zero means every 30 seconds.
	KeepAlive time.Duration
	// MaxRequestBytes is the largest write that is sent; zero means 2 MiB. Etcd has a limit of its own.
	MaxRequestBytes int
	// Logger gets the client's warnings and errors, and why Dial has to try again. Nil discards them.
	Logger *slog.Logger
}

// Dial connects to a cluster and makes sure that it answers. While it does not, Dial says so at once and every few seconds.
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
	s := newStore(newRemote(client, o), o.Prefix, o.Logger, nil)
	if err := s.reach(ctx, o); err != nil {
		return nil, errors.Join(fmt.Errorf("etcd at %s cannot be reached: %w", strings.Join(o.Endpoints, ", "), err), s.Close())
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
		Logger:               newZap(&bridge{log: o.Logger}, func(error) {}, zap.IncreaseLevel(zap.ErrorLevel)),
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

// secure says whether TLS is wanted: by a certificate or by an address.
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
	// attemptTimeout bounds one question, so that a server that takes a connection and says nothing is noticed.
	attemptTimeout = time.Second
	// askAgain is how soon the next question follows one that failed, sayAgain how soon that is logged once more.
	askAgain = 200 * time.Millisecond
	sayAgain = 5 * time.Second
)

// reach asks until there is an answer.
func (s *Store) reach(ctx context.Context, o Options) error {
	ctx, cancel := context.WithTimeoutCause(ctx, o.DialTimeout, fmt.Errorf("no answer within %v: %w", o.DialTimeout, store.ErrUnavailable))
	defer cancel()
	until, _ := ctx.Deadline()
	var last error
	var said time.Time
	for {
		err := s.ask(ctx)
		if err == nil {
			return nil
		}
		if last == nil {
			last = meaning(err)
		}
		if ctx.Err() == nil && time.Since(said) >= sayAgain {
			said, last = time.Now(), o.reason(ctx, meaning(err))
			o.Logger.Warn("etcd does not answer; trying again", "servers", o.Endpoints, "error", last, "givingUpAfter", time.Until(until).Round(time.Second))
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w (last: %w)", context.Cause(ctx), last)
		case <-time.After(askAgain):
		}
	}
}

// ask asks a question that any etcd can answer.
func (s *Store) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	_, err := s.engine.revision(ctx)
	return err
}

// reason is why servers do not answer. The client does not tell why it has no connection, so each address is tried without it.
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

// try connects to a server, with TLS if its URL says so.
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
