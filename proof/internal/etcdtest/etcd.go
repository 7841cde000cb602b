// Package etcdtest starts an etcd that several API servers share.
package etcdtest

import (
	"net"
	"net/url"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/proof/internal/network"
)

// Start starts an etcd with one member, and returns its URL. It ends with the test.
func Start(t testing.TB) string {
	t.Helper()
	config := embed.NewConfig()
	client, peer := free(t), free(t)
	config.Dir = t.TempDir()
	config.ListenClientUrls, config.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	config.ListenPeerUrls, config.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	config.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	config.UnsafeNoFsync = true
	etcd, err := embed.StartEtcd(config)
	if err != nil {
		t.Fatal(err)
	}
	<-etcd.Server.ReadyNotify()
	t.Cleanup(func() {
		etcd.Server.HardStop()
		etcd.Close()
	})
	return client.String()
}

func free(t testing.TB) url.URL {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return url.URL{Scheme: "http", Host: l.Addr().String()}
}

// Late returns the URL of a way to an etcd on which all answers and events arrive late.
func Late(t testing.TB, etcd string, by time.Duration) string {
	t.Helper()
	at, err := url.Parse(etcd)
	if err != nil {
		t.Fatal(err)
	}
	way := network.New(t, at.Host)
	way.Delay(by)
	at.Host = way.Address()
	return at.String()
}

// Server starts an API server without loops that uses an etcd. It ends with the test, if it has not been closed before.
func Server(t testing.TB, etcd string) *millrace.Cluster {
	t.Helper()
	o := millrace.Options{Listen: "none", Controllers: []string{}, NoScheduler: true, CompactEvery: -1}
	o.Etcd.Servers = []string{etcd}
	c, err := millrace.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}
