package etcd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/millrace/millrace/server/store"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
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
	// Logger gets the client's warnings and errors. Nil discards them.
	Logger *slog.Logger
}

// Dial connects to a cluster and makes sure that it answers.
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
	if err := s.reach(ctx, o.DialTimeout); err != nil {
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
	tls := transport.TLSInfo{CertFile: o.CertFile, KeyFile: o.KeyFile, TrustedCAFile: o.CAFile}
	if secure(o) {
		config, err := tls.ClientConfig()
		if err != nil {
			return nil, err
		}
		cfg.TLS = config
	}
	return clientv3.New(cfg)
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

// reach asks until there is an answer.
func (s *Store) reach(ctx context.Context, timeout time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("no answer within %v: %w", timeout, store.ErrUnavailable))
	defer cancel()
	var last error
	for {
		_, err := s.engine.revision(ctx)
		if err == nil {
			return nil
		}
		if last == nil || ctx.Err() == nil {
			last = meaning(err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w (last: %w)", context.Cause(ctx), last)
		case <-time.After(200 * time.Millisecond):
		}
	}
}
