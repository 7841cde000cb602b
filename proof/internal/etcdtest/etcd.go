// Package etcdtest starts an etcd that several API servers share.
package etcdtest

import (
	"net/url"
	"testing"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/server/store/etcd/etcdtest"
	"github.com/millrace/millrace/proof/internal/network"
)

// Start starts an etcd with one member, and returns its URL. It ends with the test.
func Start(t testing.TB) string {
	t.Helper()
	return etcdtest.Start(t, etcdtest.Options{}).URL
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
